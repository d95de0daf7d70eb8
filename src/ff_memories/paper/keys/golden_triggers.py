"""Check the triggers of the keys that the paper shows (G6)."""

from typing import Any

import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_json
from ff_memories.base.parameters import Input, Output, Param, Params
from ff_memories.corpus import store
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.store import Corpus
from ff_memories.inputs import registry as registries


def endings(
    triggers: pl.DataFrame, corpus: Corpus, dictionary: Dictionary, known: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return, for each key of G6, the share of its triggers whose last word is one of the known words."""
    out = []
    for at in known.get("endings", []):
        listed = triggers.filter((pl.col("layer") == at["layer"]) & (pl.col("key") == at["key"])).sort("rank").head(25)
        ids = {dictionary.ids[word] for word in at["words"] if word in dictionary.ids}
        prefixes = [corpus.sentence(s)[:j].tolist() for s, j in listed.select("sentence", "position").iter_rows()]
        hits = [bool(prefix) and prefix[-1] in ids for prefix in prefixes]
        out.append({**at, "found": sum(hits) / len(hits) if hits else 0.0, "n": len(hits)})
    return out


def run(source: Param, registry: Params, dictionary: Input, corpus: Input, triggers: Input, out: Output) -> None:
    """Check the last tokens of the keys' triggers.

    Args:
        source: the checkpoint's name in the registry
        registry: another registry of sources
        out: file to write: the findings as JSON; written only if all checks pass
    """
    others = registry[0] if registry else None
    known = registries.golden(registries.source(source, others, "model"), others)
    measured = endings(tables.read(triggers), store.read(corpus), Dictionary.read(dictionary), known)
    if wrong := [at for at in measured if at["found"] < at["share"]]:
        lines = "\n  ".join(
            f"key {at['key']} of layer {at['layer']}: {at['found']:.0%} of {at['n']} triggers end in "
            f"{' or '.join(at['words'])}, expected at least {at['share']:.0%} (G6)"
            for at in wrong
        )
        hint = "check the text and triggers.positions, or set sources.golden: off to skip this check"
        raise UserError(f"these are not the known triggers of {source}\n  {lines}", hint)
    write_json(out, measured, sort_keys=True)

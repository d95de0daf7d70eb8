"""Agreement by id and folded, against a brute force over the triggers of a small model of `transformers`."""

from typing import Any

import numpy as np
import polars as pl
import pytest
import tiny

from ff_memories import tables
from ff_memories.config.sections import Values
from ff_memories.corpus.store import Corpus
from ff_memories.paper.values import values

NAMES = ("agrees", "agreeing_triggers")


def corpus(rng):
    lengths = np.full(40, 12)
    tokens = rng.integers(2, tiny.TYPES, lengths.sum()).astype(np.int32)
    return Corpus(tokens, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), 40)


@pytest.mark.parametrize("target", ["next", "last"])
@pytest.mark.parametrize("types", ["all", "trained"])
def test_a_value_agrees_with_every_type_of_its_class(target, types):
    rng = np.random.default_rng(3)
    text, decoder = corpus(rng), tiny.analysed(tiny.model("llama"), signs=2)
    decoder.vocabulary.leave_out(list(range(60, tiny.TYPES)))
    rows: list[dict[str, Any]] = [
        {"layer": layer, "key": key, "rank": rank, "sentence": rank, "position": int(rng.integers(1, 13))}
        for layer in range(1, tiny.LAYERS + 1) for key in range(2 * tiny.KEYS) if key % 7 for rank in (1, 2, 3)
    ]  # fmt: skip
    for row in rows:
        sentence = text.sentence(row["sentence"])
        row |= {"coefficient": 1.0, "next_token": int(sentence[row["position"]]) if row["position"] < 12 else None}
    triggers = tables.conform(pl.DataFrame(rows, infer_schema_length=None), tables.TABLES["triggers"])
    folds = rng.integers(0, 9, tiny.TYPES)
    args = decoder, decoder.vocabulary, triggers, text, Values(target=target, types=types)
    plain, made = values.table(*args), values.table(*args, folds=folds)
    assert made.select(plain.columns).equals(plain)
    assert set(made.columns) - set(plain.columns) == {
        f"{name}_folded{suffix}" for name in NAMES for suffix in ("", f"_{values.other(types)}")
    }
    listed = {}
    for row in rows:
        token = row["next_token"] if target == "next" else int(text.sentence(row["sentence"])[row["position"] - 1])
        listed.setdefault((row["layer"], row["key"]), []).append(token)
    moved = 0
    for row in made.iter_rows(named=True):
        tokens = listed.get((row["layer"], row["key"]), [None])
        for suffix in ("", f"_{values.other(types)}"):
            hits = [token is not None and folds[token] == folds[row["top_token" + suffix]] for token in tokens]
            assert row["agrees_folded" + suffix] == (None if tokens[0] is None else hits[0])
            assert row["agreeing_triggers_folded" + suffix] == sum(hits)
            moved += row["agreeing_triggers_folded" + suffix] > row["agreeing_triggers" + suffix]
    assert moved > 100 and made["agrees_folded"].null_count() > 100
    assert set(tables.conform(made, tables.TABLES["values"]).columns) == set(made.columns)

"""Write a run's first lines from its claims: what was run and found, what is due to training, what cannot be said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ff_memories.claims import own_text
from ff_memories.claims.layers import between
from ff_memories.claims.numbers import measured, number
from ff_memories.claims.register import register
from ff_memories.config import Settings
from ff_memories.model.info import quantised
from ff_memories.report.sections.answers import (
    FEW,
    GROWS,
    HALF,
    MAKES,
    NONE_PREDICTS,
    OPEN,
    SIGN,
    SURVIVES,
    Found,
    Row,
    alike,
    clause,
    degree,
    ids,
    of,
    removed,
    survives,
)
from ff_memories.report.sections.methods import SOURCES
from ff_memories.report.wording import counted, listed, looked_at, sentence

WHERE = {1: "all", HALF: "mostly", FEW: "partly", 0: "rarely"}  # by the least share
SHOWN = 6  # numbers that training changes, said in full; of more, only the claims
Finding = tuple[str, str]  # what was found in a few words, and the numbers behind it


@dataclass(frozen=True)
class FirstLines:
    """What a reader learns first of a run, on its page and on the terminal.

    Attributes:
        run: what was run.
        findings: what was found, as far as it was measured.
        training: what is due to training.
        open: what the run cannot say.
    """

    run: str
    findings: list[Finding]
    training: str
    open: str

    @property
    def lines(self) -> list[str]:
        """Return all of it as lines of text."""
        found = [f"{lead}: {told[0].lower()}{told[1:]}" for lead, told in self.findings]
        return [self.run, *found, f"Due to training: {self.training}", f"What cannot be said: {self.open}"]


def first_lines(
    rows: Sequence[Row], counts: pl.DataFrame, config: Settings, info: Mapping[str, Any], models: int = 0
) -> FirstLines:
    """Return a run's first lines.

    Args:
        rows: all claims, from ``outline.rows``.
        counts: the table.
        config: the run's settings.
        info: the run's model info.
        models: the number of untrained models that were measured.
    """
    found = {row["claim"]: row for row in rows if row["measured"] is not None}
    paper = [row for row in rows if not row["beyond"]]
    findings = [
        (lead, sentence("; ".join(filter(None, told))))
        for lead, told in _found(found, info["layers"])
        if lead and any(told)
    ]
    return FirstLines(
        _what_was_run(paper, counts, config, info), findings, _training(rows, models), _open(paper, info["scope"])
    )


def named(info: Mapping[str, Any]) -> str:
    """Return whose results a run's are: a model of `transformers` by its name on the hub, or else by its family."""
    if info["scope"] != "model":
        return "the paper's own model" if info["scope"] == "paper" else "a stand-in model"
    return str(info.get("hub") or info.get("source") or f"a model of the family {info['model_type']}")


def _what_was_run(rows: Sequence[Row], counts: pl.DataFrame, config: Settings, info: Mapping[str, Any]) -> str:
    size = [f"{info['layers']} layers"]
    if parameters := info.get("parameters"):
        size.append(f"{parameters:,} parameters")
    if perplexity := info.get("perplexity"):
        alone = f", {number(perplexity)} one sentence at a time" if info.get("in_windows") else ""
        size.append(f"validation perplexity {number(info.get('in_windows') or perplexity)}{alone}")
    text = SOURCES.get(config.corpus.source, config.corpus.source)
    found = dict(counts.filter(pl.col("step") == "corpus").select("reason", "n").iter_rows())
    number_of = lambda split, what: found.get(f"{split}_{what}", 0)
    tested = f"{counted(len(rows), 'claim', 'claims')} of the paper, on {named(info)} ({', '.join(size)})"
    sized = lambda split: (
        f"{number_of(split, 'tokens'):,} tokens in {counted(number_of(split, 'sentences'), 'sentence', 'sentences')}"
    )
    parts = [f"{sized('train')} to find triggers", f"{sized('validation')} to test predictions"]
    much = f"{text}: {' and '.join(parts)}" if number_of("train", "tokens") else text
    some = looked_at(config.looked_at, info.get("neurons", info["keys"]), config.seed) if config.looked_at else ""
    notes = [quantised(info), own_text.SAID if own_text.is_own(counts) else None]
    said = f"{tested} and {much}." + "".join(f" {sentence(note)}" for note in notes if note)
    return said + (f" It looks at the triggers of {some}." if some else "")


def _found(found: Found, layers: int) -> list[tuple[str, list[str]]]:
    """Return each finding: its words follow from the numbers of the claims in it."""
    value = lambda claim: found[claim]["measured"]
    tell = lambda claim, text, how=("", ""): clause(found, claim, text, how, paper=True)
    keys = values = predictive = upper = residual = ""
    if {"K1", "K2"} <= found.keys():
        mostly = "mostly" if value("K1") < 0 and value("K2") < 0 else "not mostly"
        keys = f"Keys respond {mostly} to the last token of a prefix{alike(found, 'K1', 'K2')}"
    if often := degree(found, "K11", "rarely", "sometimes", "mostly"):
        values = f"Values {often.replace(',', ' predict the token after their keys’ triggers,', 1)}"
        values += "" if "," in often else " predict the token after their keys’ triggers"
    if "K16" in found:
        bounds = next(claim.parameters["layers"] for claim in register() if claim.id == "K16")
        evenly = len(between(bounds, layers)) / layers
        where = next((word for least, word in WHERE.items() if value("K16") >= least), WHERE[0])
        where = (
            f"{where} in the upper layers" if value("K16") > evenly else "no more often in the upper layers than below"
        )
        predictive = f"The most predictive values are {where}{alike(found, 'K16')}"
        upper = f", which are {measured(evenly, 'share')} of all" if layers > 1 else ""
    alone = degree(found, "K20", *(f"In {where}" for where in MAKES))
    if "K24" in found:
        settles = "for most examples" if value("K24") >= HALF else "for few examples"
        residual = f"The last layer's residual already predicts the output {settles}{alike(found, 'K24')}"
    lowers = "removing a trigger's last token lowers the key's coefficient by {size} {how} than removing its first"
    return [
        (keys, [tell("K1", lowers, ("more", "less"))]),
        (values, [
            tell("K11", "in the upper layer where they do so most, {value} agree with their key's top trigger"),
            tell("K10", "in the lower layer where they do so most, {value}"),
        ]),
        (predictive, [
            tell("K16", f"{{value}} of the 100 values with the highest top probability are in the upper layers{upper}"),
            tell("K17", "{value} of them agree with at least one of their key's triggers"),
        ]),
        (alone, [tell("K20", NONE_PREDICTS)]),
        (residual, [
            tell("K24", "for {value} of the examples"),
            tell("K26", "in the layer that changes predictions most, {value} of them stay as they are"),
        ]),
        (removed(found), [clause(found, "B1", SIGN, ("less", "more")), clause(found, "B2", GROWS)]),
        (survives(found), [clause(found, "B4", SURVIVES)]),
    ]  # fmt: skip


def _training(rows: Sequence[Row], models: int) -> str:
    """Return what training changes, by the comparison with untrained models on the same sentences."""
    compared = [row for row in rows if row["training"] is not None]
    if not compared:
        return "no number could be compared with untrained models, so this run says nothing about training."
    own, more = ([row for row in compared if row["beyond"] == beyond] for beyond in (False, True))
    changed = [row for row in own if row["training"] in ("higher", "lower")]
    said = [f"training changes {len(changed)} of {counted(len(own), 'number', 'numbers')}, all on the same sentences"]
    said += _answers(own, in_full=len(changed) <= SHOWN)
    said += _of_scale(changed)
    if undecided := _of_training(own, "undecided"):
        who = counted(models, "untrained model does", "untrained models do") if models else "the untrained models do"
        said.append(f"{who} not tell for {_few(undecided, 'the other')}")
    if more:
        told = _answers(more, in_full=False)
        if undecided := _of_training(more, "undecided"):
            told.append(f"undecided {'is' if len(undecided) == 1 else 'are'} {ids(undecided)}")
        said.append(f"beyond the paper's claims, {'; '.join(told)}")
    return " ".join(map(sentence, said))


def _of_training(rows: Sequence[Row], answer: str) -> list[Row]:
    return [row for row in rows if row["training"] == answer]


def _answers(rows: Sequence[Row], in_full: bool) -> list[str]:
    """Say which numbers training changes, and how, and which it does not; ``in_full``: with the numbers."""
    negative = [row for row in _of_training(rows, "lower") if row["sample"] < 0]
    lowered = [row for row in _of_training(rows, "lower") if row not in negative]
    kinds = (("it raises {}", _of_training(rows, "higher")), ("it lowers {}", lowered),
             ("it makes {} more negative", negative))  # fmt: skip
    tell = lambda own: "; ".join(map(_against, own)) if in_full else ids(own)
    said = [text.format(tell(own)) for text, own in kinds if own]
    if same := _of_training(rows, "same"):
        differs = "differs" if len(same) == 1 else "differ"
        said.append(f"{ids(same)} {differs} from untrained models by less than what counts as a difference")
    return said


def _few(rows: Sequence[Row], many: str = "") -> str:
    """Name claims, or count them if they are many."""
    return ids(rows) if len(rows) <= SHOWN else f"{many} {len(rows)} claims".strip()


def _of_scale(changed: Sequence[Row]) -> list[str]:
    """Say which numbers a model with the trained entries of each matrix, in a random order, comes halfway to."""
    known = [row for row in changed if row["shuffled"] is not None]
    near = [row for row in known if abs(row["shuffled"] - row["sample"]) < abs(row["baseline"] - row["sample"]) / 2]
    if near:
        return [f"for {ids(near)}, shuffling the entries of each trained matrix keeps more than half of the "
                "difference, so the scale of the weights may explain it"]  # fmt: skip
    return ["the scale of the weights explains none of them: shuffling the entries of each trained matrix keeps less "
            "than half of each difference"] if known else []  # fmt: skip


def _against(row: Row) -> str:
    here, untrained = (measured(row[column], row["unit"]) for column in ("sample", "baseline"))
    return f"the {row['measured_as']}: {here}, untrained {untrained} ({row['claim']})"


def _open(rows: Sequence[Row], scope: str) -> str:
    """Return what the run's numbers leave open."""
    said = []
    if scope != "paper":
        said.append("whether the paper's own numbers are right: this is another model")
    if undecided := of(rows, OPEN):
        said.append(f"whether the model shows {ids(undecided)}: the interval covers the limit, or the values are few")
    if untold := [row for row in rows if row["training"] == "undecided"]:
        said.append(f"whether training changes {_few(untold)}")
    if proxied := [row for row in rows if row["proxy"]]:
        said.append(f"what people would find: an automatic proxy labelled what {ids(proxied)} count")
    if kinds := sorted({row["resampled"] for row in rows if row["low"] is not None and row["resampled"]}):
        said.append(f"how numbers differ between training runs: intervals come from other {listed(kinds, 'or')} alone")
    if missing := of(rows, ("not_attempted", "not_applicable")):
        said.append(f"anything on {_few(missing)}, not measured")
    return sentence("; ".join(said) or "nothing was left open")

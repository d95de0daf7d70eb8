"""The audit: random rows of the measured tables, recomputed from the model and the text.

Every table gets a sample of its own, and a statement with the confidence asked for. Besides, random sentences are run
whole, and no prefix of theirs may beat the last trigger of a key that does not list it: so is a row found that was left
out, which no recomputation of the rows that are there could do.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import torch

from ff_memories.audit import checks
from ff_memories.audit.checks import Evidence, Row
from ff_memories.audit.closeness import DIFFERS, NEAR_TIE, Result
from ff_memories.audit.sampling import Aim
from ff_memories.audit.unlisted import Unlisted
from ff_memories.base.progress import Progress
from ff_memories.memories import composition, mutations
from ff_memories.memories.trigger_table import available
from ff_memories.tables import TABLES

ROWS: dict[str, Callable[[Evidence, Row], Result]] = {
    "triggers": checks.trigger,
    "mutations": checks.mutation,
    "values": checks.value,
    "promoted": checks.promoted,
    "shading": checks.shading,
    "examples": checks.example,
    "composition": checks.composition,
    "refinement": checks.refinement,
}
LEFT_OUT = "sentences"  # whose prefixes are looked for among the triggers


@dataclass
class Finding:
    """What was found in one table (or in what it left out)."""

    what: str
    population: int
    looked_at: int = 0
    near_ties: int = 0
    largest_difference: float = 0.0
    differ: list[str] = field(default_factory=list)

    def add(self, where: str, result: Result) -> None:
        self.looked_at += 1
        self.largest_difference = max(self.largest_difference, result.difference)
        self.near_ties += result.state == NEAR_TIE
        if result.state == DIFFERS:
            self.differ.append(f"{where}: {result.says}")

    def statement(self, aim: Aim) -> str:
        """Return what may be said of the table, in words."""
        words = (
            ("sentences hold no unlisted trigger", "do") if self.what == LEFT_OUT else (f"rows of {self.what} match",)
        )
        return aim.statement(self.looked_at, len(self.differ), self.population, *words)


def audit(evidence: Evidence, aim: Aim, only: Iterable[str] = (*ROWS, LEFT_OUT)) -> list[Finding]:
    """Recompute a random sample of every measured table, and look for prefixes that ``triggers`` leaves out.

    Args:
        evidence: what is recomputed, and what from.
        aim: how sure to be.
        only: the tables, and ``sentences`` for what was left out.
    """
    sentences = np.flatnonzero(available(evidence.corpus, evidence.config.triggers.positions))
    sizes = {name: len(sentences) if name == LEFT_OUT else len(evidence.tables[name]) for name in only}
    drawn = {name: aim.draw(name, size) for name, size in sizes.items()}
    findings = []
    with torch.inference_mode(), Progress(sum(map(len, drawn.values())), "rows", "audit") as progress:
        for name, rows in drawn.items():
            finding = Finding(name, sizes[name])
            look = _sentences(evidence, sentences[rows]) if name == LEFT_OUT else _rows(evidence, name, rows)
            for where, result in look:
                finding.add(where, result)
                progress.step(1)
            findings.append(finding)
    return findings


def _sentences(evidence: Evidence, sentences: np.ndarray) -> Iterator[tuple[str, Result]]:
    unlisted = Unlisted(evidence)
    for sentence in sentences.tolist():
        yield f"sentence {sentence}", unlisted.of(sentence)


def _rows(evidence: Evidence, name: str, rows: np.ndarray) -> Iterator[tuple[str, Result]]:
    for row in evidence.tables[name][rows.tolist()].iter_rows(named=True):
        place = " ".join(f"{column} {row[column]}" for column in TABLES[name].key)
        yield f"{name}, {place}", recomputed(name, evidence, row)


def recomputed(name: str, evidence: Evidence, row: Row) -> Result:
    """Recompute one row of a table from the model and the text."""
    try:
        return ROWS[name](evidence, row)
    except (KeyError, IndexError, pl.exceptions.OutOfBoundsError):
        return Result(DIFFERS, "it names a trigger, an example or a sentence that there is not")


def draws(evidence: Evidence) -> list[str]:
    """Draw keys, tokens and examples again, as the config says; return what was drawn otherwise."""
    corpus, config, tables = evidence.corpus, evidence.config, evidence.tables
    layers, keys = evidence.oracle.keys
    chosen = config.mutations
    again = mutations.sample(
        tables["triggers"], layers, keys, keys_per_layer=chosen.keys_per_layer, top=chosen.top,
        random=chosen.random, single_token=chosen.single_token, seed=config.seed,
    ).rows  # fmt: skip
    key = ["layer", "key", "rank", "mutation", "removed"]
    faults = [] if _same_rows(tables["mutations"], again, key) else ["mutations: not the keys and tokens of the seed"]
    options = config.composition
    examples = evidence.given
    if examples is None:
        examples = composition.sample_examples(
            corpus.lengths[corpus.train :], corpus.train, examples=options.examples, sample=options.sample,
            positions=options.positions, seed=config.seed,
        )  # fmt: skip
    if not _same_rows(tables["examples"], examples, ["example", "sentence", "position"]):
        whose = "seed" if evidence.given is None else "given sample"
        faults.append(f"examples: not the prefixes of the {whose}")
    triggers = tables["triggers"]
    steps = triggers.select(
        (pl.col("rank") == 1 + pl.int_range(pl.len()).over("layer", "key")).all().alias("ranks"),
        (pl.col("coefficient").diff().over("layer", "key").fill_null(0) <= 0).all().alias("order"),
    ).row(0, named=True)
    faults += [] if all(steps.values()) else ["triggers: not in descending order of their coefficients"]
    return faults


def _same_rows(recorded: pl.DataFrame, again: pl.DataFrame, columns: list[str]) -> bool:
    plain = lambda frame: frame.select(
        pl.col(c).cast(pl.String) if c == "mutation" else pl.col(c).cast(pl.Int64) for c in columns
    ).sort(columns)
    return plain(recorded).equals(plain(again))

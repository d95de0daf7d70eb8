"""The audit: recompute random rows of the measured tables from the model and the text.

The audit samples every table and makes a statement about it at the requested confidence. It also runs random whole
sentences: no prefix may beat the last trigger of a key that does not list it. That finds rows missing from the table,
which recomputing existing rows cannot find.
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
from ff_memories.corpus.prefixes import available
from ff_memories.corpus.words import Words
from ff_memories.memories import chosen, coefficient_sample, composition, mutations
from ff_memories.tables import TABLES

ROWS: dict[str, Callable[[Evidence, Row], Result]] = {
    "triggers": checks.trigger,
    "mutations": checks.mutation,
    "values": checks.value,
    "promoted": checks.promoted,
    "demoted": checks.demoted,
    "shading": checks.shading,
    "levels": checks.level,
    "samples": checks.sampled,
    "similar": checks.similar,
    "examples": checks.example,
    "composition": checks.composition,
    "refinement": checks.refinement,
}
READ = (*ROWS, "firing", "histogram")  # tables that the audit needs
LEFT_OUT = "sentences"  # the check of whole sentences for triggers that the table lacks


@dataclass
class Finding:
    """The audit's result for one table, or for the rows that it lacks."""

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
        """Return the statement about the table in words."""
        words = (
            ("sentences hold no unlisted trigger", "do") if self.what == LEFT_OUT else (f"rows of {self.what} match",)
        )
        return aim.statement(self.looked_at, len(self.differ), self.population, *words)


def audit(evidence: Evidence, aim: Aim, only: Iterable[str] = (*ROWS, LEFT_OUT)) -> list[Finding]:
    """Recompute a random sample of every measured table, and look for prefixes missing from ``triggers``.

    Args:
        evidence: the tables, and the model and text to recompute them from.
        aim: the confidence and the share of errors to detect.
        only: tables to audit, and ``sentences`` to look for missing triggers.
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
        return Result(DIFFERS, "names a trigger, an example or a sentence that does not exist")


def draws(evidence: Evidence) -> list[str]:
    """Repeat the random draws of keys, tokens and examples; return which tables do not match them."""
    corpus, config, tables = evidence.corpus, evidence.config, evidence.tables
    layers, keys = evidence.oracle.keys
    chosen = config.mutations
    again = mutations.sample(
        tables["triggers"], layers, keys, keys_per_layer=chosen.keys_per_layer, top=chosen.top,
        random=chosen.random, single_token=chosen.single_token, seed=config.seed,
        words=Words.of(corpus) if chosen.unit == "word" else None,
    ).rows  # fmt: skip
    key = ["layer", "key", "rank", "mutation", "removed", *(["removed_tokens"] if chosen.unit == "word" else [])]
    faults = (
        []
        if _same_rows(tables["mutations"], again, key)
        else ["mutations: not the keys and tokens that the seed draws"]
    )
    options = config.composition
    examples = evidence.given
    if examples is None:
        examples = composition.sample_examples(
            corpus.lengths[corpus.train :], corpus.train, examples=options.examples, sample=options.sample,
            positions=options.positions, seed=config.seed,
        )  # fmt: skip
    if not _same_rows(tables["examples"], examples, ["example", "sentence", "position"]):
        whose = "that the seed draws" if evidence.given is None else "of composition.sample_file"
        faults.append(f"examples: not the prefixes {whose}")
    faults += _other_keys(evidence)
    fires = tables["firing"].filter(pl.col("fired") > 0).select("layer", "key")
    if not fires.equals(tables["triggers"].select("layer", "key").unique().sort("layer", "key")):
        faults.append("firing: the keys that fire are not those with triggers")
    own = set(coefficient_sample.drawn(corpus, config.gallery.sampled, config.triggers.positions, config.seed).tolist())
    if not set(tables["samples"]["sentence"]) <= own:
        faults.append("samples: not the sentences that the seed draws")
    triggers = tables["triggers"]
    steps = triggers.select(
        (pl.col("rank") == 1 + pl.int_range(pl.len()).over("layer", "key")).all().alias("ranks"),
        (pl.col("coefficient").diff().over("layer", "key").fill_null(0) <= 0).all().alias("order"),
    ).row(0, named=True)
    faults += [] if all(steps.values()) else ["triggers: not in descending order of their coefficients"]
    return faults


def _other_keys(evidence: Evidence) -> list[str]:
    """Return which tables have other keys than ``triggers.keys`` and ``gallery.keys`` ask for."""
    (layers, keys), signs = evidence.oracle.keys, evidence.oracle.signs
    asked = evidence.looked_at or [(layer, key) for layer in range(1, layers + 1) for key in range(keys)]
    tables, frame = evidence.tables, pl.DataFrame(asked, schema=["layer", "key"], orient="row")
    shown = chosen.in_gallery(evidence.config.gallery.keys, frame, layers, keys // signs, evidence.config.seed)
    of = lambda name: set(tables[name].select("layer", "key").iter_rows())
    faults = {
        "values": of("values") == set(asked),
        "triggers": of("triggers") <= set(asked),
        "firing": of("firing") == set(asked),
        "promoted": of("promoted") == set(shown.iter_rows()),
        "demoted": of("demoted") == set(shown.iter_rows()),
        "shading": of("shading") <= set(shown.iter_rows()),
        "levels": of("levels") <= set(shown.iter_rows()),
        "histogram": of("histogram") <= set(shown.iter_rows()),
    }
    return [f"{name}: not the keys that the config asks for" for name, same in faults.items() if not same]


def _same_rows(recorded: pl.DataFrame, again: pl.DataFrame, columns: list[str]) -> bool:
    plain = lambda frame: frame.select(
        pl.col(c).cast(pl.String) if c == "mutation" else pl.col(c).cast(pl.Int64) for c in columns
    ).sort(columns)
    return plain(recorded).equals(plain(again))

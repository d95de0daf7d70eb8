"""Alternative analysis choices, derived from the types in the config, and the `sensitivity` table of them."""

import copy
import importlib.util
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import polars as pl

from ff_memories.base import machine
from ff_memories.base.errors import UserError
from ff_memories.config import FIDELITY, RELEASED_ONLY, Config, parse
from ff_memories.config.sections import keys_of
from ff_memories.judge.wording import PAPERS, natural
from ff_memories.tables import TABLES

BASELINE = "baseline"  # in the table, the choice of the run's own claims
SECTIONS = ("corpus", "extraction", "triggers", "mutations", "values", "composition")
QUICK = ("values", "composition")  # need neither the trigger pass nor the mutations, which take most of a run's time
CONTROLS = ("mutations.random=earlier", "values.length=mean", "composition.memories=share:0.9")
SIZE = "corpus.train.max_sentences"
SHARES = ("0.01", "0.1")  # of the training sentences, to see how claims depend on the corpus's size (D31)


@dataclass(frozen=True)
class Choice:
    """A key of a run's config with an alternative value, such as ``values.target`` and ``last``."""

    path: str
    value: str

    @property
    def section(self) -> str:
        return self.path.partition(".")[0]

    @property
    def name(self) -> str:
        """Return the name used in paths and on command lines."""
        return f"{self.path}={self.value}"


def _alternatives(config: Config) -> Iterator[Choice]:
    resolved = config.resolved()
    for section in SECTIONS:
        for key, field in keys_of(Config.model_fields[section]).items():
            values = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
            others = (value for value in values if value not in ("auto", resolved[section][key]))
            yield from (Choice(f"{section}.{key}", value) for value in others)
    segmenter = resolved["corpus"]["segmenter"]
    yield from (Choice("corpus.segmenter", value) for value in ("rule", "line") if value != segmenter)
    yield from (Choice(SIZE, share) for share in SHARES)
    yield from (Choice("fidelity", value) for value in FIDELITY if value != config.fidelity)


def choices(config: Config) -> list[Choice]:
    """Return every alternative choice that this machine can run."""
    here = {"spacy": importlib.util.find_spec("spacy") is not None, "tf32": machine.gpu_present()}
    out = []
    for choice in (choice for choice in _alternatives(config) if here.get(choice.value, True)):
        with suppress(UserError):  # some choices exclude others
            varied(config, choice, 1)
            out.append(choice)
    return out


def parts(config: Config, extent: str = "all") -> dict[str, list[Choice]]:
    """Return the choices grouped into jobs: quick ones by section, each of the others alone.

    spaCy's stop words are also alone, since a section's results must not depend on installed packages. The extent is
    ``controls`` (``CONTROLS``), ``quick`` (also all choices in ``values`` and ``composition``) or ``all``.
    """
    jobs: dict[str, list[Choice]] = {}
    for choice in choices(config):
        if extent != "controls" and choice.section in QUICK and choice.value != "spacy":
            jobs.setdefault(choice.section, []).append(choice)
        elif extent == "all" or choice.name in CONTROLS:
            jobs[choice.name] = [choice]
    return jobs


def varied(config: Config, choice: Choice, train_sentences: int) -> Config:
    """Return the run's config with one choice changed, which may be a share of its training sentences."""
    plain = copy.deepcopy(config.resolved())
    if choice.path == "fidelity":
        plain["fidelity"] = choice.value
        for path in FIDELITY[choice.value]:
            _set(plain, path, "auto")
        for path, value in RELEASED_ONLY.items() if choice.value == "released" else ():
            _set(plain, path, value)
    else:
        plain["fidelity"] = "paper"  # all keys are explicit, and only "paper" contradicts none of them
        share = choice.path == SIZE
        _set(plain, choice.path, max(1, round(train_sentences * float(choice.value))) if share else choice.value)
    return parse(plain, choice.name)


def _set(plain: dict[str, Any], path: str, value: Any) -> None:
    *sections, key = path.split(".")
    for section in sections:
        plain = plain[section]
    plain[key] = value


def rows(claims: pl.DataFrame, choice: str = BASELINE, value: str = "") -> pl.DataFrame:
    """Return a choice's rows, of the paper's claims: no choice varies the table that others rest on."""
    papers = claims.filter(pl.col("claim").str.starts_with(PAPERS))
    return papers.with_columns(choice=pl.lit(choice), value=pl.lit(value)).select(*TABLES["sensitivity"].columns)


def refused(claims: pl.DataFrame, choice: str, value: str) -> pl.DataFrame:
    """Return the rows of a choice that a run refuses; no claim has a value."""
    none = {c: pl.lit(None, claims.schema[c]) for c in ("measured", "low", "high")}
    verdict = pl.lit("not_applicable", claims.schema["verdict"])
    return rows(claims.with_columns(verdict=verdict, **none), choice, value)


def changes(table: pl.DataFrame) -> pl.DataFrame:
    """Return each claim under each choice beside the run's own result, in order of claim and choice.

    Columns: ``claim``, ``choice``, ``value``, ``measured``, ``baseline``, ``change`` (relative to the baseline's size;
    null if either is missing), ``beyond`` (outside the baseline's 95 % interval; without an interval, whether it
    differs at all), ``verdict``, ``was``, ``refused`` (whether a run with the choice has no number at all), ``changed``
    (whether the verdicts differ, whatever their words, under a choice that is not refused).
    """
    of_run = table.filter(pl.col("choice") == BASELINE)
    of_run = of_run.select("claim", baseline="measured", below="low", above="high", was="verdict")
    measured, baseline = pl.col("measured"), pl.col("baseline")
    inside = measured.is_between(pl.col("below"), pl.col("above"))
    beyond = (~inside).fill_null(measured != baseline).fill_null(False)
    change = pl.when(measured == baseline).then(0.0).when(baseline != 0).then((measured - baseline) / baseline.abs())
    refuses = measured.is_null().all().over("choice", "value")
    order = pl.col("claim").map_elements(lambda claim: natural(claim)[2], return_dtype=pl.Int64)
    beside = table.filter(pl.col("choice") != BASELINE).join(of_run, on="claim", maintain_order="left")
    beside = beside.with_columns(change=change, beyond=beyond, refused=refuses, order=order)
    beside = beside.with_columns(changed=(pl.col("verdict") != pl.col("was")) & ~pl.col("refused"))
    return beside.sort("order", "choice", "value", maintain_order=True).drop("low", "high", "below", "above", "order")

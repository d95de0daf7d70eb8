"""Read the runs of an atlas: model info, tables, untrained baselines, verdicts and settings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ff_memories import tables as schemas
from ff_memories.atlas import settings
from ff_memories.atlas.text import Text
from ff_memories.base.annotators import ANNOTATOR
from ff_memories.base.errors import UserError, did_you_mean
from ff_memories.base.escaping import escape_invisible
from ff_memories.claims import summary
from ff_memories.claims.register import register
from ff_memories.model.info import read_info
from ff_memories.workflow import lock

NEEDED = ("mutations", "values", "composition", "refinement")
PATTERNS = "pattern_labels"
Tables = dict[str, pl.DataFrame]


@dataclass(frozen=True)
class Member:
    """One run of an atlas.

    Attributes:
        folder: as the user typed it.
        name: of the run.
        label: its name in figures and tables.
        info: its model info.
        resolved: its config as plain data without ``auto``; ``None`` if unknown.
        known_from: the file with its config, or why there is none.
        text: what it read.
        tables: by name; ``pattern_labels`` has only the proxy's rows, and is absent if it has none.
        untrained: the same tables of models of its shape with random weights, one mapping per seed.
        claims: {claim: its verdict, as the report shows it, and its measured value}.
        step: what its line is coloured by, if the atlas is drawn over something.
    """

    folder: Path
    name: str
    label: str
    info: Mapping[str, Any]
    resolved: Mapping[str, Any] | None
    known_from: str
    text: Text
    tables: Tables
    untrained: Sequence[Tables]
    claims: Mapping[str, Mapping[str, Any]]
    step: float | None = None

    @property
    def neurons(self) -> int:
        """d_m: memories per layer; one with both signs counts once."""
        return int(self.info.get("neurons", self.info["keys"]))

    @property
    def seed(self) -> int:
        return int(self.resolved["seed"]) if self.resolved else 1

    @property
    def mean(self) -> str:
        """Return how changes of coefficients are averaged over a key's triggers."""
        return str(self.resolved["mutations"]["mean"]) if self.resolved else "of_ratios"


def members(
    folders: Sequence[Path], labels: Sequence[str] = (), configs: Sequence[str] = (), over: str | None = None
) -> list[Member]:
    """Read runs in the order given.

    Args:
        folders: the runs' folders, such as ``results/demo``.
        labels: ``RUN=TEXT``, where RUN is a run's name or its folder.
        configs: ``RUN=FILE``, likewise: the config file of a run.
        over: what the labels count, if they are numbers; a run without a label is at the number its name ends with.

    Raises:
        UserError: fewer than two runs, a folder that is no finished run, a run given twice, or a bad label.
    """
    if len(folders) < 2:
        raise UserError("an atlas compares runs, and only one was given", "name at least two runs")
    names = [_name(folder) for folder in folders]
    texts, files = _named(labels, folders, names, "--label"), _named(configs, folders, names, "--config")
    said = [texts.get(place) or _default(name, over) for place, name in enumerate(names)]
    if clash := next((label for label in said if said.count(label) > 1), None):
        raise UserError(f"two runs are called {clash!r}", "name each of them with --label FOLDER=TEXT")
    steps = [_number(label, over) if over else None for label in said]
    found = [
        _member(folder, name, escape_invisible(label), Path(files[place]) if place in files else None, step)
        for place, (folder, name, label, step) in enumerate(zip(folders, names, said, steps, strict=True))
    ]
    _refuse_twins(found)
    return sorted(found, key=lambda member: member.step or 0) if over else found


def _name(folder: Path) -> str:
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder", "name a run's folder, such as results/demo")
    return folder.resolve().name


def _named(given: Sequence[str], folders: Sequence[Path], names: Sequence[str], option: str) -> dict[int, str]:
    """Return {place of a run: what an option ``RUN=...`` says about it}."""
    found: dict[int, str] = {}
    for text in given:
        run, equals, said = text.partition("=")
        if not equals or not said.strip():
            raise UserError(f"{option} {text}: says nothing about a run", f"write {option} RUN=...")
        places = [i for i, (folder, name) in enumerate(zip(folders, names, strict=True))
                  if run == name or Path(run) == folder]  # fmt: skip
        if len(places) != 1:
            what = "names several of the runs" if places else f"names none of the runs{did_you_mean(run, names)}"
            raise UserError(f"{option} {text}: {run!r} {what}", "name one by its folder, as you typed it")
        if places[0] in found:
            raise UserError(f"{option}: given twice for {run!r}", "give it once for each run")
        found[places[0]] = said.strip()
    return found


def _default(name: str, over: str | None) -> str:
    return name[len(name.rstrip("0123456789")) :] or name if over else name


def _number(label: str, over: str | None) -> float:
    try:
        return float(label.replace(",", "").replace("_", ""))
    except ValueError:
        hint = "give each run a number, as in --label RUN=512"
        raise UserError(f"--over {over}: {label!r} is not a number", hint) from None


def _member(folder: Path, name: str, label: str, configfile: Path | None, step: float | None) -> Member:
    card, held = folder / "model" / "info.json", folder / "tables"
    if not card.is_file() and not held.is_dir():
        raise UserError(f"{folder}: is no run: it has no model/info.json and no tables", "name a folder in results/")
    paths = {table: held / f"{table}.parquet" for table in NEEDED}
    lacking = [f"tables/{table}.parquet" for table, path in paths.items() if not path.is_file()]
    lacking += [] if card.is_file() else ["model/info.json"]
    lacking += [] if any(path.is_file() for path in _verdicts(folder)) else ["claims.json"]
    if lacking:
        raise UserError(
            f"{folder}: this run has no {', '.join(lacking)}",
            "let snakemake finish the run, or restore it with make pull",
        )
    info = read_info(card)
    config, known_from = settings.find(folder, info, paths.values(), configfile)
    resolved = None if config is None else config.resolved()
    tables = {table: schemas.read(path) for table, path in paths.items()} | _patterns(folder)
    for table, frame in tables.items():
        last = frame.select(pl.col("layer").cast(pl.Int64).max()).item() or 0
        if last > info["layers"]:
            raise UserError(
                f"{held / table}.parquet: has layer {last}, but the model has {info['layers']} layers",
                "the table belongs to another run; remove it and run snakemake again",
            )
    sentences = held / "sentences.parquet"
    text = Text.of(config, folder.resolve().parents[1], lock.digest(sentences) if sentences.is_file() else None)
    return Member(
        folder, name, label, info, resolved, known_from, text, tables, _untrained(folder), _claims(folder), step
    )


def _patterns(folder: Path) -> Tables:
    """Return the proxy's labels of a run, if it has any."""
    for path in (folder / "proxy" / f"{PATTERNS}.parquet", folder / "tables" / f"{PATTERNS}.parquet"):
        if path.is_file():
            frame = schemas.read(path).filter(pl.col("annotator") == ANNOTATOR)
            if frame.height:
                return {PATTERNS: frame}
    return {}


def _untrained(folder: Path) -> list[Tables]:
    """Return the tables of each untrained model that the run measured, in the order of their seeds."""
    found = []
    for own in sorted((folder / "baselines").glob("untrained-*"), key=lambda path: (len(path.name), path.name)):
        paths = {name: own / f"{name}.parquet" for name in (*NEEDED, PATTERNS)}
        found.append({name: schemas.read(path) for name, path in paths.items() if path.is_file()})
    return [tables for tables in found if tables]


def _verdicts(folder: Path) -> tuple[Path, Path]:
    return folder / "tables" / "claims.parquet", folder / "claims.json"


def _claims(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the verdicts of a run from its table, or else from claims.json."""
    table, plain = _verdicts(folder)
    if table.is_file():
        rows = {row["claim"]: row for row in schemas.read(table).iter_rows(named=True)}
    else:
        try:
            rows = json.loads(plain.read_text(encoding="utf-8"))
            rows = {claim: {"measured": row["measured"], "verdict": row["verdict"]} for claim, row in rows.items()}
        except (ValueError, LookupError, TypeError, AttributeError):
            raise UserError(f"{plain}: not readable as verdicts", "run snakemake claims again") from None
    known = [claim.id for claim in register()]
    odd = {row["verdict"] for row in rows.values()} - set(schemas.VERDICTS)
    if odd or not rows.keys() <= set(known):
        raise UserError(f"{plain if not table.is_file() else table}: has claims or verdicts that do not exist")
    return {
        claim: {"verdict": summary.shown(rows[claim]["verdict"], rows[claim]["measured"]),
                "measured": rows[claim]["measured"]}
        for claim in known if claim in rows
    }  # fmt: skip


def _refuse_twins(found: Sequence[Member]) -> None:
    """Raise ``UserError`` if two folders are one run, or copies of one."""
    seen: dict[Any, Member] = {}
    for member in found:
        tables = tuple(lock.digest(member.folder / "tables" / f"{name}.parquet") for name in NEEDED)
        for key in (member.folder.resolve(), tables):
            if key in seen:
                which = f"{seen[key].folder} and {member.folder}"
                why = "the same folder" if key == member.folder.resolve() else "the same run: their tables are equal"
                raise UserError(f"{which} are {why}", "give each run once")
        seen |= {member.folder.resolve(): member, tables: member}

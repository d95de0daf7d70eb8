"""Read the runs of an atlas: model info, tables, untrained baselines, verdicts and settings."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel

from ff_memories import tables as schemas
from ff_memories.atlas import recorded, settings
from ff_memories.atlas.member import BEYOND_PAPER, NEEDED, PATTERNS, Member, Tables
from ff_memories.atlas.text import Text
from ff_memories.base import foreign
from ff_memories.base.errors import UserError, did_you_mean
from ff_memories.base.text import escape_invisible
from ff_memories.claims import wording
from ff_memories.claims.register import register
from ff_memories.model.info import read_info
from ff_memories.tables.annotation import ANNOTATOR
from ff_memories.workflow import dvc_lock_file

OWN_TEXT = " (text sampled from the model)"  # behind a run's label: agreement there is of the model's own draws


class Verdict(BaseModel):
    """What claims.json says of a claim."""

    measured: float | None
    verdict: str


def members(
    folders: Sequence[Path], labels: Sequence[str] = (), configs: Sequence[str] = (), over: str | None = None
) -> list[Member]:
    """Read runs in the order given.

    Args:
        folders: the runs' folders, such as ``results/demo``, and those of atlases, which stand for their runs.
        labels: ``RUN=TEXT``, where RUN is a run's name or its folder.
        configs: ``RUN=FILE``, likewise: the config file of a run.
        over: what the labels count, if they are numbers; a run without a label is at the number its name ends with.

    Raises:
        UserError: fewer than two runs, a folder that is no finished run, a run given twice, or a bad label.
    """
    places = _each_once([place for folder in folders for place in _places(folder)])
    if len(places) < 2:
        raise UserError("an atlas compares runs, and only one was given", "name at least two runs")
    paths, names = [folder for folder, _, _ in places], [name for _, name, _ in places]
    texts, files = _named(labels, paths, names, "--label"), _named(configs, paths, names, "--config")
    said = [texts.get(i) or _default(name, over, kept) for i, (_, name, kept) in enumerate(places)]
    steps = [_number(label, over) if over else None for label in said]
    found = []
    for i, (folder, name, kept) in enumerate(places):
        label, config = escape_invisible(said[i]), Path(files[i]) if i in files else None
        if kept is None:
            found.append(_member(folder, name, label, config, steps[i]))
        elif config is None:
            found.append(replace(kept, label=label, step=steps[i]))
        else:
            raise UserError(
                f"--config {name}={config}: the atlas already records this run's settings", "leave the option out"
            )
    _refuse_twins(found)
    if clash := next((label for label in said if said.count(label) > 1), None):
        which = " and ".join(str(path) for path, label in zip(paths, said, strict=True) if label == clash)
        raise UserError(
            f"two runs are called {clash!r}: {which}", "leave one out, or name each of them with --label FOLDER=TEXT"
        )
    return sorted(found, key=lambda member: member.step or 0) if over else found


def _places(folder: Path) -> list[tuple[Path, str, Member | None]]:
    """Return a folder's runs, each with its folder and its name: the run itself, or those that an atlas recorded."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder", "name a run's folder, such as results/demo")
    if (folder / recorded.FILE).is_file() and not (folder / "tables").exists():
        return [(member.folder, member.name, member) for member in recorded.read(folder)]
    return [(folder, folder.resolve().name, None)]


def _each_once(places: list[tuple[Path, str, Member | None]]) -> list[tuple[Path, str, Member | None]]:
    """Leave out the runs of an atlas whose tables are given too, as ``results/*/`` gives those of results/atlas."""
    given = []
    for folder, _, kept in places:
        paths = {name: folder / "tables" / f"{name}.parquet" for name in NEEDED}
        if kept is None and all(path.is_file() for path in paths.values()):
            given.append({name: dvc_lock_file.digest(path) for name, path in paths.items()})
    held = lambda member: {name: member.digests.get(name) for name in NEEDED}
    return [place for place in places if place[2] is None or held(place[2]) not in given]


def _named(given: Sequence[str], folders: Sequence[Path], names: Sequence[str], option: str) -> dict[int, str]:
    """Return {place of a run: what an option ``RUN=...`` says about it}."""
    found: dict[int, str] = {}
    for text in given:
        run, equals, said = text.partition("=")
        if not equals or not said.strip():
            raise UserError(f"{option} {text}: expected RUN=...", f"write {option} RUN=...")
        places = [
            i for i, (folder, name) in enumerate(zip(folders, names, strict=True)) if run == name or Path(run) == folder
        ]
        if len(places) != 1:
            what = "names several of the runs" if places else f"names none of the runs{did_you_mean(run, names)}"
            raise UserError(f"{option} {text}: {run!r} {what}", "name one by its folder, as you typed it")
        if places[0] in found:
            raise UserError(f"{option}: given twice for {run!r}", "give it once for each run")
        found[places[0]] = said.strip()
    return found


def _default(name: str, over: str | None, kept: Member | None) -> str:
    """Return a run's label: what an atlas recorded, or its name; over a number, the number that the name ends with."""
    label = name if kept is None else kept.label
    if over is None or (kept is not None and _is_number(label)):
        return label
    return name[len(name.rstrip("0123456789")) :] or name


def _is_number(label: str) -> bool:
    try:
        return math.isfinite(float(label.replace(",", "").replace("_", "")))
    except ValueError:
        return False


def _number(label: str, over: str) -> float:
    if not _is_number(label):
        raise UserError(f"--over {over}: {label!r} is not a number", "give each run a number, as in --label RUN=512")
    return float(label.replace(",", "").replace("_", ""))


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
            "finish the run, or in a clone restore it with make pull",
        )
    info = read_info(card)
    config, known_from = settings.find(folder, info, paths.values(), configfile)
    resolved = None if config is None else config.resolved()
    paths |= {name: path for name in BEYOND_PAPER if (path := held / f"{name}.parquet").is_file()}
    tables = {table: schemas.read(path) for table, path in paths.items()}
    digests = {table: dvc_lock_file.digest(path) for table, path in paths.items()}
    for path, frame in _patterns(folder):
        tables[PATTERNS], digests[PATTERNS] = frame, dvc_lock_file.digest(path)
    for table, frame in tables.items():
        last = frame.select(pl.col("layer").cast(pl.Int64).max()).item() or 0
        if last > info["layers"]:
            raise UserError(
                f"{held / table}.parquet: has layer {last}, but the model has {info['layers']} layers",
                "the table belongs to another run; remove it and run the workflow again",
            )
    counts = held / "counts.parquet"
    if counts.is_file() and wording.self_sampled(schemas.read(counts)) and not _is_number(label):
        label += OWN_TEXT
    sentences = held / "sentences.parquet"
    text = Text.of(
        config, folder.resolve().parents[1], dvc_lock_file.digest(sentences) if sentences.is_file() else None
    )
    untrained = _untrained(folder)
    return Member(
        folder,
        name,
        label,
        info,
        resolved,
        known_from,
        text,
        tables,
        untrained,
        _claims(folder),
        digests,
        len(untrained),
        step,
    )


def _patterns(folder: Path) -> list[tuple[Path, pl.DataFrame]]:
    """Return the proxy's labels of a run with their file, if it has any."""
    for path in (folder / "proxy" / f"{PATTERNS}.parquet", folder / "tables" / f"{PATTERNS}.parquet"):
        if path.is_file():
            frame = schemas.read(path).filter(pl.col("annotator") == ANNOTATOR)
            if frame.height:
                return [(path, frame)]
    return []


def _untrained(folder: Path) -> list[Tables]:
    """Return the tables of each untrained model that the run measured, in the order of their seeds."""
    found = []
    for own in sorted((folder / "models").glob("untrained-*"), key=lambda path: (len(path.name), path.name)):
        names = {name: "proxy" if name == PATTERNS else "tables" for name in (*NEEDED, PATTERNS, *BEYOND_PAPER)}
        paths = {name: own / inside / f"{name}.parquet" for name, inside in names.items()}
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
        given = foreign.read_json(plain, dict[str, Verdict], "run the workflow again", text=True)
        rows = {claim: row.model_dump() for claim, row in given.items()}
    known = [claim.id for claim in register()]
    odd = {row["verdict"] for row in rows.values()} - set(schemas.VERDICTS)
    if odd or not rows.keys() <= set(known):
        raise UserError(f"{plain if not table.is_file() else table}: has claims or verdicts that do not exist")
    return {
        claim: {
            "verdict": wording.shown(rows[claim]["verdict"], rows[claim]["measured"]),
            "measured": rows[claim]["measured"],
        }
        for claim in known
        if claim in rows
    }


def _refuse_twins(found: Sequence[Member]) -> None:
    """Raise ``UserError`` if two folders are one run, or copies of one."""
    seen: dict[Any, Member] = {}
    for member in found:
        tables = tuple(member.digests.get(name) for name in NEEDED)
        for key in (member.folder.resolve(), tables):
            if key in seen:
                which = f"{seen[key].folder} and {member.folder}"
                why = "the same folder" if key == member.folder.resolve() else "the same run: their tables are equal"
                raise UserError(f"{which} are {why}", "give each run once")
        seen |= {member.folder.resolve(): member, tables: member}

"""The runs of an atlas, as they are read: model info, text, tables, untrained baselines, verdicts and settings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel

from ff_memories import tables as schemas
from ff_memories.base import foreign
from ff_memories.base.errors import UserError, did_you_mean
from ff_memories.base.text import escape_invisible
from ff_memories.config import Config, load
from ff_memories.judge import wording
from ff_memories.judge.register import register
from ff_memories.model.info import read_info
from ff_memories.tables.annotation import ANNOTATOR
from ff_memories.workflow import dvc_lock_file
from ff_memories.workflow.opening import configs as configs_of

NEEDED = ("mutations", "values", "composition", "refinement")
PATTERNS = "pattern_labels"
BEYOND_PAPER = ("causal", "removals")  # tables that a run may lack, or have without rows
Tables = dict[str, pl.DataFrame]


@dataclass(frozen=True)
class Text:
    """What a run read, as far as it is known.

    Attributes:
        source: the text's name in the registry of sources.
        form: ``raw`` for models of `transformers`, ``tokenised`` for fairseq's.
        sha256: of all files together.
        files: the files' paths, if the config names files instead of a source.
        sentences: a digest of the table ``sentences``.
    """

    source: str | None = None
    form: str = ""
    sha256: str | None = None
    files: tuple[str, ...] = ()
    sentences: str | None = None

    @classmethod
    def of(cls, config: Config | None, root: Path, sentences: str | None) -> "Text":
        """Return a run's text from its config (``None`` if unknown), its project's folder and its sentences."""
        if config is None:
            return cls(sentences=sentences)
        corpus = config.corpus
        files = tuple(str(root / path) for path in (*corpus.train.files, *corpus.validation.files))
        form = "raw" if config.model.has_tokenizer else "tokenised"
        return cls(corpus.source, form, corpus.sha256, files, sentences)

    @property
    def known(self) -> bool:
        return bool(self.source or self.sha256 or self.files)


@dataclass(frozen=True)
class Member:
    """One run of an atlas.

    Attributes:
        folder: as the user typed it.
        name: of the run.
        label: its name in figures and tables.
        info: its model info.
        resolved: its config as plain data without ``auto``; ``None`` if unknown.
        unknown: why its config is unknown; empty if it is known.
        text: what it read.
        tables: by name; ``pattern_labels`` has only the proxy's rows, and is absent if it has none; those of
            ``BEYOND_PAPER`` may be absent or have no rows.
        untrained: the same tables of models of its shape with random weights, one mapping per seed.
        claims: {claim: its verdict, as the report shows it, and its measured value}.
        step: what its line is coloured by, if the atlas is drawn over something.
    """

    folder: Path
    name: str
    label: str
    info: Mapping[str, Any]
    resolved: Mapping[str, Any] | None
    unknown: str
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


OWN_TEXT = " (text sampled from the model)"  # behind a run's label: agreement there is of the model's own draws


class Verdict(BaseModel):
    """What claims.json says of a claim."""

    measured: float | None
    verdict: str
    group: str | None = None


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
    texts, files = _by_folder(labels, folders, "--label"), _by_folder(configs, folders, "--config")
    read: list[Member] = []
    for i, folder in enumerate(folders):
        if not folder.is_dir():
            raise UserError(f"{folder}: no such folder", "name a run's folder, such as results/demo")
        name = folder.resolve().name
        default = name if over is None else name[len(name.rstrip("0123456789")) :] or name
        member = _member(folder, texts.get(i, default), Path(files[i]) if i in files else None, over)
        for other in read:
            if other.label == member.label:
                raise UserError(
                    f"two runs are called {member.label!r}: {other.folder} and {folder}",
                    "leave one out, or name each of them with --label FOLDER=TEXT",
                )
        read.append(member)
    return sorted(read, key=lambda member: member.step or 0) if over else read


def _by_folder(given: Sequence[str], folders: Sequence[Path], option: str) -> dict[int, str]:
    """Return {place of a run: what an option ``RUN=...`` says about it}."""
    names = [folder.resolve().name for folder in folders]
    by_place: dict[int, str] = {}
    for text in given:
        run, equals, value = text.partition("=")
        if not equals or not value.strip():
            raise UserError(f"{option} {text}: expected RUN=...", f"write {option} RUN=...")
        places = [i for i, folder in enumerate(folders) if run == names[i] or Path(run) == folder]
        if len(places) != 1:
            what = "names several of the runs" if places else f"names none of the runs{did_you_mean(run, names)}"
            raise UserError(f"{option} {text}: {run!r} {what}", "name one by its folder, as you typed it")
        by_place[places[0]] = value.strip()
    return by_place


def _number(label: str, over: str) -> float:
    try:
        if math.isfinite(number := float(label.replace(",", "").replace("_", ""))):
            return number
    except ValueError:
        pass
    raise UserError(f"--over {over}: {label!r} is not a number", "give each run a number, as in --label RUN=512")


def _member(folder: Path, label: str, configfile: Path | None, over: str | None) -> Member:
    card, folder_of_tables, claims = folder / "model" / "info.json", folder / "tables", folder / "claims.json"
    if not card.is_file() and not folder_of_tables.is_dir():
        raise UserError(f"{folder}: is no run: it has no model/info.json and no tables", "name a folder in results/")
    paths = {table: folder_of_tables / f"{table}.parquet" for table in NEEDED}
    if lacking := [
        path.relative_to(folder).as_posix() for path in (*paths.values(), card, claims) if not path.exists()
    ]:
        raise UserError(
            f"{folder}: this run has no {', '.join(lacking)}", "finish the run, or in a clone restore it with make pull"
        )
    info = read_info(card)
    config, unknown = _config(folder, info, configfile)
    paths |= {name: path for name in BEYOND_PAPER if (path := folder_of_tables / f"{name}.parquet").is_file()}
    tables = {table: schemas.read(path) for table, path in paths.items()}
    tables |= _proxy_labels(folder)
    counts, sentences = folder_of_tables / "counts.parquet", folder_of_tables / "sentences.parquet"
    step = None if over is None else _number(label, over)
    if step is None and counts.is_file() and wording.self_sampled(schemas.read(counts)):
        label += OWN_TEXT
    return Member(
        folder,
        folder.resolve().name,
        escape_invisible(label),
        info,
        None if config is None else config.resolved(),
        unknown,
        Text.of(config, folder.resolve().parents[1], dvc_lock_file.digest(sentences) if sentences.is_file() else None),
        tables,
        _untrained(folder),
        _claims(claims),
        step,
    )


def _config(folder: Path, info: dict[str, Any], given: Path | None) -> tuple[Config | None, str]:
    """Return a run's config, or ``None`` and the reason if there is none to rely on.

    It is the given one, or the one in the run's project that names the run and the model of the run's info.

    Raises:
        UserError: the given config file is of another run or another model.
    """
    if given is not None:
        config = load(given)
        if config.run != folder.resolve().name:
            raise UserError(f"{given}: is the config of the run {config.run!r}", "name the run's own config file")
        if not config.model.is_of(info):
            raise UserError(f"{given}: names another model than {folder}/model/info.json", "name the run's own config")
        return config, ""
    root = folder.resolve().parents[1]
    named, broken = configs_of(folder.resolve().name, root)
    fitting = [config for _, config in named if config.model.is_of(info)]
    if not fitting and broken:
        return None, f"{broken[0].relative_to(root).as_posix()} cannot be read as a config"
    if not fitting:
        return None, "the configs of this name have another model" if named else "no config of this name"
    if any(config != fitting[0] for config in fitting):
        return None, "several configs have this name"
    return fitting[0], ""


def _proxy_labels(folder: Path) -> Tables:
    """Return the proxy's labels of a run, if it has any."""
    for path in (folder / "proxy" / f"{PATTERNS}.parquet", folder / "tables" / f"{PATTERNS}.parquet"):
        if path.is_file():
            frame = schemas.read(path).filter(pl.col("annotator") == ANNOTATOR)
            if frame.height:
                return {PATTERNS: frame}
    return {}


def _untrained(folder: Path) -> list[Tables]:
    """Return the tables of each untrained model that the run measured, in the order of their seeds."""
    models = []
    for model in sorted((folder / "models").glob("untrained-*"), key=lambda path: (len(path.name), path.name)):
        names = {name: "proxy" if name == PATTERNS else "tables" for name in (*NEEDED, PATTERNS, *BEYOND_PAPER)}
        paths = {name: model / inside / f"{name}.parquet" for name, inside in names.items()}
        models.append({name: schemas.read(path) for name, path in paths.items() if path.is_file()})
    return [tables for tables in models if tables]


def _claims(path: Path) -> dict[str, dict[str, Any]]:
    """Return what a run's claims.json says of each claim, with how it stands (``wording.standing``)."""
    rows = foreign.read_json(path, dict[str, Verdict], "run the workflow again", text=True)
    out = {}
    for claim in (claim for claim in register() if claim.id in rows):
        row = rows[claim.id].model_dump() | {"by_construction": claim.by_construction}
        out[claim.id] = row | {"standing": wording.standing(row)}
    return out

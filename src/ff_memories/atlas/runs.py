"""The runs of an atlas: their model info, text, tables, untrained baselines, verdicts and settings; what differs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel

from ff_memories import tables as schemas
from ff_memories.base import foreign
from ff_memories.base.errors import UserError, did_you_mean
from ff_memories.base.text import escape_invisible
from ff_memories.config import Config
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
class RunText:
    """What a run read, as far as it is known: a source of the registry, or files."""

    source: str | None = None
    form: str = ""  # ``raw`` for models of `transformers`, else ``tokenised``
    sha256: str | None = None  # of all files together
    files: tuple[str, ...] = ()
    sentences: str | None = None  # a digest of that table

    @property
    def known(self) -> bool:
        return bool(self.source or self.sha256 or self.files)


@dataclass(frozen=True)
class Member:
    """One run of an atlas."""

    folder: Path  # as typed
    name: str
    label: str  # in figures
    info: Mapping[str, Any]
    resolved: Mapping[str, Any] | None  # its config as plain data, or ``None``
    unknown: str  # and why
    text: RunText
    tables: Tables  # ``BEYOND_PAPER`` may be absent or empty; of ``pattern_labels`` the proxy's rows alone, if any
    untrained: Sequence[Tables]  # the same of models with random weights, by seed
    claims: Mapping[str, Mapping[str, Any]]  # with verdicts
    step: float | None = None  # what its line is coloured by, if the atlas is over something

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


def members(folders: Sequence[Path], labels: Sequence[str] = (), over: str | None = None) -> list[Member]:
    """Read runs in the order given; with ``over``, what their labels count, in the order of these numbers.

    ``labels`` has ``RUN=TEXT``; a run's default number is the end of its name. Raises ``UserError`` for fewer than two
    runs, a folder that is no finished run, a run given twice, or a bad label.
    """
    if len(folders) < 2:
        raise UserError("an atlas compares runs, and only one was given", "name at least two runs")
    texts = _by_folder(labels, folders)
    read: dict[str, Member] = {}
    for i, folder in enumerate(folders):
        if not folder.is_dir():
            raise UserError(f"{folder}: no such folder", "name a run's folder, such as results/demo")
        name = folder.resolve().name
        default = name if over is None else name[len(name.rstrip("0123456789")) :] or name
        member = _member(folder, texts.get(i, default), over)
        if other := read.get(member.label):
            hint = "leave one out, or name each of them with --label FOLDER=TEXT"
            raise UserError(f"two runs are called {member.label!r}: {other.folder} and {folder}", hint)
        read[member.label] = member
    return sorted(read.values(), key=lambda member: member.step or 0)


def _by_folder(labels: Sequence[str], folders: Sequence[Path]) -> dict[int, str]:
    """Return {place of a run: its label}."""
    names = [folder.resolve().name for folder in folders]
    by_place: dict[int, str] = {}
    for text in labels:
        run, _, label = text.partition("=")
        if not label.strip():
            raise UserError(f"--label {text}: expected RUN=TEXT", "write --label RUN=TEXT")
        places = [i for i, folder in enumerate(folders) if run == names[i] or Path(run) == folder]
        if len(places) != 1:
            what = "names several of the runs" if places else f"names none of the runs{did_you_mean(run, names)}"
            raise UserError(f"--label {text}: {run!r} {what}", "name one by its folder, as you typed it")
        by_place[places[0]] = label.strip()
    return by_place


def _number(label: str, over: str) -> float:
    with suppress(ValueError):
        if math.isfinite(number := float(label.replace(",", "").replace("_", ""))):
            return number
    raise UserError(f"--over {over}: {label!r} is not a number", "give each run a number, as in --label RUN=512")


def _member(folder: Path, label: str, over: str | None) -> Member:
    card, folder_of_tables, claims = folder / "model" / "info.json", folder / "tables", folder / "claims.json"
    needed = [*(folder_of_tables / f"{table}.parquet" for table in NEEDED), card, claims]
    if lacking := [path.relative_to(folder).as_posix() for path in needed if not path.exists()]:
        hint = "finish the run, or in a clone restore it with make pull"
        raise UserError(f"{folder}: this run has no {', '.join(lacking)}", hint)
    info = read_info(card)
    config, unknown = _config(folder, info)
    counts, sentences = folder_of_tables / "counts.parquet", folder_of_tables / "sentences.parquet"
    step = None if over is None else _number(label, over)
    if step is None and counts.is_file() and wording.self_sampled(schemas.read(counts)):
        label += OWN_TEXT
    name, label = folder.resolve().name, escape_invisible(label)
    text = _text(config, folder, dvc_lock_file.digest(sentences) if sentences.is_file() else None)
    tables, verdicts, resolved = _tables(folder), _claims(claims), None if config is None else config.resolved()
    models = sorted((folder / "models").glob("untrained-*"), key=lambda path: (len(path.name), path.name))
    of_config = (path for path in models if config is None or path.name in config.baselines.names)  # not of one before
    untrained = list(filter(None, map(_tables, of_config)))
    return Member(folder, name, label, info, resolved, unknown, text, tables, untrained, verdicts, step)


def _config(folder: Path, info: dict[str, Any]) -> tuple[Config | None, str]:
    """Return the project's config that names run and model, or ``None`` and why there is none."""
    named, broken = configs_of(folder.resolve().name, folder.resolve().parents[1])
    fitting = [config for _, config in named if config.model.is_of(info)]
    if not fitting:
        return None, f"{broken[0].name} cannot be read" if broken else "no config here has its name and model"
    return (fitting[0], "") if all(config == fitting[0] for config in fitting) else (None, "several configs fit it")


def _text(config: Config | None, folder: Path, sentences: str | None) -> RunText:
    """Return a run's text from its config (``None`` if unknown), its folder and the digest of its sentences."""
    if config is None:
        return RunText(sentences=sentences)
    corpus, root = config.corpus, folder.resolve().parents[1]
    files = tuple(str(root / path) for path in (*corpus.train.files, *corpus.validation.files))
    form = "raw" if config.model.has_tokenizer else "tokenised"
    return RunText(corpus.source, form, corpus.sha256, files, sentences)


def _tables(folder: Path) -> Tables:
    """Return the tables of a run or of another model that it measured; of labels, the proxy's, if it has any."""
    paths = {name: folder / "tables" / f"{name}.parquet" for name in (*NEEDED, *BEYOND_PAPER, PATTERNS)}
    if (own := folder / "proxy" / f"{PATTERNS}.parquet").is_file():
        paths[PATTERNS] = own
    read = {name: schemas.read(path) for name, path in paths.items() if path.is_file()}
    if PATTERNS in read and (labels := read.pop(PATTERNS).filter(annotator=ANNOTATOR)).height:
        read[PATTERNS] = labels
    return read


def _claims(path: Path) -> dict[str, dict[str, Any]]:
    """Return what a run's claims.json says of each claim, with how it stands (``wording.standing``)."""
    rows = foreign.read_json(path, dict[str, Verdict], "run the workflow again", text=True)
    out = {}
    for claim in (claim for claim in register() if claim.id in rows):
        row = rows[claim.id].model_dump() | {"by_construction": claim.by_construction}
        out[claim.id] = row | {"standing": wording.standing(row)}
    return out


SAME, RELATED, OTHER = "same", "related", "other"  # two runs' texts
ALWAYS = ("seed", "fidelity", "corpus", "extraction")  # what every measure depends on
SECTIONS = (*ALWAYS, "triggers", "mutations", "patterns", "values", "composition", "causal", "removals")
NAMES = ("corpus.source", "corpus.sha256", ".files")  # what text it is, not what a run does with it


def relation(one: RunText, other: RunText) -> tuple[str, str]:
    """Return how two texts relate, ``same``, ``related`` or ``other``, and what a reader must know about it."""
    if (one.sentences and one.sentences == other.sentences) or (one.sha256 and one.sha256 == other.sha256):
        return SAME, ""
    if one.source and one.source == other.source:
        if one.form != other.form:
            return RELATED, f"the same source, {one.source}, in another form: {other.form} instead of {one.form}"
        return RELATED, f"the same source, {one.source}, but not by its digest"
    return OTHER, "another text" if one.known and other.known else "its text is not recorded"


def relations(members: Sequence[Member], any_text: bool) -> list[tuple[str, str]]:
    """Return how each run's text relates to the first's. Raises ``UserError`` if it does not, unless ``any_text``."""
    first, *rest = members
    to_first = [relation(first.text, member.text) for member in rest]
    for member, (how, _) in zip(rest, to_first, strict=True):
        if how == OTHER and not any_text:
            for one in (first, member):
                if not one.text.known:
                    hint = "put its config into the project's folder, or compare runs on any texts with --any-text"
                    raise UserError(f"{one.folder}: the text of this run is not recorded ({one.unknown})", hint)
            what = f"{member.folder}: read another text than {first.folder}, so their numbers do not compare"
            raise UserError(what, "compare runs on the same text, or give --any-text")
    return [(SAME, ""), *to_first]


def flat(data: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (``section.key``, value) of nested settings."""
    for key, value in data.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping) and not name.endswith(".keys"):
            yield from flat(value, f"{name}.")
        else:
            yield name, value


def differences(members: Sequence[Member]) -> dict[str, list[Any]]:
    """Return {setting: each run's value} for the settings that measures depend on and that are not all equal.

    A run whose config is unknown has ``None`` everywhere, and is left out of the comparison.
    """
    configs = [{name: m.resolved[name] for name in SECTIONS} if m.resolved else {} for m in members]
    settings = [dict(flat(config)) for config in configs]
    known = [values for values in settings if values]
    names = dict.fromkeys(name for values in known for name in values if not name.endswith(NAMES))
    differing = [name for name in names if any(values.get(name) != known[0].get(name) for values in known)]
    return {name: [values.get(name) for values in settings] for name in differing}

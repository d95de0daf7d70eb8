"""The files of a run that `compare` looks at: those of a folder, or those that a dvc.lock records."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ff_memories.audit.compare import equality
from ff_memories.base.errors import UserError
from ff_memories.tables import TABLES
from ff_memories.workflow import dvc, dvc_lock_file
from ff_memories.workflow.dvc_yaml import SHARED
from ff_memories.workflow.runs.opening import run_of
from ff_memories.workflow.runs.run import Run

OWN = re.compile(r"^(?:\.\./)*results/([^/]+)/(.+)$")
CACHES = (Path(".dvc/cache/files/md5"), Path("artefacts/files/md5"))
TABLE = re.compile(r"(tables|proxy|counts|sensitivity)/(?:.+/)?(\w+)\.parquet$")
EXACT = re.compile(r"model/(info|model)\.json$|counts/stale_annotations\.csv$")
NUMBERS = re.compile(r"models/[^/]+/perplexity\.json$|golden/\w+\.json$")
DRAWN = re.compile(r"(figures|claims)/|claims(\.json)?$|report/claims\.tex$|summary\.md$")
FOLDERS = ("claims",)  # outputs that are whole folders; DVC has one digest for each
WITHIN = re.compile(r"(models|claims|counts|figures|golden|model|proxy|report|sensitivity|tables)/|[^/]+$")
GIVE = "give a folder such as results/demo, or a dvc.lock"


@dataclass
class Side:
    """One of two runs.

    Attributes:
        given: what the user named.
        run: the run's name.
        files: {path below the run's folder: its file}; a dvc.lock has only those that DVC keeps.
        digests: {path below the run's folder: its digest}; a folder that is one output has one digest.
        record: {path from the project's folder: the digest of a file that the run read or wrote}, of a dvc.lock.
    """

    given: Path
    run: str
    files: dict[str, Path] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    record: dict[str, str] = field(default_factory=dict)

    def tables(self) -> dict[str, Path]:
        """Return {name: file} of the tables, such as ``baselines/untrained-1/values``."""
        found = ((path, file) for path, file in sorted(self.files.items()) if table_of(path) is not None)
        return {path.removesuffix(".parquet"): file for path, file in found}


def table_of(path: str) -> str | None:
    """Return the table that a file of a run holds; ``None`` for other files."""
    if (match := TABLE.search(path)) is None:
        return None
    name = "counts" if match[1] == "counts" else match[2]
    return name if name in equality.RULES else None


def has_rule(path: str) -> bool:
    """Return whether `compare` knows how to compare a file."""
    return table_of(path) is not None or any(rule.search(path) for rule in (EXACT, NUMBERS, DRAWN))


@contextmanager
def opened(given: Path, run: Run | None) -> Iterator[Side]:
    """Yield a run's files.

    Args:
        given: the run's folder or a dvc.lock; of a dvc.lock in its place, files that are missing are fetched.
        run: the run, if the user named its config.

    Raises:
        UserError: it is neither, or DVC's cache lacks its tables.
    """
    if given.is_dir():
        yield _folder(given)
    elif given.is_file():
        yield _recorded(given, run)
    else:
        raise UserError(f"{given}: no such folder or dvc.lock", GIVE)


def _folder(given: Path) -> Side:
    side = Side(given, given.resolve().name)
    for file in sorted(file for file in given.rglob("*") if file.is_file()):
        path = file.relative_to(given).as_posix()
        if not (WITHIN.match(path) and SHARED.search(f"/{path}")) or file.name == ".snakemake_timestamp":
            continue  # logs, text, and what can be made again
        side.files[path] = file
        if file.stem not in TABLES or TABLES[file.stem].compared is not None:
            side.digests[path] = dvc_lock_file.digest(file)
    side.digests |= {name: dvc_lock_file.content(given / name) for name in FOLDERS if (given / name).is_dir()}
    if not side.tables():
        raise UserError(f"{given}: has no tables of a run", "give a folder such as results/demo")
    return side


def _recorded(given: Path, run: Run | None) -> Side:
    side = Side(given, "", record=outputs(given, ("deps", "outs")))
    for path, md5 in outputs(given).items():
        if match := OWN.match(path):
            side.run = match[1]
            if SHARED.search(path):
                side.digests[match[2]] = md5
    if not side.digests:
        raise UserError(f"{given}: has no tables of a run", GIVE)
    own = run or run_of(side.run)
    if own is not None and given.resolve() == own.dvc_lock.resolve():
        _fetch(own)
    for path, md5 in side.digests.items():
        held = [file for cache in CACHES if (file := cache / md5[:2] / md5[2:]).is_file()]
        if held and not md5.endswith(".dir"):
            whole = next((file for file in held if dvc_lock_file.digest(file) == md5), None)
            if whole is None:
                raise UserError(
                    f"{held[0]}: damaged, its MD5 is not its name ({given}: {path})", "remove it and run dvc fetch"
                )
            side.files[path] = whole
        elif table_of(path):
            raise UserError(f"{given}: its {path} is not in DVC's cache", "run dvc fetch")
    return side


def outputs(path: Path, which: tuple[str, ...] = ("outs",)) -> dict[str, str]:
    """Return {output: MD5} of a ``dvc.lock``, or that of ``deps`` too. Raises ``UserError`` for any other file."""
    try:
        stages = dvc_lock_file.stages_of(path).values()
        return {file["path"]: file["md5"] for kind in which for stage in stages for file in stage.get(kind, [])}
    except UserError as error:
        reason = str(error).partition("\n")[0].removeprefix(f"{path}: ")
        raise UserError(f"{path}: neither a run's folder nor a dvc.lock ({reason})", GIVE) from None


def _fetch(run: Run) -> None:
    """Fetch a run's recorded tables into DVC's cache, without touching the run's files."""
    lacking = set()
    for path, (stage, md5) in dvc_lock_file.outputs(run).items():
        match = OWN.match(path)
        if match and table_of(match[2]) and not (CACHES[0] / md5[:2] / md5[2:]).is_file():
            lacking.add(stage)
    if lacking:
        dvc.look_at(run)
        dvc.call("fetch", "--quiet", *(f"{run.dvc_yaml}:{stage}" for stage in sorted(lacking)))

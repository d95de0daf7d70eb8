"""The files of a run that `compare` looks at, of a folder or a dvc.lock, and whether model and text are the right ones.

What a path below a run's folder says (whose table it is) is known here only.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.tables import TABLES
from ff_memories.workflow import dvc_lock_file
from ff_memories.workflow.dvc_yaml import is_shared
from ff_memories.workflow.run import Run

OWN = re.compile(r"^(?:\.\./)*results/([^/]+)/(.+)$")
CACHES = (Path(".dvc/cache/files/md5"), Path(".dvc/artefacts/files/md5"))
FOLDERS = ("claims",)  # outputs that are whole folders; DVC has one digest for each
WITHIN = re.compile(r"(claims|counts|figures|golden|models?|proxy|report|sensitivity|tables)/|[^/]+$")
TABLE = re.compile(r"(?:models/[^/]+/)?(tables|proxy|counts|sensitivity)/(?:.+/)?(\w+)\.parquet$")
GIVE = "give a folder such as results/demo, or a dvc.lock"


@dataclass
class RunFiles:
    """One of two runs; paths are below its folder."""

    given: Path  # what the user named
    run: str  # the run's name
    files: dict[str, Path] = field(default_factory=dict)  # by path; a dvc.lock has only those that DVC keeps
    digests: dict[str, str] = field(default_factory=dict)  # by path; a folder that is one output has one
    # of a dvc.lock (``recorded``)
    record: dict[str, str] = field(default_factory=dict)

    def tables(self) -> dict[str, Path]:
        """Return {name: file} of the tables, such as ``models/untrained-1/tables/values``."""
        return {path.removesuffix(".parquet"): self.files[path] for path in sorted(self.files) if table_of(path)}

    def info(self) -> Mapping[str, object]:
        """Return the run's model info; nothing if it has none. Raises ``UserError`` if it is damaged."""
        if (file := self.files.get("model/info.json")) is None:
            return {}
        return foreign.read_json(file, dict[str, Any], name=f"{self.given}: model/info.json")


def table_of(path: str) -> str | None:
    """Return the table that a file below a run's folder holds; ``None`` for other files."""
    if (match := TABLE.match(path)) is None:
        return None
    name = "counts" if match[1] == "counts" else match[2]
    return name if name in TABLES and TABLES[name].compared is not None else None


def model_of(folder: str) -> str | None:
    """Return the model whose tables a folder holds: ``own``, or a baseline; ``None`` for tables of no model."""
    match = re.fullmatch(r"models/([^/]+)/(tables|proxy)", folder)
    return "own" if folder == "tables" else match and match[1]


def opened(given: Path) -> RunFiles:
    """Return the files of a folder or a dvc.lock. Raises ``UserError`` for others, and if DVC's cache lacks tables."""
    if given.is_dir():
        return _folder(given)
    if given.is_file():
        return _recorded(given)
    raise UserError(f"{given}: no such folder or dvc.lock", GIVE)


def _folder(given: Path) -> RunFiles:
    side = RunFiles(given, given.resolve().name)
    for file in sorted(file for file in given.rglob("*") if file.is_file()):
        path = file.relative_to(given).as_posix()
        if not (WITHIN.match(path) and is_shared(f"results/run/{path}")) or file.name == ".snakemake_timestamp":
            continue  # logs, text, and what can be made again
        side.files[path] = file
        if file.stem not in TABLES or TABLES[file.stem].compared is not None:
            side.digests[path] = dvc_lock_file.digest(file)
    side.digests |= {name: dvc_lock_file.content(given / name) for name in FOLDERS if (given / name).is_dir()}
    if not side.tables():
        raise UserError(f"{given}: has no tables of a run", "give a folder such as results/demo")
    return side


def _recorded(given: Path) -> RunFiles:
    side = RunFiles(given, "", record=recorded(given))
    for path, md5 in side.record.items():
        if (match := OWN.match(path)) and is_shared(path):
            side.run, side.digests[match[2]] = match[1], md5
    if not side.digests:
        raise UserError(f"{given}: has no tables of a run", GIVE)
    for path, md5 in side.digests.items():
        copies = [file for cache in CACHES if (file := cache / md5[:2] / md5[2:]).is_file()]
        if copies and not md5.endswith(".dir"):
            whole = next((file for file in copies if dvc_lock_file.digest(file) == md5), None)
            if whole is None:
                raise UserError(
                    f"{copies[0]}: damaged, its MD5 is not its name ({given}: {path})", "remove it and run dvc fetch"
                )
            side.files[path] = whole
        elif table_of(path):
            raise UserError(f"{given}: its {path} is not in DVC's cache", "run dvc fetch")
    return side


def recorded(path: Path) -> dict[str, str]:
    """Return {path from the project's folder: the MD5 of a file that a ``dvc.lock`` says was read or written}.

    Raises ``UserError`` for any other file.
    """
    try:
        stages = dvc_lock_file.stages_of(path).values()
    except UserError as error:
        reason = str(error).partition("\n")[0].removeprefix(f"{path}: ")
        raise UserError(f"{path}: neither a run's folder nor a dvc.lock ({reason})", GIVE) from None
    return {file["path"]: file["md5"] for kind in ("deps", "outs") for stage in stages for file in stage.get(kind, [])}


def made(run: Run) -> list[str]:
    """Return the files that a run makes of its model and its text, and that rows are recomputed from."""
    paths = [run.path("model", f"model.{end}") for end in ("safetensors", "json")]
    paths += [run.path("corpus", "corpus.safetensors"), run.table("sentences")]
    return [*paths, run.dictionary] if run.config.model.has_tokenizer else paths


def inputs(run: Run) -> list[str]:
    """Return all files that rows are recomputed from."""
    return list(dict.fromkeys([*run.inputs.model_files, run.dictionary, *made(run)]))


def other_input(run: Run, both: Collection[RunFiles]) -> str | None:
    """Say which of these files is not the one of the config, of a record of the run, or of what either run measured."""
    wanted = [(path, "sha256", sha256, "the config names") for path, sha256 in run.inputs.pinned.items()]
    records = {str(side.given): side.record for side in both if side.record}
    if run.dvc_lock.is_file():
        records[str(run.dvc_lock)] = recorded(run.dvc_lock)
    for where, record in records.items():
        wanted += [(path, "md5", record[path], f"{where} records") for path in inputs(run) if path in record]
    for side in both:
        if isinstance(sha256 := side.info().get("checkpoint_sha256"), str):
            wanted.append((run.inputs.model_files[0], "sha256", sha256, f"{side.given} was measured with"))
    wrong = ((path, who) for path, algorithm, md5, who in wanted if dvc_lock_file.digest(path, algorithm) != md5)
    return next((f"{path} is not the one that {who}" for path, who in wrong), None)

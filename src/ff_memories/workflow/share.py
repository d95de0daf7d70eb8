"""Share a run as a zip archive that anybody can verify: its config, its record, its tables, and SHA256SUMS.

No archive holds running text: what shows text is left out, as from every record (``dvc_yaml.SHARED``), and rebuilt from
the text by who verifies. No archive holds a path outside the run's folder: such inputs get a new path, below ``GIVEN``,
in the config, in the table ``sentences`` and so in the record. ``SHA256SUMS`` has model and text too, by whose digests
they are found.

An archive is hostile input: it chooses no path outside the folder, it unpacks to a bounded size, and its config names
only files inside the folder. Whoever verifies gives model and text, or they are fetched by name.
"""

import copy
import os
import re
import tempfile
import zipfile
from collections.abc import Iterable
from contextlib import chdir
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl
import yaml

from ff_memories import config as configs
from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_write, require_file, write_whole
from ff_memories.config import FairseqModel, TransformersModel, read_yaml
from ff_memories.inputs.fetch import fetch
from ff_memories.inputs.fetching import hub, unpack
from ff_memories.inputs.models import converted_folder, from_gguf, model_folder
from ff_memories.inputs.of_run import Inputs
from ff_memories.inputs.texts import one_text
from ff_memories.model.info import read_info
from ff_memories.workflow import constraints, dvc_lock_file, dvc_yaml, record_check, snakemake_metadata
from ff_memories.workflow.jobs import makes_intermediates, workflow
from ff_memories.workflow.runs import missing_outputs
from ff_memories.workflow.runs.finished import refuse_unfinished
from ff_memories.workflow.runs.run import Run

SUMS = "SHA256SUMS"
HEAD = re.compile(r"# ff-memories ([\w.+!-]{1,40}): (.+)")  # the first line of SHA256SUMS: version and config
ROW = re.compile(r"([0-9a-f]{64})  (.+)")
GIVEN = "given"  # folder of the inputs whose own path is not shared
NAMES = {("model", "folder"), ("model", "gguf"), ("model", "checkpoint"), ("model", "dictionary")}
NAMES |= {("composition", "sample_file")}  # keys of the config with one path each
TIME = (1980, 1, 1, 0, 0, 0)  # of every file, so the same run makes the same archive
TIMES, LEAST = 20, 20_000_000  # an archive may unpack to so many times its size, or to so many bytes
ANOTHER = "ask for another copy of it"


def pack(run: Run, to: Path) -> list[str]:
    """Write the archive of a finished run; return the outputs that are left out.

    Raises:
        UserError: the run is not finished, an output was edited, or the config cannot be shared.
    """
    _refuse(run)
    here = Path.cwd()
    config, moved = portable(run)
    with tempfile.TemporaryDirectory(prefix="ff-memories-share-") as name:
        folder = Path(name)
        write_whole(folder / run.file, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
        for path in {*run.inputs.model_files, *run.annotations}.union(*inputs(run).values()):
            _link(folder / moved.get(path, path), here / path)
        if any(path in moved for split in ("train", "validation") for path in run.inputs.texts(split)):
            named = tables.read(run.table("sentences")).with_columns(pl.col("file").replace(moved))
            tables.write(named, folder / run.table("sentences"))
        write_whole(folder / constraints.LOCK, "".join(f"{line}\n" for line in constraints.needed()))
        with chdir(folder):
            shown = Run.read(run.file)
            write_whole(shown.dvc_lock, yaml.safe_dump(record_check.record(shown, here), sort_keys=False))
            outs, others = dvc_lock_file.outputs(shown), [path for files in inputs(shown).values() for path in files]
        found = lambda path: folder / path if (folder / path).exists() else here / path
        files = [run.file, str(constraints.LOCK), str(shown.dvc_lock), *run.annotations]
        for out in sorted(filter(dvc_yaml.is_kept, outs)):
            files += sorted(map(str, dvc_lock_file.inside(out))) if Path(out).is_dir() else [out]
        sums = f"# ff-memories {version('ff-memories')}: {run.file}\n"
        digests = {path: dvc_lock_file.digest(found(path), "sha256") for path in [*files, *others]}
        sums += "".join(f"{digest}  {path}\n" for path, digest in digests.items())
        with atomic_write(to) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, data in [(SUMS, sums.encode()), *((path, found(path).read_bytes()) for path in files)]:
                archive.writestr(zipfile.ZipInfo(path, TIME), data, zipfile.ZIP_DEFLATED)
    return [path for path in outs if not dvc_yaml.is_kept(path)]


def _refuse(run: Run) -> None:
    refuse_unfinished(run)
    if run.file.startswith("..") or os.path.isabs(run.file):
        raise UserError(f"{run.file}: outside of this folder", "copy the config into the folder, and run it there")
    if run.config.sources.registry is not None:
        hint = "name files of model and text instead"
        raise UserError(f"{run.file}: sources.registry names sources that nobody else has", hint)
    with workflow(run) as found:
        gone = missing_outputs.missing(found, run)
        # by params, which name code and config; times say nothing after DVC has linked files to its cache
        jobs = [job for job in found.dag.jobs if job.output and not makes_intermediates(job)]
        if gone or any(found.persistence.params_changed(job) for job in jobs):
            said = f", {gone[0]} is missing" if gone else ""
            raise UserError(f"{run.results}: not finished{said}", f"run ff-memories run {run.file}")
        snakemake_metadata.refuse_edited(found)


def portable(run: Run) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a run's config without paths that lead out of its folder, and {path of an input: its path there}."""
    config, moved = copy.deepcopy(run.given), {}

    def inside(path: str, *place: str) -> str:
        if not (os.path.isabs(path) or ".." in Path(path).parts or path.startswith("~")):
            return path
        moved[path] = "/".join([GIVEN, *place, Path(os.path.abspath(path)).name])
        return moved[path]

    for section, key in sorted(NAMES):
        on_hub = key == "gguf" and run.inputs.pinned_on_hub
        if isinstance(path := (config.get(section) or {}).get(key), str) and not on_hub:
            config[section][key] = inside(path, section, key)
    for split in ("train", "validation"):
        given = config["corpus"].get(split) or {}
        given["files"] = [inside(path, split, str(number)) for number, path in enumerate(given.get("files") or [], 1)]
    model, files = run.config.model, run.inputs.model_files
    if isinstance(model, TransformersModel) and model.folder is not None:
        config["model"]["files"] = model_folder.digests(str(run.inputs.model_folder), map(os.path.basename, files))
        if to := moved.get(model.folder):
            moved |= {path: f"{to}/{Path(path).name}" for path in files}
    return config, moved


def inputs(run: Run) -> dict[str, list[str]]:
    """Return the files that a run reads and no job of its own makes, by ``model``, ``text`` and ``pipeline``."""
    own, text, given = run.inputs, run.inputs.source("text"), run.config.composition.sample_file
    is_built = text is not None and not (text.downloads or text.sampled_from)  # by a rule, from installed packages
    dictionary = [run.dictionary] if isinstance(run.config.model, FairseqModel) else []
    texts = [] if is_built else [*own.texts("train"), *own.texts("validation"), *own.test_text]
    return {
        "model": [*own.gguf] or [*own.model_files, *dictionary],
        "text": [*texts, *([given] if given else [])],
        "pipeline": own.fetched("pipeline")["files"],
    }


def names(run: Run) -> dict[str, str | None]:
    """Return the names that ``inputs`` can be fetched by; ``None`` for files that have none."""
    model = run.config.model
    on_hub = f"{model.hub} at {model.revision}" if isinstance(model, TransformersModel) and model.hub else None
    pipeline = str(run.inputs.fetched("pipeline")["name"]) if run.inputs.fetched("pipeline")["files"] else None
    return {"model": model.source or on_hub, "text": run.config.corpus.source, "pipeline": pipeline}


def _link(path: Path, to: Path) -> None:
    if to.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(to.resolve())


@dataclass(frozen=True)
class Received:
    """An archive's run in a folder: the path of its config there, lines on its model and text, and the same as data."""

    config: str
    says: list[str]
    data: dict[str, Any]


def receive(archive: Path, folder: Path, model: list[Path], text: list[Path]) -> Received:
    """Unpack an archive into an empty folder, and put its model and text there as links.

    What the run takes by name is fetched to ``data/`` of the working folder, as ``ff-memories fetch`` does.

    Args:
        model, text: files, or folders of files, to take these from; empty: fetch them by name.

    Raises:
        UserError: the archive is damaged or refused, or its model or text cannot be had.
    """
    require_file(archive)
    if not archive.is_file():
        raise UserError(f"{archive}: no such archive", "give a file that ff-memories share wrote")
    if not zipfile.is_zipfile(archive):
        raise UserError(f"{archive}: cut off, or no archive of ff-memories share", ANOTHER)
    unpack.unpack(archive, "zip", [], folder, max(LEAST, TIMES * archive.stat().st_size), inside="")
    run, made_by, digests = _checked(archive, folder)
    said: dict[str, Any] = {}
    for kind, given in (("model", model), ("text", text), ("pipeline", [])):
        files = inputs(run)[kind]
        if missing := [path for path in files if path not in digests]:
            raise UserError(f"{archive}: {SUMS} lacks {missing[0]}", ANOTHER)
        wanted = {path: digests[path] for path in files}
        found = _given(kind, given, wanted, folder) if given and wanted else _by_name(kind, run, files)
        for path, file in found.items():
            _place(archive, folder, path, file)
        said[kind] = {"name": names(run)[kind], "given": bool(given), "files": wanted}
    for path, digest in run.inputs.gguf.items():
        converted = from_gguf.folder(folder / path, digest)
        for own in run.inputs.model_files:
            _place(archive, folder, own, (converted / Path(own).name).resolve())
        _name_source(folder, run)
    says = [f"{kind}: {'given' if part['given'] else part['name']}" for kind, part in said.items() if part["files"]]
    if made_by != (here := version("ff-memories")):
        says.append(f"made by ff-memories {made_by}; this is {here}, whose code may differ: see the part `record`")
    return Received(run.file, says, {"sha256": dvc_lock_file.digest(archive, "sha256"), "made_by": made_by, **said})


def _checked(archive: Path, folder: Path) -> tuple[Run, str, dict[str, str]]:
    """Return an archive's run, the version that made it, and its SHA256SUMS, {path: digest}.

    Raises ``UserError`` if a path that it names leads out of the folder, or if a file is gone, is not as SHA256SUMS
    says, or is not of the run: a Snakefile, for one, would be executed.
    """
    if not (folder / SUMS).is_file():
        raise UserError(f"{archive}: has no {SUMS}", "verify it with the version that wrote it")
    first, *rows = (folder / SUMS).read_text(encoding="utf-8", errors="replace").split("\n")
    head, found = HEAD.fullmatch(first), [ROW.fullmatch(row) for row in rows if row]
    if head is None or None in found:
        raise UserError(f"{archive}: {SUMS} cannot be read", ANOTHER)
    made_by, file, digests = head[1], head[2], {row[2]: row[1] for row in found if row}
    _refuse_outside(archive, [file, *digests])
    try:
        config = read_yaml(folder / file)
        named = [path for _, path in Inputs(configs.parse(config, file)).named]
    except (UserError, OSError) as error:
        said = str(error).partition("\n")[0].replace(f"{folder}/", "")
        raise UserError(f"{archive}: its config cannot be read: {said}", ANOTHER) from None
    _refuse_outside(archive, named)
    run, own = Run(config, file), {SUMS, file, str(constraints.LOCK)}
    if run.config.sources.registry is not None:
        raise UserError(f"{archive}: refused, because its config names a registry of sources of its own")
    with chdir(folder):
        stages = dvc_lock_file.read(run)
        recorded = dvc_lock_file.outputs(run)
    deps = [dep["path"] for stage in stages.values() for dep in stage.get("deps", [])]
    params = [path for stage in stages.values() for path in stage.get("params", {})]
    _refuse_outside(archive, [*recorded, *deps, *params])
    own |= {str(run.dvc_lock), run.annotation_folder, *(out for out in recorded if out.startswith(f"{run.results}/"))}
    for path in (here.relative_to(folder).as_posix() for here in folder.rglob("*") if here.is_file()):
        if not own & {path, *map(str, PurePosixPath(path).parents)}:
            raise UserError(f"{archive}: refused, because {path!r} does not belong to the run")
        if path != SUMS and digests.get(path) != dvc_lock_file.digest(folder / path, "sha256"):
            raise UserError(f"{archive}: {path} is not as {SUMS} says", ANOTHER)
    if gone := [path for path in recorded if dvc_yaml.is_kept(path) and not (folder / path).exists()]:
        raise UserError(f"{archive}: lacks {gone[0]}", ANOTHER)
    return run, made_by, digests


def _refuse_outside(archive: Path, paths: Iterable[str]) -> None:
    """Raise ``UserError`` for a path that could lead out of the folder."""
    for path in paths:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith(("/", "~", "-")) or ".." in parts or "\\" in path or ":" in path:
            raise UserError(f"{archive}: refused, because the path {path!r} leads out of the archive")


def _given(kind: str, given: list[Path], wanted: dict[str, str], folder: Path) -> dict[str, Path]:
    """Return {path in the run: the file here} for files that a user gave, found by their digests."""
    hint = f"give the {kind} that the run was made with"
    whole = [path.expanduser() for path in given]
    files = [file for path in whole for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    if gone := [file for file in files if not file.exists()]:
        raise UserError(f"--{kind} {gone[0]}: no such file", hint)
    files = [file for file in files if file.is_file()]
    known = {dvc_lock_file.digest(file, "sha256"): file for file in files}
    if kind == "text" and len(files) == 1 and not known.keys() >= {*wanted.values()}:
        parts = one_text.split(files[0], configs.usual()["seed"], folder / ".split")  # as `ff-memories run` does
        known |= {dvc_lock_file.digest(part, "sha256"): part for part in (parts.train, parts.validation)}
    for path, digest in wanted.items():
        if digest not in known:
            all_given = " ".join(map(str, given))
            raise UserError(
                f"--{kind} {all_given}: not the run's {kind}: none has the SHA-256 of {path}, {digest}", hint
            )
    return {path: known[digest].resolve() for path, digest in wanted.items()}


def _by_name(kind: str, run: Run, wanted: list[str]) -> dict[str, Path]:
    """Fetch a run's model or text by its name; return {path in the run: the file here}."""
    source = run.inputs.source(kind)
    if kind == "model" and (pinned := run.inputs.pinned_on_hub) is not None:
        hub.fetch(pinned)
    elif wanted and source is not None:
        fetch(str(names(run)[kind]), source)
    elif wanted:
        raise UserError(f"{kind}: no name to fetch {', '.join(wanted)} by", f"give it with --{kind} PATH")
    return {path: Path(path).resolve() for path in wanted}


def _name_source(folder: Path, run: Run) -> None:
    """Give a converted model the name that its file had for the run: another name here is no other model."""
    there = folder / str(run.inputs.model_folder)
    told, info = model_folder.made_from(there), read_info(folder / run.path("model", "info.json"))
    (there / model_folder.MADE_FROM).unlink()  # a link
    converted_folder.tell(there, told | {"source": info.get("source")})


def _place(archive: Path, folder: Path, path: str, file: Path) -> None:
    """Link a file into the folder, where the run expects it."""
    if not file.is_file():
        raise UserError(f"{archive}: names {path}, which no fetch makes")
    if (to := folder / path).exists() or not to.parent.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{archive}: refused, because the path {path!r} is taken")
    to.parent.mkdir(parents=True, exist_ok=True)
    to.symlink_to(file)

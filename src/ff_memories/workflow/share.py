"""Share a run as a zip archive that anybody can verify: its config, its record, its tables, and SHA256SUMS.

What shows text is left out (``dvc_yaml.SHARED``): who verifies makes it again. Inputs that are not in ``data/`` get a
new path, below ``GIVEN``. Model and text are found by their digests, among files that are given or fetched by name.

An archive is hostile input: it unpacks to a bounded size, and its files lie in a few folders where nothing looks for
code or settings, as Snakemake, Python and git do at the top.
"""

import copy
import os
import re
import tempfile
import zipfile
from collections.abc import Iterable
from contextlib import chdir
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl
import yaml

from ff_memories import config as configs
from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_write, require_file, write_whole
from ff_memories.config import read_yaml
from ff_memories.config.model import FairseqModel, TransformersModel
from ff_memories.inputs import from_gguf, hub, model_folder, one_text, unpack
from ff_memories.inputs.fetch import fetch
from ff_memories.inputs.of_run import Inputs
from ff_memories.workflow import constraints, dvc_lock_file, dvc_yaml, jobs, records
from ff_memories.workflow.run import Run, in_clone, refuse_unfinished

SUMS = "SHA256SUMS"
CONFIG = r"(?:config/)?\w[\w .-]*\.ya?ml"
HEAD = re.compile(rf"# ff-memories ([\w.+!-]{{1,40}}): ({CONFIG})")  # the first line of SHA256SUMS: version and config
ROW = re.compile(r"([0-9a-f]{64})  (.+)")
GIVEN = "given"  # folder of the inputs whose own path is not shared
INPUTS = ("data/", f"{GIVEN}/")
NAMES = {("model", "folder"), ("model", "gguf"), ("model", "checkpoint"), ("model", "dictionary")}
NAMES |= {("composition", "sample_file")}  # keys of the config with one path each
TIME = (1980, 1, 1, 0, 0, 0)  # of every file, so the same run makes the same archive
TIMES, LEAST = 20, 20_000_000  # an archive may unpack to so many times its size, or to so many bytes
ANOTHER = "ask for another copy of it"


def pack(run: Run, to: Path) -> list[str]:
    """Write the archive of a finished run; return the outputs that are left out.

    Raises ``UserError`` if the run is not finished, an output was edited, or the config cannot be shared.
    """
    _refuse_unfinished(run)
    here = Path.cwd()
    config, moved = portable(run)
    with tempfile.TemporaryDirectory(prefix="ff-memories-share-") as name:
        folder = Path(name)
        write_whole(folder / run.file, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
        for path in {*run.inputs.model_files, *run.annotations}.union(*inputs(run).values()):
            if (here / path).exists():
                _link(folder / moved.get(path, path), here / path)
        if any(path in moved for split in ("train", "validation") for path in run.inputs.texts(split)):
            named = tables.read(run.table("sentences")).with_columns(pl.col("file").replace(moved))
            tables.write(named, folder / run.table("sentences"))
        releases = (f"{package.name}=={here}\n" for package, here in constraints.needed().items())
        write_whole(folder / constraints.LOCK, "".join(releases))
        with chdir(folder):
            shown = Run.read(run.file)
            write_whole(shown.dvc_lock, yaml.safe_dump(records.record(shown, here), sort_keys=False))
            outs, others = dvc_lock_file.outputs(shown), [path for files in inputs(shown).values() for path in files]
        files = [run.file, str(constraints.LOCK), str(shown.dvc_lock), *run.annotations]
        for out in sorted(filter(dvc_yaml.is_kept, outs)):
            files += sorted(map(str, dvc_lock_file.inside(out))) if Path(out).is_dir() else [out]
        content = {path: path_in if (path_in := folder / path).exists() else here / path for path in [*files, *others]}
        sums = f"# ff-memories {version('ff-memories')}: {run.file}\n"
        sums += "".join(f"{dvc_lock_file.digest(file, 'sha256')}  {path}\n" for path, file in content.items())
        with atomic_write(to) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(zipfile.ZipInfo(SUMS, TIME), sums, zipfile.ZIP_DEFLATED)
            for path in files:
                archive.writestr(zipfile.ZipInfo(path, TIME), content[path].read_bytes(), zipfile.ZIP_DEFLATED)
    return [path for path in outs if not dvc_yaml.is_kept(path)]


def _refuse_unfinished(run: Run) -> None:
    refuse_unfinished(run)
    if not re.fullmatch(CONFIG, run.file):
        hint = "copy the config there, and run it"
        raise UserError(f"{run.file}: not a .yaml file at the top of this folder, or in its folder config", hint)
    if run.config.sources.registry is not None:
        hint = "name files of model and text instead"
        raise UserError(f"{run.file}: sources.registry names sources that nobody else has", hint)
    with jobs.workflow(run) as found:
        gone = jobs.missing_outputs(found, run)
        # by params, which name code and config; times say nothing after DVC has linked files to its cache
        own = [job for job in found.dag.jobs if job.output and not jobs.makes_intermediates(job)]
        if gone or any(map(found.persistence.params_changed, own)):
            missing = f", {gone[0]} is missing" if gone else ""
            raise UserError(f"{run.results}: not finished{missing}", f"run ff-memories run {run.file}")
        outs = [(str(out), found.persistence.metadata(out)) for job in own for out in job.output]
        of_run = [out for out in outs if out[0].startswith(f"{run.results}/") and not jobs.is_intermediate(out[0])]
        records.refuse_edited(run, of_run, "not shared")


def portable(run: Run) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a run's config with the paths of an archive, and {path of an input: its path there}."""
    config, moved = copy.deepcopy(run.given), {}

    def inside(path: str, *place: str) -> str:
        if _is_below(INPUTS, path):
            return path
        moved[path] = "/".join([GIVEN, *place, Path(os.path.abspath(path)).name.lstrip(".")])
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


def receive(archive: Path, folder: Path, model: list[Path], text: list[Path]) -> tuple[str, dict[str, Any]]:
    """Unpack an archive into an empty folder, put its model and text there as links, and return its config's path.

    ``model`` and ``text`` are files, or folders of files, to take these from. If they are empty, these are fetched by
    name to ``data/`` of the working folder, as ``ff-memories fetch`` does. Also return what the certificate says:
    digest, version, and by kind of input its name, whether it was given, whether that is known to be what has the name,
    and its files' digests. Raises ``UserError`` if the archive is damaged or refused, or its model or text cannot be
    had.
    """
    require_file(archive)
    if not archive.is_file():
        raise UserError(f"{archive}: no such archive", "give a file that ff-memories share wrote")
    if not zipfile.is_zipfile(archive):
        raise UserError(f"{archive}: cut off, or no archive of ff-memories share", ANOTHER)
    unpack.unpack(archive, "zip", [], folder, max(LEAST, TIMES * archive.stat().st_size), inside="")
    run, made_by, digests = _checked(archive, folder)
    about: dict[str, Any] = {"sha256": dvc_lock_file.digest(archive, "sha256"), "made_by": made_by}
    for kind, given in (("model", model), ("text", text), ("pipeline", [])):
        paths = inputs(run)[kind]
        if missing := [path for path in paths if path not in digests]:
            raise UserError(f"{archive}: {SUMS} lacks {missing[0]}", ANOTHER)
        wanted = {path: digests[path] for path in paths}
        files = _given(kind, given, wanted, folder) if given and wanted else _by_name(kind, run, paths)
        for path, file in files.items():
            _place(archive, folder, path, file)
        name = names(run)[kind]
        known = not given or name is None  # to be what the config names: its digests are the archive's own words
        about[kind] = {"name": name, "given": bool(given), "known": known, "files": wanted}
    for gguf, digest in run.inputs.gguf.items():
        converted = from_gguf.folder(folder / gguf, digest)
        for path in run.inputs.model_files:
            _place(archive, folder, path, (converted / Path(path).name).resolve())
    with chdir(folder):
        if in_clone():  # whose Snakefile would be run
            raise UserError(f"{archive}: refused, because it looks like a clone of this project")
    return run.file, about


def _checked(archive: Path, folder: Path) -> tuple[Run, str, dict[str, str]]:
    """Return an archive's run, version and {path: digest}; refuse other paths, and files gone, changed or foreign."""
    if not (folder / SUMS).is_file():
        raise UserError(f"{archive}: has no {SUMS}", "verify it with the version that wrote it")
    first, *rows = (folder / SUMS).read_text(encoding="utf-8", errors="replace").split("\n")
    head, sums = HEAD.fullmatch(first), [ROW.fullmatch(row) for row in rows if row]
    if head is None or None in sums:
        raise UserError(f"{archive}: {SUMS} cannot be read", ANOTHER)
    made_by, config, digests = head[1], head[2], {row[2]: row[1] for row in sums if row}
    try:
        data = read_yaml(folder / config)
        if isinstance(data, dict) and configs.PROTOCOL in data:
            raise UserError(f"{archive}: refused, because its config names another file", ANOTHER)
        named = [path for _, path in Inputs(configs.parse(data, config)).named]
    except (UserError, OSError) as error:
        reason = str(error).partition("\n  fix: ")[0].replace(f"{folder}/", "")
        reason = reason.replace(":\n  ", ": ").replace("\n  ", "; ")
        raise UserError(f"{archive}: its config cannot be read: {reason}", ANOTHER) from None
    _refuse_elsewhere(archive, named, INPUTS)
    run = Run(data, config)
    if run.config.sources.registry is not None:
        raise UserError(f"{archive}: refused, because its config names a registry of sources of its own")
    with chdir(folder):
        recorded, stages = dvc_lock_file.outputs(run), dvc_lock_file.read(run).values()
    read = [dep["path"] for stage in stages for dep in stage.get("deps", [])]
    paths = {*digests, *recorded, *read} - {config, str(constraints.LOCK), str(run.dvc_lock)}
    _refuse_elsewhere(archive, paths, (*INPUTS, f"{run.results}/", f"{run.annotation_folder}/"))
    belongs = {config, str(constraints.LOCK), str(run.dvc_lock), run.annotation_folder}
    belongs |= {path for path in recorded if path.startswith(f"{run.results}/") and dvc_yaml.is_kept(path)}  # no log
    for path in (file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()):
        if path != SUMS and not belongs & {path, *map(str, PurePosixPath(path).parents)}:
            raise UserError(f"{archive}: refused, because {path!r} does not belong to the run")
        if path != SUMS and digests.get(path) != dvc_lock_file.digest(folder / path, "sha256"):
            raise UserError(f"{archive}: {path} is not as {SUMS} says", ANOTHER)
    if gone := [path for path in recorded if dvc_yaml.is_kept(path) and not (folder / path).exists()]:
        raise UserError(f"{archive}: lacks {gone[0]}", ANOTHER)
    return run, made_by, digests


def _is_below(folders: tuple[str, ...], path: str) -> bool:
    """Return whether a path is one of ``folders`` or leads below it, by names that do not begin with a dot."""
    plain = PurePosixPath(path)
    return f"{plain}/".startswith(folders) and not any(part.startswith(".") for part in plain.parts)


def _refuse_elsewhere(archive: Path, paths: Iterable[str], folders: tuple[str, ...]) -> None:
    for path in paths:
        if not _is_below(folders, path):
            raise UserError(f"{archive}: refused, because an archive has nothing at the path {path!r}")


def _given(kind: str, given: list[Path], wanted: dict[str, str], folder: Path) -> dict[str, Path]:
    """Return {path in the run: the file here} for files that a user gave, found by their digests."""
    hint = f"give the {kind} that the run was made with"
    files = [file for path in given for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    if missing := [file for file in files if not file.exists()]:
        raise UserError(f"--{kind} {missing[0]}: no such file", hint)
    by_digest = {dvc_lock_file.digest(file, "sha256"): file for file in files if file.is_file()}
    if kind == "text" and len(files) == 1 and not by_digest.keys() >= {*wanted.values()}:
        parts = one_text.split(files[0], folder / ".split")  # as `ff-memories run` does
        by_digest |= {dvc_lock_file.digest(part, "sha256"): part for part in (parts.train, parts.validation)}
    if lacking := [path for path, digest in wanted.items() if digest not in by_digest]:
        options = f"--{kind} {' '.join(map(str, given))}"
        digest = wanted[lacking[0]]
        raise UserError(f"{options}: not the run's {kind}: none has the SHA-256 of {lacking[0]}, {digest}", hint)
    return {path: by_digest[digest].resolve() for path, digest in wanted.items()}


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


def _place(archive: Path, folder: Path, path: str, file: Path) -> None:
    """Link a file into the folder, where the run expects it."""
    if not file.is_file():
        raise UserError(f"{archive}: names {path}, which no fetch makes")
    if (to := folder / path).exists() or not to.parent.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{archive}: refused, because the path {path!r} is taken")
    _link(to, file)


def _link(path: Path, to: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(to.resolve())

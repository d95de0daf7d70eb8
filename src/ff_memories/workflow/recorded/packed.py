"""Pack what a reviewer needs to verify a run: its config, its record and its tables, and digests of model and text.

No archive holds running text: what shows text is left out, as from every record (``stages.SHARED``), and rebuilt from
the text by who verifies. No archive holds a path outside the run's folder: such inputs get a new path, below ``GIVEN``,
in the config, in the table ``sentences`` and so in the record.
"""

import copy
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import chdir
from importlib.metadata import requires, version
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from packaging.requirements import Requirement

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_write, write_whole
from ff_memories.config import FairseqModel, TransformersModel
from ff_memories.inputs.models import model_folder
from ff_memories.workflow.engines import lock, records, stages
from ff_memories.workflow.recorded import environment
from ff_memories.workflow.runs import lacking
from ff_memories.workflow.runs.finished import refuse_unfinished
from ff_memories.workflow.runs.run import SOURCES, Run

FORMAT = 1
MANIFEST = "shared.json"
GIVEN = "given"  # folder of the inputs whose own path is not shared
NAMES = {("model", "folder"), ("model", "gguf"), ("model", "checkpoint"), ("model", "dictionary")}
NAMES |= {("composition", "sample_file")}  # keys of the config with one path each
TIME = (1980, 1, 1, 0, 0, 0)  # of every file, so the same run makes the same archive


def pack(run: Run, to: Path) -> dict[str, Any]:
    """Write the archive of a finished run; return its manifest.

    Raises:
        UserError: the run is not finished, an output was edited, or the config cannot be shared.
    """
    _refuse(run)
    here = Path.cwd()
    config, moved = portable(run)
    with tempfile.TemporaryDirectory(prefix="ff-memories-share-") as name:
        folder = Path(name)
        write_whole(folder / run.file, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
        for path in {*run.model_files, *run.annotations}.union(*inputs(run).values()):
            _link(folder / moved.get(path, path), here / path)
        if any(path in moved for split in ("train", "validation") for path in run.texts(split)):
            _rename_texts(run, moved, folder)
        write_whole(folder / environment.LOCK, "".join(f"{name}=={version}\n" for name, version in _packages()))
        with chdir(folder):
            shown = Run.read(run.file)
            write_whole(shown.dvc_lock, yaml.safe_dump(record(shown, here), sort_keys=False))
            manifest, outs = _manifest(shown), lock.outputs(shown)
            write_whole(MANIFEST, json.dumps(manifest, indent=1) + "\n")
        own = [MANIFEST, run.file, str(environment.LOCK), str(shown.dvc_lock), *run.annotations]
        kept = [path for path in outs if stages.is_kept(path)]
        found = lambda path: folder / path if (folder / path).exists() else here / path
        with atomic_write(to) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, file in ((path, file) for name in [*own, *sorted(kept)] for path, file in _files(name, found)):
                archive.writestr(zipfile.ZipInfo(path, TIME), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return manifest


def _refuse(run: Run) -> None:
    refuse_unfinished(run)
    if run.file.startswith("..") or os.path.isabs(run.file):
        raise UserError(f"{run.file}: outside of this folder", "copy the config into the folder, and run it there")
    if run.config.sources.registry is not None:
        raise UserError(
            f"{run.file}: sources.registry names sources that nobody else has", "name files of model and text instead"
        )
    with stages.workflow(run) as found:
        gone = lacking.lacking(found, run.results)
        # by params, which name code and config; times say nothing after DVC has linked files to its cache
        jobs = [job for job in found.dag.jobs if job.output and not stages.is_shard(job)]
        if gone or any(found.persistence.params_changed(job) for job in jobs):
            raise UserError(
                f"{run.results}: not finished" + (f", {gone[0]} is missing" if gone else ""),
                f"run ff-memories run {run.file}",
            )
        records.refuse_edited(found)


def portable(run: Run) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a run's config without paths that lead out of its folder, and {path of an input: its path there}."""
    config, moved = copy.deepcopy(run.given), {}

    def inside(path: str, *place: str) -> str:
        if not (os.path.isabs(path) or ".." in Path(path).parts or path.startswith("~")):
            return path
        moved[path] = "/".join([GIVEN, *place, Path(os.path.abspath(path)).name])
        return moved[path]

    for section, key in sorted(NAMES):
        if isinstance(path := (config.get(section) or {}).get(key), str) and not (key == "gguf" and run.pinned_on_hub):
            config[section][key] = inside(path, section, key)
    for split in ("train", "validation"):
        given = config["corpus"].get(split) or {}
        given["files"] = [inside(path, split, str(number)) for number, path in enumerate(given.get("files") or [], 1)]
    model = run.config.model
    if isinstance(model, TransformersModel) and model.folder is not None:
        config["model"]["files"] = model_folder.digests(str(run.model_folder), map(os.path.basename, run.model_files))
        if to := moved.get(model.folder):
            moved |= {path: f"{to}/{Path(path).name}" for path in run.model_files}
    return config, moved


def inputs(run: Run) -> dict[str, list[str]]:
    """Return the files that a run reads and no job of its own makes, by ``model``, ``text`` and ``pipeline``."""
    model, text = run.config.model, run.source("text")
    is_built = text is not None and not (text.downloads or text.sampled_from)  # by a rule, from installed packages
    given = run.config.composition.sample_file
    return {
        "model": [*run.gguf] or [*run.model_files, *([run.dictionary] if isinstance(model, FairseqModel) else [])],
        "text": ([] if is_built else [*run.texts("train"), *run.texts("validation"), *run.test_text])
        + ([given] if given else []),
        "pipeline": run.fetched("pipeline")["files"],
    }


def names(run: Run) -> dict[str, str | None]:
    """Return the names that ``inputs`` can be fetched by; ``None`` for files that have none."""
    model = run.config.model
    on_hub = f"{model.hub} at {model.revision}" if isinstance(model, TransformersModel) and model.hub else None
    pipeline = str(run.fetched("pipeline")["name"]) if run.fetched("pipeline")["files"] else None
    return {"model": model.source or on_hub, "text": run.config.corpus.source, "pipeline": pipeline}


def _link(path: Path, to: Path) -> None:
    if to.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(to.resolve())


def _rename_texts(run: Run, moved: dict[str, str], folder: Path) -> None:
    """Write the table ``sentences`` with the paths that the shared config gives the text files."""
    path = run.table("sentences")
    named = tables.read(path).with_columns(pl.col("file").replace(moved))
    tables.write(named, folder / path)


def record(run: Run, at: Path) -> dict[str, Any]:
    """Return what dvc.lock records of a finished run, without DVC: {"stages": ...}.

    Args:
        run: a run whose inputs are in the working folder.
        at: the folder with its outputs, where the working folder lacks them.
    """
    declared, does = stages.declaration(run)["stages"], stages.digests(run)
    content = lambda path: lock.content(path if os.path.exists(path) else at / path)
    listed = lambda paths: [{"path": path, "md5": content(path)} for path in sorted(paths)]
    found = {}
    for name, stage in declared.items():
        params = {file: _values(file, keys) for entry in stage["params"] for file, keys in entry.items()}
        params |= {str(run.sources_yaml): {name: does[name]}}
        files = {"deps": listed(stage.get("deps", [])), "outs": listed(path for out in stage["outs"] for path in out)}
        found[name] = {"cmd": stage["cmd"], **files, "params": params}
    return {"stages": found}


def _values(file: str, keys: list[str]) -> dict[str, Any]:
    """Return keys of a config file, such as ``corpus.train``."""
    found, plain = {}, {} if Path(file).name == SOURCES else yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    for key in keys if plain else ():
        place = plain
        for part in key.split("."):
            place = place.get(part) if isinstance(place, dict) else None
        found[key] = place
    return found


def _manifest(run: Run) -> dict[str, Any]:
    """Return what says whose run an archive is of: names and digests of model and text."""
    described = lambda path: {"sha256": lock.digest(path, "sha256"), "bytes": os.path.getsize(path)}
    parts = {
        kind: {"name": names(run)[kind], "files": {path: described(path) for path in files}}
        for kind, files in inputs(run).items()
    }
    return {
        "archive": "ff-memories share",
        "format": FORMAT,
        "version": version("ff-memories"),
        "run": run.config.run,
        "config": run.file,
        **parts,
        "left_out": [path for path in lock.outputs(run) if not stages.is_kept(path)],
    }


def _packages() -> Iterator[tuple[str, str]]:
    """Yield (package, version) of the packages that this one needs, as installed here."""
    for line in requires("ff-memories") or []:
        needed = Requirement(line)
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            yield needed.name, version(needed.name)


def _files(path: str, found: Callable[[str], Path]) -> Iterator[tuple[str, Path]]:
    """Yield (path, file) of a file, or of all files in a folder."""
    if (file := found(path)).is_dir():
        yield from ((f"{path}/{own.relative_to(file).as_posix()}", own) for own in sorted(lock.inside(file)))
    else:
        yield path, file

"""Open another's archive of a run (``packed``) in an empty folder, and put model and text in place.

An archive is hostile input: it chooses no path outside the folder, it unpacks to a bounded size, and its config names
only files inside the folder. Whoever verifies gives model and text, or they are fetched by name and checked by digest.
"""

import zipfile
from contextlib import chdir
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import BaseModel, Field

from ff_memories import config as configs
from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file
from ff_memories.config import read_yaml
from ff_memories.inputs.fetch import fetch
from ff_memories.inputs.fetching import hub, unpack
from ff_memories.inputs.models import converted_folder, from_gguf, model_folder
from ff_memories.inputs.texts import one_text
from ff_memories.model.info import read_info
from ff_memories.workflow.engines import lock, stages
from ff_memories.workflow.recorded import environment, packed
from ff_memories.workflow.runs.run import Run

TIMES, LEAST = 20, 20_000_000  # an archive may unpack to so many times its size, or to so many bytes
ANOTHER = "ask for another copy of it"
KINDS = ("model", "text", "pipeline")


class _Described(BaseModel):
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    bytes: Annotated[int, Field(ge=0)]


class _Part(BaseModel):
    files: dict[str, _Described]


class _Written(BaseModel):
    """What the manifests of all formats say."""

    format: int
    version: Annotated[str, Field(pattern=r"^[\w.+!-]{1,40}$")]


class _Manifest(_Written):
    config: str
    model: _Part
    text: _Part
    pipeline: _Part


@dataclass(frozen=True)
class Received:
    """An archive's run in a folder.

    Attributes:
        config: the path of its config in the folder.
        says: lines on where model and text come from.
        data: the same for the certificate.
    """

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
    limit = max(LEAST, TIMES * archive.stat().st_size)
    unpack.unpack(archive, "zip", [packed.MANIFEST], folder, limit, inside="")
    manifest = _manifest(archive, folder)
    run = _run(archive, folder, manifest)
    _refuse_others(archive, folder, run)
    said = {}
    for kind, given in (("model", model), ("text", text), ("pipeline", [])):
        wanted = {path: entry["sha256"] for path, entry in manifest[kind]["files"].items()}
        found = _given(kind, given, wanted, folder) if given and wanted else _by_name(kind, run, [*wanted])
        for path, file in found.items():
            _place(archive, folder, path, file)
        said[kind] = {"name": packed.names(run)[kind], "given": bool(given), "files": manifest[kind]["files"]}
    if run.gguf:
        (path, digest), *_ = run.gguf.items()
        made = from_gguf.folder(folder / path, digest)
        for path in run.model_files:
            _place(archive, folder, path, (made / Path(path).name).resolve())
        _name_source(folder, run)
    says = [_said(kind, part) for kind, part in said.items() if part["files"]]
    if (made_by := manifest["version"]) != (here := version("ff-memories")):
        says.append(f"made by ff-memories {made_by}; this is {here}, whose code may differ: see the part `record`")
    return Received(run.file, says, {"sha256": lock.digest(archive, "sha256"), "made_by": made_by, **said})


def _said(kind: str, part: dict[str, Any]) -> str:
    """Return in a line where a part of the inputs comes from, with the digest of its largest file."""
    files = part["files"]
    path = max(files, key=lambda name: files[name]["bytes"])
    whence = "given" if part["given"] else part["name"]
    return f"{kind}: {whence}; {PurePosixPath(path).name} has the SHA-256 {files[path]['sha256']}"


def _manifest(archive: Path, folder: Path) -> dict[str, Any]:
    """Return an archive's manifest, its paths checked."""
    where, file = f"{archive}: {packed.MANIFEST}", folder / packed.MANIFEST
    written = foreign.read_json(file, _Written, ANOTHER, name=where)
    if written.format != packed.FORMAT:
        raise UserError(
            f"{archive}: written in format {written.format}, and this version reads {packed.FORMAT}",
            f"verify it with ff-memories {written.version}",
        )
    found = foreign.read_json(file, _Manifest, ANOTHER, name=where).model_dump()
    for path in [found["config"], *(path for kind in KINDS for path in found[kind]["files"])]:
        _refuse_path(archive, path)
    return found


def _refuse_path(archive: Path, path: str) -> None:
    """Raise ``UserError`` for a path that could lead out of the folder."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith(("/", "~", "-")) or ".." in parts or "\\" in path or ":" in path:
        raise UserError(f"{archive}: refused, because the path {path!r} leads out of the archive")


def _run(archive: Path, folder: Path, manifest: dict[str, Any]) -> Run:
    """Return an archive's run, after checking that its config names only files of the folder."""
    try:
        config = read_yaml(folder / manifest["config"])
        parsed = configs.parse(config, manifest["config"])
    except (UserError, OSError) as error:
        said = str(error).partition("\n")[0].replace(f"{folder}/", "")
        raise UserError(f"{archive}: its config cannot be read: {said}", ANOTHER) from None
    named = [*parsed.corpus.train.files, *parsed.corpus.validation.files, *parsed.model.paths.values()]
    named += [path for path in (parsed.composition.sample_file, parsed.sources.registry) if path]
    for path in named:
        _refuse_path(archive, path)
    if parsed.sources.registry is not None:
        raise UserError(f"{archive}: refused, because its config names a registry of sources of its own")
    run = Run(config, manifest["config"])
    if {kind: sorted(manifest[kind]["files"]) for kind in KINDS} != {
        kind: sorted(files) for kind, files in packed.inputs(run).items()
    }:
        raise UserError(f"{archive}: {packed.MANIFEST} names other inputs than the config", ANOTHER)
    return run


def _refuse_others(archive: Path, folder: Path, run: Run) -> None:
    """Raise ``UserError`` for a file of no use to a verification, and for a table that the record lacks."""
    own = {packed.MANIFEST, run.file, str(environment.LOCK), str(run.dvc_lock)}
    try:
        with chdir(folder):
            recorded, read = lock.outputs(run), lock.read(run)
    except UserError as error:
        raise UserError(f"{archive}: {str(error).partition(chr(10))[0]}", ANOTHER) from None
    deps = (dep["path"] for stage in read.values() for dep in stage.get("deps", []))
    for path in [*recorded, *deps, *(file for stage in read.values() for file in stage.get("params", {}))]:
        _refuse_path(archive, path)
    for file in folder.rglob("*"):
        path = file.relative_to(folder).as_posix()
        made = path.startswith(f"{run.results}/") and {path, *map(str, PurePosixPath(path).parents)} & recorded.keys()
        if file.is_file() and not (made or path in own or path.startswith(f"{run.annotation_folder}/")):
            raise UserError(f"{archive}: refused, because {path!r} does not belong to the run")
    if lacking := [path for path in recorded if stages.is_kept(path) and not (folder / path).exists()]:
        raise UserError(f"{archive}: lacks {lacking[0]}", ANOTHER)


def _given(kind: str, given: list[Path], wanted: dict[str, str], folder: Path) -> dict[str, Path]:
    """Return {path in the run: the file here} for files that a user gave, found by their digests."""
    files = [file for path in given for file in _inside(kind, path)]
    known = {lock.digest(file, "sha256"): file for file in files}
    if kind == "text" and len(files) == 1 and not known.keys() >= {*wanted.values()}:
        parts = one_text.split(files[0], configs.usual()["seed"], folder / ".split")  # as `ff-memories run` does
        known |= {lock.digest(part, "sha256"): part for part in (parts.train, parts.validation)}
    for path, digest in wanted.items():
        if digest not in known:
            raise UserError(
                f"--{kind} {' '.join(map(str, given))}: not the run's {kind}: none has the SHA-256 of {path}, {digest}",
                f"give the {kind} that the run was made with",
            )
    return {path: known[digest].resolve() for path, digest in wanted.items()}


def _inside(kind: str, path: Path) -> list[Path]:
    path = path.expanduser()
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file())
    require_file(path)
    if not path.is_file():
        raise UserError(f"--{kind} {path}: no such file", f"give the {kind} that the run was made with")
    return [path]


def _by_name(kind: str, run: Run, wanted: list[str]) -> dict[str, Path]:
    """Fetch a run's model or text by its name; return {path in the run: the file here}."""
    source = run.source(kind)
    if kind == "model" and (pinned := run.pinned_on_hub) is not None:
        hub.fetch(pinned)
    elif wanted and source is not None:
        fetch(str(packed.names(run)[kind]), source)
    elif wanted:
        raise UserError(f"{kind}: no name to fetch {', '.join(wanted)} by", f"give it with --{kind} PATH")
    return {path: Path(path).resolve() for path in wanted}


def _name_source(folder: Path, run: Run) -> None:
    """Give a converted model the name that its file had for the run: another name here is no other model."""
    there = folder / str(run.model_folder)
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

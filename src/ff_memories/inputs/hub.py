"""A model of `transformers` on the Hugging Face hub: its commit, its files and their digests, and how to fetch them.

`huggingface_hub` sends every request. Its environment variables hold (HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE), and so do
its cache and its login: no token passes through this package.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file, sha256
from ff_memories.inputs.model_folder import CONFIG, INDEX, OTHERS, TOKENIZER, check, chosen, digests

SMALL = (CONFIG, TOKENIZER, INDEX, *OTHERS)  # all but the weights
CARD = "README.md"
PLACE = Path("data/hub")
REACH = "check network and proxy; HF_HUB_OFFLINE=1 uses the hub's cache alone; --model ./folder needs no hub"


class Pinned(NamedTuple):
    """A model on the hub at one commit."""

    name: str
    revision: str  # the commit, 40 hexadecimal digits
    files: dict[str, str]  # SHA-256 of every file that a run reads, by name
    licence: str | None = None  # what its card says

    @property
    def folder(self) -> Path:
        """Where its files are fetched to."""
        return PLACE / self.name.replace("/", "--") / self.revision

    def one_file(self, name: str) -> str:
        """Return what ``ff-memories fetch --hub`` needs to fetch a file, as JSON."""
        return json.dumps({"name": self.name, "revision": self.revision, "files": {name: self.files.get(name)}})


def resolve(name: str, revision: str | None, start: str) -> Pinned:
    """Find a model on the hub, at a branch, tag or commit; only small files are downloaded.

    Offline (HF_HUB_OFFLINE=1), the hub's cache answers; it must then hold the weights as well. Raises ``UserError``
    where there is no such model or revision, no access or no connection, or no run can read the model.
    """
    on_hub = _digests_on_hub(name, revision)
    if on_hub and CONFIG not in on_hub and (files := [file for file in on_hub if file.lower().endswith(".gguf")]):
        raise UserError(f"{name}: holds GGUF files alone", f"name one: --model {name}:{min(files)}")
    folder = _snapshot(name, revision, [*SMALL, CARD])
    on_hub = on_hub or dict.fromkeys(path.name for path in folder.iterdir())
    files = chosen(on_hub, name, folder)
    check(folder, start, name)
    without_digest = [file for file in files if on_hub[file] is None]
    folder = _snapshot(name, folder.name, without_digest)
    here = digests(folder, without_digest)
    return Pinned(name, folder.name, {file: on_hub[file] or here[file] for file in files}, _licence(folder))


def resolve_file(name: str, file: str, revision: str | None) -> Pinned:
    """Find one file of a model on the hub, such as a GGUF file, and download it. Errors: see ``resolve``."""
    folder = _snapshot(name, revision, [file, CARD])
    if not (folder / file).is_file():
        others = sorted(other for other in _digests_on_hub(name, revision) if other.lower().endswith(".gguf"))
        raise UserError(f"{name}: no file {file}", f"name one of {', '.join(others[:5]) or 'its files'}")
    return Pinned(name, folder.name, digests(folder, [file]), _licence(folder))


def _digests_on_hub(name: str, revision: str | None) -> dict[str, str | None]:
    """Return a model's files, and the SHA-256 that the hub tells of large ones; nothing offline."""
    library = _library()
    if library.constants.HF_HUB_OFFLINE:
        return {}
    with _understood(name, revision):
        info = library.HfApi().model_info(name, revision=revision, files_metadata=True)
    return {file.rfilename: file.lfs.sha256 if file.lfs else None for file in info.siblings or ()}


def _licence(folder: Path) -> str | None:
    """Return the licence that a model's card names."""
    if not (folder / CARD).is_file():
        return None
    card = _library().ModelCard.load(folder / CARD, ignore_metadata_errors=True).data
    given = card.get("license")
    if given == "other":
        given = card.get("license_name") or given
    return ", ".join(map(str, given)) if isinstance(given, list) else given


def missing(model: Pinned) -> list[str]:
    """Return the names of a model's files that are not in its folder, or not those of its commit."""
    return [name for name, digest in model.files.items() if _sha256(model.folder / name) != digest]


def fetch(model: Pinned, offline: bool = False) -> None:
    """Fetch a model's files into its folder, from the hub or its cache. Each appears whole and checked, or not at all.

    Weights become hard links to the hub's cache where the file system allows it, and take no space twice. ``offline``
    downloads nothing, as HF_HUB_OFFLINE=1 does. Raises ``UserError`` where a file cannot be had, or is not the one that
    the config pins; offline it says which files to put where.
    """
    if not (lacking := missing(model)):
        return
    try:
        folder = _snapshot(model.name, model.revision, lacking, offline)
    except UserError:
        if offline or _library().constants.HF_HUB_OFFLINE:
            raise _by_hand(model, lacking) from None
        raise
    for name in lacking:
        if (digest := _sha256(folder / name)) is None:
            raise _by_hand(model, lacking)
        if digest != model.files[name]:
            differs = f"its SHA-256 is {digest}, the config's model.files says {model.files[name]}"
            hint = f"remove {(folder / name).resolve()} and fetch again, or write the config again: ff-memories init"
            raise UserError(f"{model.name}: {name} of commit {model.revision}: {differs}", hint)
        model.folder.mkdir(parents=True, exist_ok=True)  # a model that cannot be had leaves no folder
        _place(folder / name, model.folder / name)
    print(f"{model.name}: {', '.join(lacking)} in {model.folder}", file=sys.stderr)


def small_file(model: Pinned, name: str) -> Path:
    """Return where a small file of a model lies, in its folder or in the hub's cache, to which it is downloaded."""
    if (here := model.folder / name).is_file():
        return here
    return _snapshot(model.name, model.revision, [name]) / name


def _by_hand(model: Pinned, lacking: Sequence[str]) -> UserError:
    """Return the error for files that are not to be had: what to put where."""
    there = f"{_library().constants.ENDPOINT}/{model.name}/resolve/{model.revision}"
    return UserError(
        f"{model.name}: missing {', '.join(lacking)}; the hub's cache does not hold all of them",
        f"connect to the network and unset HF_HUB_OFFLINE, or put them from {there} into {model.folder}, and run: "
        "ff-memories fetch --configfile FILE --offline",
    )


def _place(path: Path, target: Path) -> None:
    """Put a file of the hub's cache into a folder, under its name only when it is whole."""
    partial = target.with_name(target.name + ".partial")
    partial.unlink(missing_ok=True)
    if target.name not in SMALL:  # small ones are copied: somebody may edit them
        with suppress(OSError):  # another file system, or the cache is somebody else's
            os.link(path.resolve(), partial)
    if not partial.exists():
        shutil.copyfile(path, partial)
    partial.replace(target)


def _sha256(path: Path) -> str | None:
    require_file(path)
    return sha256(path) if path.is_file() else None


def _library() -> Any:
    """Return `huggingface_hub`, which takes a second to load."""
    import huggingface_hub
    import huggingface_hub.constants
    import huggingface_hub.errors

    library: Any = huggingface_hub
    library.logging.set_verbosity_error()  # a line per retry; what fails in the end is said below
    if not sys.stderr.isatty():
        library.utils.disable_progress_bars()
    return library


def _snapshot(name: str, revision: str | None, files: Sequence[str], cached: bool = False) -> Path:
    """Return a commit's folder in the hub's cache; unless ``cached``, after downloading those of some files it has."""
    with _understood(name, revision):
        download = _library().snapshot_download
        return Path(download(name, revision=revision, allow_patterns=files, local_files_only=cached))


@contextmanager
def _understood(name: str, revision: str | None) -> Iterator[None]:
    """Turn the hub's errors into clear ones."""
    errors, endpoint = _library().errors, _library().constants.ENDPOINT
    login = "log in with: hf auth login"
    try:
        yield
    except errors.GatedRepoError:
        hint = f"ask for it on {endpoint}/{name}, and {login}"
        raise UserError(f"{name}: the model is gated: its owner must grant access", hint) from None
    except (errors.RevisionNotFoundError, errors.RepositoryNotFoundError, errors.HFValidationError):
        at = "" if revision is None else f" with a branch, tag or commit {revision!r}"
        hint = f"check its name, OWNER/NAME; for a private model, {login}; a local folder is written ./{name}"
        raise UserError(f"{name}: no such model on {endpoint}{at}, or a private one", hint) from None
    except (errors.HTTPError, errors.XetDownloadError, OSError, RuntimeError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError):
            raise  # this machine's own: a full disk, a folder that may not be written to
        cause = error.__cause__ or error
        reason = (str(cause) or type(cause).__name__).splitlines()[0][:200]
        raise UserError(f"{name} at {revision or 'main'}: not to be had from {endpoint} ({reason})", REACH) from None

"""A model of `transformers` on the Hugging Face hub: its commit, its files and their digests, and how to fetch them.

`huggingface_hub` sends every request. Its environment variables hold (HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE), and so do
its cache and its login: no token passes through this package.
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file
from ff_memories.base.progress import Progress
from ff_memories.config import ModelSection, TransformersModel
from ff_memories.inputs.models.model_folder import CONFIG, INDEX, OTHERS, TOKENIZER, check, chosen, digests, files_of

SMALL = (CONFIG, TOKENIZER, INDEX, *OTHERS)  # all but the weights
PLACE = Path("data/hub")


class Pinned(NamedTuple):
    """A model on the hub at one commit.

    Attributes:
        name: its name on the hub.
        revision: the commit, 40 hexadecimal digits.
        files: SHA-256 of every file that a run reads, by name.
        licence: what its card says; ``None`` if it says nothing.
    """

    name: str
    revision: str
    files: dict[str, str]
    licence: str | None = None

    @property
    def folder(self) -> Path:
        """Where its files are fetched to."""
        return folder_of(self.name, self.revision)


def pinned(model: ModelSection) -> Pinned | None:
    """Return what a config pins of a model on the hub; ``None`` for another model."""
    if not isinstance(model, TransformersModel) or model.hub is None:
        return None
    return Pinned(model.hub, str(model.revision), model.files, model.licence)


def folder_of(name: str, revision: str) -> Path:
    """Return the folder of a model's files at one commit."""
    return PLACE / name.replace("/", "--") / revision


def resolve(name: str, revision: str | None, start: str) -> Pinned:
    """Find a model on the hub, and refuse what a run would refuse. Only small files are downloaded.

    Offline (HF_HUB_OFFLINE=1), the hub's cache answers; it must then hold the weights as well.

    Args:
        revision: a branch, tag or commit; ``None``: the main branch.
        start: ``model.start``.

    Raises:
        UserError: there is no such model or revision, no access or no connection; or no run can read the model.
    """
    library = _library()
    if library.constants.HF_HUB_OFFLINE:
        return _cached(library, name, revision, start)
    with _told(library, name, revision):
        info = library.HfApi().model_info(name, revision=revision, files_metadata=True)
    name, commit = info.id, str(info.sha)
    known = {file.rfilename: file.lfs and file.lfs.sha256 for file in info.siblings or ()}
    if CONFIG not in known and (files := sorted(file for file in known if file.lower().endswith(".gguf"))):
        raise UserError(f"{name}: holds GGUF files alone", f"name one: --model {name}:{files[0]}")
    files = chosen(known, name, lambda: _download(library, name, commit, INDEX))
    found: dict[str, str] = {}
    _download(library, name, revision or "main", CONFIG)  # by this name, which the cache then knows offline
    for file in files:
        if file in SMALL or known[file] is None:
            folder = _download(library, name, commit, file).parent
            found |= digests(folder, [file])
        else:
            found[file] = str(known[file])
    check(folder, start, name)
    return Pinned(name, commit, found, _licence(info.card_data))


def resolve_file(name: str, file: str, revision: str | None) -> Pinned:
    """Find one file of a model on the hub, such as a GGUF file; offline, in its cache. Errors: see ``resolve``."""
    library = _library()
    if library.constants.HF_HUB_OFFLINE:
        found = library.try_to_load_from_cache(name, file, revision=revision)
        if not isinstance(found, str):
            raise UserError(
                f"{name}:{file}: HF_HUB_OFFLINE is set, and the hub's cache does not hold the file",
                _cached_commits(library, name, lambda folder: folder.glob(file))
                or "unset HF_HUB_OFFLINE, or give the file itself: --model ./FILE.gguf",
            )
        commit = Path(found).relative_to(_snapshots(library, name)).parts[0]
        return Pinned(name, commit, {file: str(_sha256(Path(found)))})
    with _told(library, name, revision):
        info = library.HfApi().model_info(name, revision=revision, files_metadata=True)
    known = {own.rfilename: own.lfs and own.lfs.sha256 for own in info.siblings or ()}
    if file not in known:
        others = ", ".join(sorted(own for own in known if own.lower().endswith(".gguf"))[:5])
        raise UserError(f"{info.id}: no file {file} at {info.sha}", f"name one of {others or 'its files'}")
    digest = known[file] or _sha256(_download(library, info.id, str(info.sha), file))
    return Pinned(info.id, str(info.sha), {file: str(digest)}, _licence(info.card_data))


def _snapshots(library: Any, name: str) -> Path:
    """Return the folder of the hub's cache with a folder for each cached commit of a model."""
    folder = library.file_download.repo_folder_name(repo_id=name, repo_type="model")
    return Path(library.constants.HF_HUB_CACHE, folder, "snapshots")


def _cached_commits(library: Any, name: str, files: Callable[[Path], Iterable[object]]) -> str | None:
    """Return how to name a cached commit of a model, to which no branch or tag leads; ``None`` if there is none.

    ``files``: returns the files that are needed of a commit's folder, or raises ``UserError`` if one is missing.
    """
    commits = []
    for folder in sorted(_snapshots(library, name).glob("*/")):
        with suppress(UserError):
            commits += [folder.name] if [*files(folder)] else []
    return f"name a cached commit: --revision {' or --revision '.join(commits)}" if commits else None


def _cached(library: Any, name: str, revision: str | None, start: str) -> Pinned:
    """Find a model in the hub's cache."""
    at = f"{name} at {revision or 'main'}"
    try:
        config = library.try_to_load_from_cache(name, CONFIG, revision=revision)
        if not isinstance(config, str):
            raise UserError("no config.json")
        folder = Path(config).parent
        files = files_of(folder)
    except (UserError, ValueError) as error:
        said = str(error).splitlines()[0].removeprefix(f"{config and Path(config).parent}: ")
        raise UserError(
            f"{at}: HF_HUB_OFFLINE is set, and the hub's cache does not hold the model ({said})",
            _cached_commits(library, name, files_of)
            or "unset HF_HUB_OFFLINE, or copy the model's files to a folder and give that: --model ./folder",
        ) from None
    check(folder, start, name)
    card = library.try_to_load_from_cache(name, "README.md", revision=revision)
    licence = (
        _licence(library.ModelCard.load(card, ignore_metadata_errors=True).data) if isinstance(card, str) else None
    )
    return Pinned(name, folder.name, digests(folder, files), licence)


def _licence(card: Any) -> str | None:
    """Return the licence that a model's card names."""
    given = getattr(card, "license", None)
    if given == "other":
        given = getattr(card, "license_name", None) or given
    return ", ".join(map(str, given)) if isinstance(given, list) else given


def missing(model: Pinned) -> list[str]:
    """Return the names of a model's files that are not in its folder, or not those of its commit."""
    return [name for name, digest in model.files.items() if _sha256(model.folder / name) != digest]


def fetch(model: Pinned, offline: bool = False) -> None:
    """Fetch a model's files into its folder, from the hub or its cache. Each appears whole and checked, or not at all.

    Weights become hard links to the hub's cache where the file system allows it, and take no space twice.

    Args:
        offline: download nothing; so with HF_HUB_OFFLINE=1 as well.

    Raises:
        UserError: a file cannot be had, or is not the one that the config pins; offline, which files to put where.
    """
    if not (lacking := missing(model)):
        return
    library = _library()
    offline = offline or library.constants.HF_HUB_OFFLINE
    for name in lacking:
        try:
            path = _download(library, model.name, model.revision, name, cached=offline)
        except library.errors.LocalEntryNotFoundError:
            raise UserError(by_hand(model, library.constants.ENDPOINT)) from None
        if _sha256(path) != model.files[name] and not offline:  # the cache may be damaged
            path = _download(library, model.name, model.revision, name, again=True)
        if (found := _sha256(path)) != model.files[name]:
            raise UserError(
                f"{model.name}: {name} of commit {model.revision}: its SHA-256 is {found}, the config's model.files "
                f"says {model.files[name]}",
                f"if the config is right, remove {path} and fetch again; or write the config again: ff-memories init",
            )
        model.folder.mkdir(parents=True, exist_ok=True)  # a model that cannot be had leaves no folder
        _place(path, model.folder / name)
    print(f"{model.name}: {', '.join(lacking)} in {model.folder}", file=sys.stderr)


def small_file(model: Pinned, name: str) -> Path:
    """Return where a small file of a model lies, in its folder or in the hub's cache, to which it is downloaded."""
    if (here := model.folder / name).is_file():
        return here
    library = _library()
    try:
        return _download(library, model.name, model.revision, name, cached=library.constants.HF_HUB_OFFLINE)
    except library.errors.LocalEntryNotFoundError:
        raise UserError(by_hand(model, library.constants.ENDPOINT)) from None


def by_hand(model: Pinned, endpoint: str = "https://huggingface.co") -> str:
    """Return which files are missing and how to get them by hand."""
    lacking = missing(model)
    lines = [
        f"{model.name}: missing {', '.join(lacking)}; the hub's cache does not hold all of them",
        "  fix: connect to the network and unset HF_HUB_OFFLINE, or put these files there",
    ]
    for name in lacking:
        lines += [
            f"    {model.folder / name}",
            f"      from {endpoint}/{model.name}/resolve/{model.revision}/{name}",
            f"      SHA-256 {model.files[name]}",
        ]
    return "\n".join([*lines, "  and then run: ff-memories fetch --configfile FILE --offline"])


def _place(path: Path, target: Path) -> None:
    """Put a file of the hub's cache into a folder, under its name only when it is whole."""
    partial = target.with_name(target.name + ".partial")
    partial.unlink(missing_ok=True)
    try:
        if target.name in SMALL:  # small ones are copied: somebody may edit them
            shutil.copyfile(path, partial)
        else:
            try:
                os.link(path.resolve(), partial)
            except OSError:  # another file system, or the cache is somebody else's
                shutil.copyfile(path, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _sha256(path: Path) -> str | None:
    require_file(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _library() -> Any:
    """Return `huggingface_hub`, which takes a second to load."""
    import huggingface_hub
    import huggingface_hub.constants
    import huggingface_hub.errors
    import huggingface_hub.file_download

    huggingface_hub.logging.set_verbosity_error()  # a line per retry; what fails in the end is said below
    return huggingface_hub


def _download(library: Any, name: str, commit: str, file: str, cached: bool = False, again: bool = False) -> Path:
    """Return a file's path in the hub's cache, downloading it if needed; ``cached``: never."""
    with _told(library, name, commit, file):
        return Path(
            library.hf_hub_download(
                name, file, revision=commit, local_files_only=cached, force_download=again, tqdm_class=_Bar
            )
        )


@contextmanager
def _told(library: Any, name: str, revision: str | None, file: str | None = None) -> Iterator[None]:
    """Turn the hub's errors into clear ones; ``LocalEntryNotFoundError`` passes where nothing was asked for."""
    errors, endpoint = library.errors, library.constants.ENDPOINT
    what = f"{name}: {file}" if file else name
    login = "log in with: hf auth login"
    try:
        yield
    except errors.GatedRepoError:
        raise UserError(
            f"{what}: the model is gated: its owner must grant access", f"ask for it on {endpoint}/{name}, and {login}"
        ) from None
    except errors.RevisionNotFoundError:
        raise UserError(
            f"{name}: no branch, tag or commit {revision!r} on the hub", f"see {endpoint}/{name}/commits/main"
        ) from None
    except errors.RepositoryNotFoundError:
        raise UserError(
            f"{name}: no such model on {endpoint}, or a private one",
            f"check the name; for a private model, {login}; a local folder is written ./{name}",
        ) from None
    except errors.RemoteEntryNotFoundError:
        raise UserError(f"{what}: not in commit {revision}", "write the config again: ff-memories init") from None
    except errors.HFValidationError:
        raise UserError(f"{name}: not a name of the hub, and no folder", "write OWNER/NAME, or ./FOLDER") from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        raise UserError(f"{what}: {endpoint} answered HTTP {status}", "try again later") from None
    except errors.LocalEntryNotFoundError as error:
        if error.__cause__ is None:
            raise
        raise _unreachable(library, what, error.__cause__) from None
    except (errors.HTTPError, errors.XetDownloadError, ValueError, RuntimeError) as error:
        raise _unreachable(library, what, error) from None
    except OSError as error:
        if error.errno is not None and not isinstance(error, ConnectionError):
            raise  # this machine's own: a full disk, a folder that may not be written to
        raise _unreachable(library, what, error) from None


def _unreachable(library: Any, what: str, error: BaseException) -> UserError:
    endpoint = library.constants.ENDPOINT
    if isinstance(error, library.errors.FileMetadataError):
        return UserError(f"{what}: {endpoint} does not answer as the hub does", "check HF_ENDPOINT and the proxy")
    first = (str(error) or type(error).__name__).splitlines()[0][:200]
    return UserError(
        f"{what}: no connection to {endpoint} ({first})",
        "check network and proxy; HF_HUB_OFFLINE=1 uses the hub's cache alone; --model ./folder needs no hub",
    )


class _Bar(Progress):
    """The package's progress, as the hub's library makes and calls it."""

    _counting = False

    def __init__(self, *_: object, total: float | None = None, initial: float = 0, desc: str = "", **__: object):
        super().__init__(int(total or 0), "bytes", desc)
        self.update(initial)

    def update(self, n: float | None = 1) -> bool | None:
        if self._counting:  # from ``step``
            return super().update(n)
        self._counting = True
        try:
            self.step(int(n or 0))
        finally:
            self._counting = False
        return None

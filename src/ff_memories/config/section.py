"""What all sections of the config share: types that say which keys a file must state, and where faults are."""

import unicodedata
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic.fields import FieldInfo

from ff_memories.base.text import escape_invisible

T = TypeVar("T")
STATED = "stated"
# A key that every config file must state, with the paper's choice as its default for new files. Snakemake and DVC watch
# the file, so what a run did must stand there.
Stated = Annotated[T, STATED]
OF_TRANSFORMERS: dict[str, Any] = {
    "only": "transformers"
}  # keys that new files leave out, as they are about these models alone


def _plain_path(path: str) -> str:
    if path.startswith("-"):
        raise ValueError(f"{path}: a command would read this path as an option; write it as ./{path}")
    if odd := [c for c in path if unicodedata.category(c).startswith("C") or c in "\u2028\u2029"]:
        raise ValueError(f"the path contains the character {escape_invisible(odd[0])}; rename the file")
    if set(path) & set("{}"):
        raise ValueError(f"{path}: Snakemake reads braces in a path as wildcards; rename the file")
    return path


FilePath = Annotated[str, AfterValidator(_plain_path)]  # one that quoting makes safe on a command line


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def kinds_of(field: FieldInfo | None) -> list[type[Section]]:
    """Return the types of a section, of which it has one; none for a plain or an unknown key."""
    kind = None if field is None else field.annotation
    found = [next(iter(get_args(part)), part) for part in get_args(kind)] if get_origin(kind) is Union else [kind]
    return [part for part in found if isinstance(part, type) and issubclass(part, Section)]


def keys_of(field: FieldInfo | None) -> dict[str, FieldInfo]:
    """Return the keys of a section, by name; none for a plain or an unknown key."""
    return {name: key for kind in kinds_of(field) for name, key in kind.model_fields.items()}


def about(field: FieldInfo | None) -> str:
    """Return what a section is about."""
    first, *others = kinds_of(field)
    return str((first.__base__ if others else first).__doc__).partition("\n")[0]

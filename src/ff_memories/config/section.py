"""What all sections of the config share: their base, their keys by name, and the type of a selection of memories."""

import unicodedata
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic.fields import FieldInfo

from ff_memories.base.text import escape_invisible

OF_TRANSFORMERS: dict[str, Any] = {"only": "transformers"}  # keys that new files leave out: of these models alone


def plain_path(path: str) -> str:
    """Return a path that quoting makes safe on a command line. Raises ``ValueError`` for others."""
    if path.startswith("-"):
        raise ValueError(f"{path}: a command would read this path as an option; write it as ./{path}")
    if odd := [c for c in path if unicodedata.category(c).startswith("C") or c in "\u2028\u2029"]:
        raise ValueError(f"the path contains the character {escape_invisible(odd[0])}; rename the file")
    if set(path) & set("{}"):
        raise ValueError(f"{path}: Snakemake reads braces in a path as wildcards; rename the file")
    return path


FilePath = Annotated[str, AfterValidator(plain_path)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def kinds_of(field: FieldInfo | None) -> list[type[Section]]:
    """Return the types of a section, of which it has one; none for a plain or an unknown key."""
    kind = None if field is None else field.annotation
    kinds = [next(iter(get_args(part)), part) for part in get_args(kind)] if get_origin(kind) is Union else [kind]
    return [part for part in kinds if isinstance(part, type) and issubclass(part, Section)]


def keys_of(field: FieldInfo | None) -> dict[str, FieldInfo]:
    """Return the keys of a section, by name; none for a plain or an unknown key."""
    return {name: key for kind in kinds_of(field) for name, key in kind.model_fields.items()}


def about(field: FieldInfo | None) -> str:
    """Return what a section is about."""
    first, *others = kinds_of(field)
    return str((first.__base__ if others else first).__doc__).partition("\n")[0]


def _selection(given: Any) -> Any:
    """Check how many or which memories a config asks for; in JSON the layers are strings."""
    wrong = "expected a number of memories per layer, or by layer a list of memories, such as {3: [17, 255]}"
    plain = lambda n, low, high: isinstance(n, int) and not isinstance(n, bool) and low <= n <= high
    if given is None or plain(given, 1, 65_536):
        return given
    if not isinstance(given, dict) or not given:
        raise ValueError(wrong)
    out = {
        int(layer) if isinstance(layer, str) and layer.isdecimal() else layer: memories
        for layer, memories in given.items()
    }
    for layer, memories in out.items():
        if not plain(layer, 1, 255) or not isinstance(memories, list) or not memories:
            raise ValueError(f"{wrong}; found {layer!r}: {memories!r}")
        if odd := [memory for memory in memories if not plain(memory, 0, 65_535)]:
            raise ValueError(f"layer {layer}: {odd[0]!r} is not the number of a memory")
        if len(set(memories)) < len(memories):
            raise ValueError(f"layer {layer}: a memory is listed twice")
    if len(out) < len(given):
        raise ValueError("a layer is listed twice")
    return out


MemorySelection = Annotated[int | dict[int, list[int]] | None, BeforeValidator(_selection)]

"""The one door for text, JSON and YAML that somebody else may have written: read within bounds, or refused in one line.

What comes out is plain: texts, whole and finite numbers, lists, mappings with texts as keys, none twice; no deeper than
``DEEPEST``; of the type that was asked for.
"""

import json
import re
from collections import Counter
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from pydantic import TypeAdapter, ValidationError

from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file

LARGEST = 4 << 20  # bytes of a file, unless its reader allows more
LARGEST_TEXT = 256 << 20  # bytes of a text, such as a vocabulary's
DEEPEST = 64  # lists and mappings inside each other
VALUES, EVENTS = 1_000_000, 200_000  # in JSON and in YAML, which take two seconds at most
SHOWN = 60  # characters of what a message quotes
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which no file can hold
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is ten times as fast
T = TypeVar("T")
_adapter: Any = cache(TypeAdapter)


def read_json(
    path: str | Path, kind: type[T], hint: str | None = None, *, largest: int = LARGEST, text: bool = False
) -> T:
    """Return a JSON file's data, of a kind as pydantic reads types, strictly: ``dict[str, Any]``, or a ``TypedDict``.

    ``text``: texts may have line breaks and other controls; else none may, so a message can quote each. ``hint``: for
    messages. Raises ``UserError`` where the file is missing or refused, with where and why.
    """
    return json_of(_bytes(path, hint, "file", largest), str(path), kind, hint, text=text)


def json_of(raw: bytes | str, where: str, kind: type[T], hint: str | None = None, *, text: bool = False) -> T:
    """Return the data of a JSON text, as ``read_json`` does; ``where``: its place, for messages."""
    try:
        plain = raw if isinstance(raw, str) else raw.decode(json.detect_encoding(raw))
        if sum(map(plain.count, "[{,")) > VALUES:
            raise ValueError("too many values")
        data = json.loads(plain, object_pairs_hook=_once, parse_int=lambda digits: int(digits[:41]))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not readable as JSON ({error})", hint) from None
    return _checked(data, where, kind, hint, text)


def read_yaml(path: str | Path, kind: type[T], hint: str | None = None, what: str = "file") -> T:
    """Return a YAML file's data, as ``read_json`` does; ``what``: the file, for the message that it is missing."""
    return yaml_of(read_text(path, what, hint, LARGEST), str(path), kind, hint)


def read_text(path: str | Path, what: str, hint: str | None = None, largest: int = LARGEST_TEXT) -> str:
    """Return a text file's content in UTF-8; ``what`` the file is and ``hint``, for messages on its absence or size.

    Raises ``UserError`` if the file is missing, larger than ``largest`` bytes or not UTF-8.
    """
    try:
        text = _bytes(path, hint, what, largest).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}", f"save the {what} as UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")  # as Python reads text


def yaml_of(plain: str, where: str, kind: type[T], hint: str | None = None) -> T:
    """Return the data of a YAML text without anchors, tags and merge keys, as ``json_of`` does for JSON."""
    try:
        _refuse_unplain(plain)
        data = yaml.load(plain, _Plain)
    except Exception as error:  # PyYAML raises more than its own errors: an IndexError at an empty "!!int"
        raise UserError(f"{where}: not valid YAML: {' '.join(str(error).split())}", hint) from None
    return _checked(data, where, kind, hint, False)


def _bytes(path: str | Path, hint: str | None, what: str, largest: int) -> bytes:
    require_file(path)
    try:
        with open(path, "rb") as file:
            raw = file.read(largest + 1)
    except FileNotFoundError:
        raise UserError(f"{path}: no such {what}", hint) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}", "check the file and its permissions") from None
    if len(raw) > largest:
        raise UserError(f"{path}: larger than {largest >> 20} MiB", hint)
    return raw


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's entries; plain JSON would silently use the last one of a name."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{_short(twice)} appears a second time")
    return entries


class _Plain(Loader):  # type: ignore[misc]  # chosen at run time
    """A YAML loader that refuses duplicate keys; plain YAML would silently use the last one."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    raise ValueError(f"line {key.start_mark.line + 1}: {_short(key.value)} appears a second time")
                keys.add(key.value)
        return super().construct_mapping(node, deep)

    def whole(self, node: Any) -> int:
        if len(node.value) > 40:  # also `1:1:1`, which takes quadratic time
            raise ValueError(f"line {node.start_mark.line + 1}: {_short(node.value)}, a number too large")
        return self.construct_yaml_int(node)


_Plain.add_constructor("tag:yaml.org,2002:int", _Plain.whole)


def _refuse_unplain(plain: str) -> None:
    """Raise ``ValueError`` for YAML that unfolds, or that a loader would follow without end, before it is loaded."""
    depth = 0
    for number, event in enumerate(yaml.parse(plain, Loader)):
        odd = None
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if number > EVENTS:
            odd = "too many values"
        elif depth > DEEPEST:
            odd = f"more than {DEEPEST} lists and mappings inside each other"
        elif getattr(event, "anchor", None) is not None:
            odd = "an anchor or alias (& or *)"
        elif getattr(event, "tag", None) is not None:
            odd = "a tag (!)"
        elif isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
            odd = "a merge key (<<)"
        if odd:
            raise ValueError(f"line {cast(Any, event).start_mark.line + 1}: {odd}, which is not read")


def _checked(data: Any, where: str, kind: type[T], hint: str | None, text: bool) -> T:
    """Return data that are plain and of a type; ``where``, ``hint``, ``text``: as for ``json_of``."""
    waiting: list[tuple[tuple[Any, ...], Any]] = [((), data)]
    odd, most = (SURROGATE, 10**40) if text else (CONTROL, 2**64)  # `transformers` writes 10**30 for no limit
    while waiting:
        at, value = waiting.pop()
        if isinstance(value, dict | list):
            if len(at) == DEEPEST:
                raise _refused(where, at[:3], f"more than {DEEPEST} lists and mappings inside each other", hint)
            entries = value.items() if isinstance(value, dict) else enumerate(value, 1)
            waiting.extend(((*at, key), part) for key, part in entries)
            names = value if isinstance(value, dict) else ()
            if any(type(name) is not int and (not isinstance(name, str) or odd.search(name)) for name in names):
                raise _refused(where, at, "a key that is no plain text", hint)
        elif isinstance(value, str):
            if odd.search(value):
                raise _refused(where, at, f"{_short(value)} has a control character", hint)
        elif isinstance(value, float) and not isfinite(value):
            raise _refused(where, at, f"{value} is no finite number", hint)
        elif isinstance(value, int) and not -most < value < most:
            raise _refused(where, at, "a number too large", hint)
        elif value is not None and not isinstance(value, bool | int | float):
            raise _refused(where, at, f"{_short(str(value))} is neither text nor number; put it in quotes", hint)
    if kind is Any:
        return data
    try:
        return _adapter(kind).validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False)[0]
        raise _refused(where, fault["loc"], fault["msg"].removeprefix("Value error, "), hint) from None


def _refused(where: str, at: tuple[Any, ...], what: str, hint: str | None) -> UserError:
    path = ".".join(repr(str(key)[:SHOWN])[1:-1] for key in at)
    return UserError(f"{where}: {path}: {what}" if path else f"{where}: {what}", hint)


def _short(value: str) -> str:
    return repr(value if len(value) <= SHOWN else f"{value[:SHOWN]}...")

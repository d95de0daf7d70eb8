"""Say whether runs read the same text with the same settings, and what differs."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from ff_memories.atlas.runs import Member, Text
from ff_memories.base.errors import UserError

SAME, RELATED, OTHER = "same", "related", "other"  # two runs' texts
ALWAYS = ("seed", "fidelity", "corpus", "extraction")  # what every measure depends on
SECTIONS = (*ALWAYS, "triggers", "mutations", "patterns", "values", "composition", "causal", "removals")
NAMES = ("corpus.source", "corpus.sha256", "files")  # what text it is, not what a run does with it


def relation(one: Text, other: Text) -> tuple[str, str]:
    """Return how two texts relate, ``same``, ``related`` or ``other``, and what a reader must know about it."""
    if one.sentences and one.sentences == other.sentences:
        return SAME, ""
    if one.sha256 and one.sha256 == other.sha256:
        return SAME, ""
    if one.source and one.source == other.source:
        if one.form != other.form:
            return RELATED, f"the same source, {one.source}, in another form: {other.form} instead of {one.form}"
        if one.sha256 and other.sha256:
            return RELATED, f"another state of the source {one.source}: its digest differs"
        return RELATED, f"the same source, {one.source}; its digest is not recorded for both runs"
    if one.files and one.files == other.files and not (one.sha256 and other.sha256):
        return RELATED, "the same files by name; their digest is not recorded for both runs"
    if not (one.known and other.known):
        return OTHER, "its text is not recorded"
    return OTHER, "another text"


def texts(members: Sequence[Member], any_text: bool) -> list[tuple[str, str]]:
    """Return each run's relation to the first run's text.

    Raises ``UserError`` for an unrelated text, unless ``any_text``.
    """
    first = members[0]
    relations = [relation(first.text, member.text) for member in members]
    for member, (how, _) in zip(members, relations, strict=True):
        if how != OTHER or member is first or any_text:
            continue
        unknown = [m for m in (first, member) if not m.text.known]
        if unknown:
            raise UserError(
                f"{unknown[0].folder}: the text of this run is not recorded ({unknown[0].unknown})",
                "name its config with --config RUN=FILE, or compare runs on any texts with --any-text",
            )
        raise UserError(
            f"{member.folder}: read another text than {first.folder}, so their numbers do not compare",
            "compare runs on the same text, or give --any-text",
        )
    return [(SAME, ""), *relations[1:]]


def flat(data: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (``section.key``, value) of nested settings."""
    for key, value in data.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping) and not name.endswith(".keys"):
            yield from flat(value, f"{name}.")
        else:
            yield name, value


def differences(members: Sequence[Member]) -> dict[str, list[Any]]:
    """Return {setting: each run's value} for the settings that measures depend on and that are not all equal.

    A run whose config is unknown has ``None`` everywhere, and is left out of the comparison.
    """
    settings = [
        None if member.resolved is None else dict(flat({name: member.resolved[name] for name in SECTIONS}))
        for member in members
    ]
    given = [values for values in settings if values is not None]
    names = dict.fromkeys(name for values in given for name in values)
    out = {}
    for name in names:
        if name in NAMES or name.endswith(".files"):
            continue
        if any(values.get(name) != given[0].get(name) for values in given):
            out[name] = [None if values is None else values.get(name) for values in settings]
    return out


def without_folders(value: Any) -> Any:
    """Return plain data in which every absolute path is cut to its last part."""
    if isinstance(value, dict):
        return {name: without_folders(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_folders(inner) for inner in value]
    if isinstance(value, str):
        for kind in (PurePosixPath, PureWindowsPath):
            if value.startswith("~") or (kind(value).is_absolute() and kind(value).name):
                return kind(value).name
    return value

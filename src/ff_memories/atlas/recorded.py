"""Keep the runs of an atlas in its ``summary.json`` and read them back, to draw them again without their tables."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from ff_memories.atlas import match
from ff_memories.atlas.member import PATTERNS, Member
from ff_memories.atlas.panels import NUMBERS, PANELS
from ff_memories.atlas.text import Text
from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.claims.register import register
from ff_memories.exports.published import without_folders
from ff_memories.model.info import NEEDED
from ff_memories.model.scope import SCOPES
from ff_memories.tables import VERDICTS

FILE, VERSION = "summary.json", 2
LARGEST = 32 << 20  # bytes of it
JUDGED_OTHERWISE = 1  # an atlas of this version has verdicts by other limits: of those, only the numbers are read


def plain(
    members: Sequence[Member], texts: Sequence[tuple[str, str]], different: Mapping[str, Any], every: pl.DataFrame
) -> dict[str, Any]:
    """Return an atlas's content as plain data: each run's facts, settings, verdicts and digests, and all numbers.

    Args:
        members: the atlas's runs.
        texts: each run's relation to the first one's text, and what to know about it.
        different: the settings that differ.
        every: their numbers, with the columns ``NUMBERS``.
    """
    runs = []
    for member, (how, why) in zip(members, texts, strict=True):
        settings = None
        if member.resolved is not None:
            settings = dict(match.flat({name: member.resolved[name] for name in match.SECTIONS}))
            settings = {name: value for name, value in settings.items() if not name.endswith(".files")}
        runs.append(
            {
                "run": member.name,
                "label": member.label,
                "step": member.step,
                "folder": without_folders(member.folder.as_posix()),
                "info": without_folders(dict(member.info)),
                "settings": without_folders(settings),
                "settings_from": member.known_from,
                "text": {name: value for name, value in asdict(member.text).items() if name != "files"}
                | {"relation": how, "note": why},
                "tables": dict(member.digests),
                "proxy": PATTERNS in member.digests,
                "untrained": member.baselines,
                "claims": dict(member.claims),
            }
        )
    return {"version": VERSION, "runs": runs, "different": dict(different), "numbers": every.to_dicts()}


def read(folder: Path) -> list[Member]:
    """Return the runs that an atlas recorded.

    Raises:
        UserError: its ``summary.json`` is damaged, from another version, or says what no run can have.
    """
    path = folder / FILE
    again = "draw that atlas again from its runs, or fetch the file again"
    data = foreign.read_json(path, dict[str, Any], again, largest=LARGEST)
    try:
        if data.get("version") not in (JUDGED_OTHERWISE, VERSION):
            raise UserError(f"{path}: was not written by this version of the atlas", again)
        if data["version"] == JUDGED_OTHERWISE:
            for row in (row for run in data["runs"] for row in run["claims"].values()):
                row["verdict"] = "measured" if row["measured"] is not None else "not_applicable"
        numbers = pl.DataFrame(data["numbers"], schema=NUMBERS)
        found = [_member(path, run, numbers.filter(run=run["run"])) for run in data["runs"]]
        if len({member.name for member in found}) < len(found):
            raise ValueError("a run is in it twice")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, pl.exceptions.PolarsError) as error:
        raise UserError(f"{path}: not readable as an atlas's summary ({error!r})", again) from None
    return found


def _member(path: Path, run: Mapping[str, Any], numbers: pl.DataFrame) -> Member:
    info, settings = run["info"], run["settings"]
    counts = [info[name] for name in NEEDED if name in ("layers", "keys", "vocab")]
    counts += [info[name] for name in ("neurons", "parameters", "model") if name in info]
    if info["scope"] not in SCOPES or not all(type(count) is int and count > 0 for count in counts):
        raise ValueError(f"{run['run']}: its info is of no model")
    if not set(numbers["panel"]) <= {panel.name for panel in PANELS}:
        raise ValueError(f"{run['run']}: has a panel that does not exist")
    if not numbers["layer"].is_between(1, info["layers"]).all() or numbers["value"].is_infinite().any():
        raise ValueError(f"{run['run']}: has numbers of no layer")
    known = {claim.id for claim in register()}
    for claim, row in run["claims"].items():
        if (
            claim not in known
            or row["verdict"] not in VERDICTS
            or type(row["measured"]) not in (int, float, type(None))
        ):
            raise ValueError(f"{run['run']}: {claim!r} has no verdict")
    read = Text(**{name: value for name, value in run["text"].items() if name not in ("relation", "note")})
    name, resolved = str(run["run"]), None if settings is None else _nested(settings)
    return Member(
        path.parent / name,
        name,
        str(run["label"]),
        info,
        resolved,
        without_folders(path.as_posix()),
        read,
        {},
        [],
        dict(run["claims"]),
        dict(run["tables"]),
        int(run["untrained"]),
        None,
        numbers,
    )


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return {``section.key``: value} as nested settings."""
    out: dict[str, Any] = {name: {} for name in match.SECTIONS}
    for name, value in settings.items():
        *sections, key = name.split(".")
        place = out
        for section in sections:
            place = place.setdefault(section, {})
        listed = isinstance(value, dict) and all(layer.isdecimal() for layer in value)  # memories by layer
        place[key] = {int(layer): keys for layer, keys in value.items()} if listed else value
    return out

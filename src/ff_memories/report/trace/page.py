"""Write a trace as one HTML page that needs nothing else: a grid of positions and layers, and each cell's details."""

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from ff_memories.base.text import MINUS, environment, escape_invisible
from ff_memories.model.info import NOTICES, TITLES
from ff_memories.report.gallery.parts import number, shown
from ff_memories.report.trace import record

KINDS = {  # kind: its mark in the grid, and what it says
    "residual": ("r", "The output keeps the residual's prediction."),
    "agreement": ("a", "Residual and update predict the same, and so does the output."),
    "composition": ("c", "The output predicts what neither residual nor update predicts."),
    "ffn": ("f", "The output takes over the update's prediction."),
}
PARTS = ("residual", "update", "output")
LONGEST = 14  # characters of a token in the grid; the details have all of them


def page(found: dict[str, Any], folder: Path, run: str = "", scope: str = "paper") -> str:
    """Return the page.

    Args:
        found: from ``api.trace``, with ``results`` or without.
        folder: where the page will lie: its links to the gallery begin there.
        run: the run's name.
        scope: the scope of its model.
    """
    script = Markup(files(__package__).joinpath("templates", "trace.js").read_text(encoding="utf-8"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    cells, layers = found["cells"], found["layers"]
    rows = []
    for place, position in enumerate(found["positions"]):
        own = cells[place * len(layers) : (place + 1) * len(layers)]
        following = found["positions"][place + 1]["id"] if place + 1 < len(found["positions"]) else None
        rows.append(
            {
                "token": shown(position["token"]),
                "unknown": position["unknown"],
                "next": following,
                "cells": [_cell(cell, following) for cell in own],
            }
        )
    return (
        environment("report.trace")
        .get_template("trace.html.j2")
        .render(
            run=run,
            title=TITLES[scope],
            notice=" ".join(filter(None, (NOTICES[scope], found.get("weights")))),
            text=shown_text(found["text"]),
            rows=rows,
            layers=layers,
            signs=found["model"]["signs"],
            unknown=[shown(p.get("written", p["token"])) for p in found["positions"][1:] if p["unknown"]],
            kinds=[(kind, *said, sum(cell["kind"] == kind for cell in cells)) for kind, said in KINDS.items()],
            settings=[record.said(told) for told in found.get("set", ())],
            changed=[
                [(shown(top["token"]), f"{top['probability']:.3f}") for top in pair]
                for pair in zip(found.get("before", ()), found.get("after", ()), strict=True)
            ],
            data=_data(found, folder),
            script=script,
            policy=f"default-src 'none'; style-src 'unsafe-inline'; "
            f"script-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'",
        )
    )


def _cell(cell: dict[str, Any], following: int | None) -> dict[str, Any]:
    """Return what the grid shows of a cell."""
    top = cell["output"][0]
    token = shown(top["token"])
    return {
        "kind": cell["kind"],
        "mark": KINDS[cell["kind"]][0],
        "token": token if len(token) <= LONGEST else token[: LONGEST - 1] + "…",
        "probability": f"{top['probability']:.2f}".removeprefix("0"),
        "level": round(top["probability"], 2),
        "hit": top["id"] == following,
    }


def _data(found: dict[str, Any], folder: Path) -> Markup:
    """Return what the page's script shows, as JSON that may stand in a script element.

    Tokens are listed once, and a cell names them and its memories by number.
    """
    words: dict[str, int] = {}
    pairs = lambda tops: [[words.setdefault(shown(t["token"]), len(words)), number(t["probability"], 3)] for t in tops]
    place = {(m["layer"], m["key"], m["sign"]): i for i, m in enumerate(found["memories"])}
    cells = [
        [
            cell["kind"],
            *(pairs(cell[part]) for part in PARTS),
            [
                [place[cell["layer"], m["key"], m["sign"]], number(m["coefficient"], 4), number(m["share"], 3)]
                for m in cell["memories"]
            ],
        ]
        for cell in found["cells"]
    ]
    own = [_memory(memory, pairs(memory["promotes"])) for memory in found["memories"]]
    gallery = found.get("gallery")
    data = {
        "layers": found["layers"],
        "positions": [shown(p["token"]) for p in found["positions"]],
        "kinds": {kind: said for kind, (_, said) in KINDS.items()},
        "gallery": None if gallery is None else _link(Path(gallery), folder),
        "run": "triggers" in next(iter(found["memories"]), {}),
        "words": list(words),
        "cells": cells,
        "memories": own,
    }
    plain = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for char in "<>&\u2028\u2029":
        plain = plain.replace(char, f"\\u{ord(char):04x}")
    return Markup(plain)


def _memory(memory: dict[str, Any], promotes: list[list[Any]]) -> list[Any]:
    """Return [name, promoted tokens, triggers, patterns, address in the gallery] of a memory."""
    name = f"{memory['key']}{MINUS if memory['sign'] < 0 else ''}"
    patterns = memory.get("patterns")
    shown_patterns = (
        None if patterns is None else [[p["type"], shown_text(p["description"]), p["triggers"]] for p in patterns]
    )
    return [name, promotes, memory.get("triggers"), shown_patterns, memory.get("address")]


def shown_text(text: str) -> str:
    """Return words with every character visible, blanks kept."""
    return " ".join(map(shown, text.split()))


def _link(file: Path, folder: Path) -> str:
    """Return a file's address, relative to a folder."""
    return quote(Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix())


SHOWN = 3  # memories per layer


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield a line per layer: kind, what residual, update and output predict, and the memories with most share."""
    if "weights" in found:
        yield found["weights"]
    last = found["positions"][-1]
    yield f"after {escape_invisible(last['token'])} (position {last['position']}), token and probability:"
    yield f"{'layer':>5}  {'kind':<11}  {'residual':<20}  {'update':<20}  {'output':<20}  memories, share of the update"
    for cell in found["cells"][-len(found["layers"]) :]:
        memories = [
            f"{memory['key']}{MINUS if memory['sign'] < 0 else ''} {memory['share']:.0%}"
            for memory in cell["memories"][:SHOWN]
        ]
        tops = "  ".join(_top(cell[part][0]) for part in ("residual", "update", "output"))
        yield f"{cell['layer']:5}  {cell['kind']:<11}  {tops}  {', '.join(memories) or 'none is active'}"
    if "set" in found:
        yield f"with {', '.join(map(record.said, found['set']))} at this position, the model predicts"
        yield f"{'before':<20}  {'after':<20}"
        yield from (f"{_top(one)}  {_top(other)}" for one, other in zip(found["before"], found["after"], strict=True))


def _top(top: dict[str, Any]) -> str:
    word = escape_invisible(top["token"])
    return f"{word if len(word) <= 13 else word[:12] + '…':<13} {top['probability']:6.3f}"

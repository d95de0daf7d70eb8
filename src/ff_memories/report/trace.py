"""Show how a text goes through a model's memories: as data, as lines, and as one page that needs nothing else.

``trace --json`` writes the data; the page has a grid of positions and layers, and each cell's details.
``docs/gallery.md`` describes them.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from ff_memories.base.errors import UserError
from ff_memories.base.text import MINUS, escape_invisible, key_and_sign, memory_of, parse_memory
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.tokenizer import Types
from ff_memories.model import interventions
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.info import NOTICES, TITLES
from ff_memories.model.interventions import Setting
from ff_memories.model.vocabulary import Vocabulary
from ff_memories.paper.layers import tracing
from ff_memories.paper.layers.tracing import LayerTrace, TopTokens, layer_tops
from ff_memories.report.gallery import parts
from ff_memories.report.gallery.parts import number, shown
from ff_memories.report.gallery.site import MANIFEST
from ff_memories.report.html import ours, render

FORMAT = "ff-memories trace 1"
PROMOTED = 5  # tokens that a value promotes
PARTS = ("residual", "update", "output")


def record(
    model: Any, tokens: np.ndarray, words: Sequence[str], layers: Sequence[LayerTrace], values: Vocabulary, among: str
) -> dict[str, Any]:
    """Return the trace of ``tokens`` (tokens,) and their ``words`` through an ``api.Model``.

    ``values`` reads values, ``among`` these types.
    """
    decoder, types = model.decoder, model.dictionary
    shape = decoder.description
    ids, written = [decoder.start, *tokens.tolist()], ["", *(words if isinstance(types, Dictionary) else [])]
    positions: list[dict[str, Any]] = []
    for place, token in enumerate(ids):
        unknown = types.unknown is not None and token == types.unknown
        positions.append({"position": place, "token": types[token], "id": token, "unknown": unknown})
        if unknown and place < len(written):
            positions[-1]["written"] = written[place]
    return {
        "format": FORMAT,
        "text": " ".join(words),
        "model": {"layers": shape.layers, "keys": shape.keys, "signs": decoder.signs},
        "projection": values.kind,
        "positions": positions,
        "layers": [layer.number for layer in layers],
        "cells": [_cell(decoder, types, layer, place) for place in range(len(ids)) for layer in layers],
        "memories": [memory for layer in layers for memory in _memories(decoder, types, layer, values, among)],
    }


def _named(memory: int, decoder: LanguageModel) -> dict[str, int]:
    return dict(zip(("key", "sign"), key_and_sign(memory, decoder.neurons), strict=True))


def _cell(decoder: LanguageModel, types: Types, layer: LayerTrace, place: int) -> dict[str, Any]:
    rows = zip(layer.memories[place].tolist(), layer.coefficients[place], layer.shares[place], strict=True)
    return {
        "position": place,
        "layer": layer.number,
        "kind": layer.kinds[place],
        **{part: tokens_of(types, getattr(layer, part), place) for part in PARTS},
        "memories": [
            _named(memory, decoder) | {"coefficient": exact(coefficient), "share": exact(share)}
            for memory, coefficient, share in rows
            if share > 0
        ],
    }


def _memories(
    decoder: LanguageModel, types: Types, layer: LayerTrace, values: Vocabulary, among: str
) -> Iterable[dict[str, Any]]:
    """Yield the layer's memories that some cell lists, by number."""
    listed = np.unique(layer.memories[layer.shares > 0]).tolist()
    if not listed:
        return
    tops = tracing.value_tops(decoder, values, layer.number, listed, PROMOTED, among)
    for row, memory in enumerate(listed):
        yield {"layer": layer.number, **_named(memory, decoder), "promotes": tokens_of(types, tops, row)}


def tokens_of(types: Types, tops: TopTokens, row: int) -> list[dict[str, Any]]:
    """Return a row's tokens as plain data, most probable first."""
    pairs = zip(tops.ids[row].tolist(), tops.probabilities[row], strict=True)
    return [{"token": types[token], "id": token, "probability": exact(p)} for token, p in pairs]


def exact(value: np.floating[Any]) -> float:
    """Return a float32 by the fewest digits that always tell it from its neighbours: nine."""
    return float(f"{value:.9g}")


HINT = "give layer, key and number, such as 12:1034=0, 12:1034=x2 or 12:1034-=0"
_SETTING = re.compile(rf"(\d+):(\d+[-{MINUS}]?)=(x?)(.+)")


def read_setting(text: str, model: Any) -> Setting:
    """Return the setting that a text says, of an ``api.Model``.

    Raises ``UserError`` if it is none, the model has no such memory, or the memory's value has length zero.
    """
    match = _SETTING.fullmatch(text.strip())
    if match is None:
        raise UserError(f"{text[:60]!r}: not a memory and a number", HINT)
    layer, (key, sign) = int(match[1]), parse_memory(match[2])
    model.require(layer, key, sign)
    memory = model.memory(key, sign)
    if not bool(model.decoder.layers[layer - 1].added[memory].any()):
        raise UserError(f"{text}: the value of this memory has length zero, so no coefficient changes anything")
    try:
        number = float(match[4])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{text[:60]!r}: {match[4][:30]!r} is no number", HINT)
    return Setting(layer, memory, number, bool(match[3]))


def changed_record(
    model: Any, vocabulary: Vocabulary, tokens: np.ndarray, settings: Sequence[Setting], predictions: int
) -> dict[str, Any]:
    """Return ``set``, the memories, and ``before`` and ``after``, what the model predicts at the last token.

    Raises:
        UserError: a memory is set twice.
    """
    names = [(setting.layer, setting.memory) for setting in settings]
    if len(set(names)) < len(names):
        raise UserError("a memory is set twice", "set each memory once")
    coefficients, outputs = interventions.with_settings(model.decoder, tokens, settings)
    tops = layer_tops(vocabulary, outputs, predictions)
    changed = [
        {"layer": layer, **_named(memory, model.decoder)}
        | {"coefficient": exact(np.float32(now)), "set_to": exact(np.float32(to))}
        for (layer, memory), (now, to) in zip(names, coefficients, strict=True)
    ]
    before, after = (tokens_of(model.dictionary, tops, row) for row in (0, 1))
    return {"set": changed, "before": before, "after": after}


def called(memory: dict[str, Any]) -> str:
    """Return the name of a memory in a trace, such as ``12−``."""
    return f"{memory['key']}{MINUS if memory['sign'] < 0 else ''}"


def said(told: dict[str, Any]) -> str:
    """Return a memory that is set in words: ``12:1034−: 0.51 to 0``."""
    return f"{told['layer']}:{called(told)}: {told['coefficient']:.4g} to {told['set_to']:.4g}"


def linked(found: dict[str, Any], results: Path, neurons: int | None) -> dict[str, Any]:
    """Return a trace of ``record`` with its memories' addresses in the gallery of a run's folder, if it has one.

    ``neurons``: d_m with both signs.
    """
    page = results / "gallery" / "index.html"
    gallery = page.as_posix() if page.is_file() else None
    by_layer = parts.read(page.parent, MANIFEST).get("shown") if gallery else None  # without: it shows all memories
    for memory in found["memories"]:
        layer, number = memory["layer"], memory_of(memory["key"], memory["sign"], neurons)
        here = gallery and (by_layer is None or number in by_layer[layer - 1])
        memory["address"] = f"#/{layer}/{memory['key']}{'-' if memory['sign'] < 0 else ''}" if here else None
    return found | {"gallery": gallery}


KINDS = {  # kind: its mark in the grid, and what it says
    "residual": ("r", "The output keeps the residual's prediction."),
    "agreement": ("a", "Residual and update predict the same, and so does the output."),
    "composition": ("c", "The output predicts what neither residual nor update predicts."),
    "ffn": ("f", "The output takes over the update's prediction."),
}
LONGEST = 14  # characters of a token in the grid; the details have all of them


def page(found: dict[str, Any], folder: Path) -> str:
    """Return a trace as one page, which lies in ``folder``: its links to the gallery begin there.

    ``found``: of ``api.trace``, or of the command, which adds ``run``, ``scope`` and ``weights``.
    """
    script, layers, positions = ours("trace/trace.js"), found["layers"], found["positions"]
    scope = found.get("scope", "paper")
    rows = []
    for index, position in enumerate(positions):
        following = positions[index + 1]["id"] if index + 1 < len(positions) else None
        cells = found["cells"][index * len(layers) : (index + 1) * len(layers)]
        grid = [_grid_cell(cell, following) for cell in cells]
        rows.append({"token": shown(position["token"]), "unknown": position["unknown"], "cells": grid})
    return render(
        "trace/trace.html.j2",
        run=found.get("run", ""),
        title=TITLES[scope],
        notice=" ".join(filter(None, (NOTICES[scope], found.get("weights")))),
        text=" ".join(map(shown, found["text"].split())),
        rows=rows,
        layers=layers,
        signs=found["model"]["signs"],
        unknown=[shown(p.get("written", p["token"])) for p in positions[1:] if p["unknown"]],
        kinds=[(kind, *told, sum(cell["kind"] == kind for cell in found["cells"])) for kind, told in KINDS.items()],
        settings=[said(told) for told in found.get("set", ())],
        changed=[
            [(shown(top["token"]), f"{top['probability']:.3f}") for top in pair]
            for pair in zip(found.get("before", ()), found.get("after", ()), strict=True)
        ],
        data=_data(found, folder),
        script=Markup(script),
    )


def _grid_cell(cell: dict[str, Any], following: int | None) -> dict[str, Any]:
    """Return what the grid shows of a cell."""
    top = cell["output"][0]
    return {
        "kind": cell["kind"],
        "mark": KINDS[cell["kind"]][0],
        "token": _cut(shown(top["token"]), LONGEST),
        "probability": f"{top['probability']:.2f}".removeprefix("0"),
        "level": round(top["probability"], 2),
        "hit": top["id"] == following,
    }


def _cut(token: str, most: int) -> str:
    return token if len(token) <= most else token[: most - 1] + "…"


def _data(found: dict[str, Any], folder: Path) -> Markup:
    """Return what the page's script shows as JSON for a script element; cells name tokens and memories by number."""
    words: dict[str, int] = {}

    def pairs(tops: list[dict[str, Any]]) -> list[Any]:
        return [[words.setdefault(shown(top["token"]), len(words)), number(top["probability"], 3)] for top in tops]

    index_of = {(m["layer"], m["key"], m["sign"]): i for i, m in enumerate(found["memories"])}
    cells = []
    for cell in found["cells"]:
        tops, listed = [pairs(cell[part]) for part in PARTS], []
        for m in cell["memories"]:
            index = index_of[cell["layer"], m["key"], m["sign"]]
            listed.append([index, number(m["coefficient"], 4), number(m["share"], 3)])
        cells.append([cell["kind"], *tops, listed])
    memories = [[called(m), pairs(m["promotes"]), m.get("address")] for m in found["memories"]]
    gallery = found.get("gallery")
    data = {
        "layers": found["layers"],
        "positions": [shown(p["token"]) for p in found["positions"]],
        "kinds": {kind: told for kind, (_, told) in KINDS.items()},
        "gallery": gallery and quote(Path(os.path.relpath(Path(gallery).resolve(), folder.resolve())).as_posix()),
        "words": list(words),
        "cells": cells,
        "memories": memories,
    }
    return htmlsafe_json_dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


SHOWN = 3  # memories per layer


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield a line per layer: kind, what residual, update and output predict, and the memories with most share."""
    if "weights" in found:
        yield found["weights"]
    last = found["positions"][-1]
    yield f"after {escape_invisible(last['token'])} (position {last['position']}), token and probability:"
    yield f"{'layer':>5}  {'kind':<11}  {'residual':<20}  {'update':<20}  {'output':<20}  memories, share of the update"
    for cell in found["cells"][-len(found["layers"]) :]:
        memories = ", ".join(f"{called(memory)} {memory['share']:.0%}" for memory in cell["memories"][:SHOWN])
        tops = "  ".join(_top(cell[part][0]) for part in PARTS)
        yield f"{cell['layer']:5}  {cell['kind']:<11}  {tops}  {memories or 'none is active'}"
    if "set" in found:
        yield f"with {', '.join(map(said, found['set']))} at this position, the model predicts"
        yield f"{'before':<20}  {'after':<20}"
        yield from (f"{_top(one)}  {_top(other)}" for one, other in zip(found["before"], found["after"], strict=True))


def _top(top: dict[str, Any]) -> str:
    return f"{_cut(escape_invisible(top['token']), 13):<13} {top['probability']:6.3f}"

"""Show how a text goes through a model's memories: as data, as lines, and as one page that needs nothing else.

``trace --json`` writes the data; the page has a grid of positions and layers, and each cell's details.
``docs/gallery.md`` describes them.
"""

import base64
import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import polars as pl
from markupsafe import Markup

from ff_memories import tables
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.text import MINUS, environment, escape_invisible, key_and_sign, parse_memory
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.tokenizer import Types
from ff_memories.model import interventions
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.info import NOTICES, TITLES
from ff_memories.model.interventions import Setting
from ff_memories.model.vocabulary import Vocabulary
from ff_memories.paper.layers import tracing
from ff_memories.paper.layers.tracing import LayerTrace, Tops, layer_tops
from ff_memories.report.gallery import parts
from ff_memories.report.gallery.parts import number, shown
from ff_memories.report.gallery.site import MANIFEST
from ff_memories.tables.annotation import ANNOTATOR

FORMAT = "ff-memories trace 1"
PROMOTED = 5  # tokens that a value promotes


def record(
    decoder: LanguageModel,
    types: Types,
    tokens: np.ndarray,
    words: Sequence[str],
    layers: Sequence[LayerTrace],
    *,
    values: Vocabulary,
    among: str = "all",
) -> dict[str, Any]:
    """Return the trace of ``tokens`` (tokens,) and their ``words``; ``values`` reads values, ``among`` these types."""
    shape = decoder.description
    positions = [_position(types, decoder.start, 0, "")]
    written = words if isinstance(types, Dictionary) else [""] * len(tokens)
    for position, (token, word) in enumerate(zip(tokens.tolist(), written, strict=True), 1):
        positions.append(_position(types, token, position, word))
    by_layer = [_memories(decoder, types, layer, values, among) for layer in layers]
    return {
        "format": FORMAT,
        "text": " ".join(words),
        "model": {"layers": shape.layers, "keys": shape.keys, "signs": decoder.signs},
        "projection": values.kind,
        "positions": positions,
        "layers": [layer.number for layer in layers],
        "cells": [_cell(decoder, types, layer, position) for position in range(len(positions)) for layer in layers],
        "memories": [memory for of_layer in by_layer for memory in of_layer],
    }


def _position(types: Types, token: int, place: int, word: str) -> dict[str, Any]:
    unknown = types.unknown is not None and token == types.unknown
    described: dict[str, Any] = {"position": place, "token": types[token], "id": token, "unknown": unknown}
    return described | ({"written": word} if unknown and word else {})


def _cell(decoder: LanguageModel, types: Types, layer: LayerTrace, place: int) -> dict[str, Any]:
    rows = zip(layer.memories[place].tolist(), layer.coefficients[place], layer.shares[place], strict=True)
    memories = []
    for memory, coefficient, share in rows:
        if share > 0:
            key, sign = key_and_sign(memory, decoder.neurons)
            memories.append({"key": key, "sign": sign, "coefficient": exact(coefficient), "share": exact(share)})
    return {
        "position": place,
        "layer": layer.number,
        "kind": layer.kinds[place],
        "residual": tokens_of(types, layer.residual, place),
        "update": tokens_of(types, layer.update, place),
        "output": tokens_of(types, layer.output, place),
        "memories": memories,
    }


def _memories(
    decoder: LanguageModel, types: Types, layer: LayerTrace, values: Vocabulary, among: str
) -> Iterable[dict[str, Any]]:
    """Yield the layer's memories that some cell lists, by number."""
    listed = np.unique(layer.memories[layer.shares > 0])
    if not len(listed):
        return
    tops = tracing.value_tops(decoder, values, layer.number, listed.tolist(), PROMOTED, among)
    for row, memory in enumerate(listed.tolist()):
        key, sign = key_and_sign(memory, decoder.neurons)
        yield {"layer": layer.number, "key": key, "sign": sign, "promotes": tokens_of(types, tops, row)}


def tokens_of(types: Types, tops: Tops, row: int) -> list[dict[str, Any]]:
    """Return a row's tokens as plain data, most probable first."""
    pairs = zip(tops.ids[row].tolist(), tops.probabilities[row], strict=True)
    return [{"token": types[token], "id": token, "probability": exact(p)} for token, p in pairs]


def exact(value: np.floating[Any]) -> float:
    """Return a float32 by the fewest digits that always tell it from its neighbours: nine."""
    return float(f"{value:.9g}")


HINT = "give layer, key and number, such as 12:1034=0, 12:1034=x2 or 12:1034-=mean"
_SETTING = re.compile(rf"(\d+):(\d+[-{MINUS}]?)=(.+)")


def read_setting(text: str, model: Any, results: str | Path | None) -> Setting:
    """Return the setting that a text says, of an ``api.Model``; ``mean`` needs the run's folder, ``results``.

    Raises ``UserError`` if it is none, the model has no such memory, or its mean or value cannot be had.
    """
    match = _SETTING.fullmatch(text.strip())
    if match is None:
        raise UserError(f"{text[:60]!r}: not a memory and a number", HINT)
    layer, (key, sign), to = int(match[1]), parse_memory(match[2]), match[3].strip()
    model.require(layer, key, sign)
    memory = model.memory(key, sign)
    if not bool(model.decoder.layers[layer - 1].added[memory].any()):
        raise UserError(f"{text}: the value of this memory has length zero, so no coefficient changes anything")
    if to == "mean":
        return Setting(layer, memory, _mean(text, layer, memory, results))
    try:
        number = float(to.removeprefix("x"))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{text[:60]!r}: {to[:30]!r} is no number", HINT)
    return Setting(layer, memory, number, to.startswith("x"))


def _mean(text: str, layer: int, memory: int, results: str | Path | None) -> float:
    """Return a memory's mean over other prefixes, of a run that tested it."""
    path = None if results is None else Path(results, "tables", "causal.parquet")
    if path is not None and path.exists():
        of_memory = (pl.col("layer") == layer) & (pl.col("key") == memory)
        rows = tables.read(path).filter(of_memory, intervention="mean", control="none")
        if len(rows):
            return float(rows["set_to"][0])
    raise UserError(
        f"{text}: no mean of this memory is known", "give a number: only memories in a run's table causal have a mean"
    )


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
    changed = []
    for setting, (now, to) in zip(settings, coefficients, strict=True):
        key, sign = key_and_sign(setting.memory, model.decoder.neurons)
        numbers = {"coefficient": exact(np.float32(now)), "set_to": exact(np.float32(to))}
        changed.append({"layer": setting.layer, "key": key, "sign": sign, **numbers})
    before, after = (tokens_of(model.dictionary, tops, row) for row in (0, 1))
    return {"set": changed, "before": before, "after": after}


def said(told: dict[str, Any]) -> str:
    """Return a memory that is set in words: ``12:1034−: 0.51 to 0``."""
    sign = MINUS if told["sign"] < 0 else ""
    return f"{told['layer']}:{told['key']}{sign}: {told['coefficient']:.4g} to {told['set_to']:.4g}"


Memory = tuple[int, int]  # layer, and the memory's number in it: with both signs d_m + i is key i of sign -1


def join(found: dict[str, Any], results: Path, neurons: int | None) -> dict[str, Any]:
    """Return a trace of ``record`` with what a run's folder knows of its memories; ``neurons``: d_m with both signs.

    Raises ``UserError`` if a table cannot be read, or belongs to a model with other signs.
    """
    number = lambda memory: (memory["layer"], memory["key"] + (neurons or 0) * (memory["sign"] < 0))
    triggers, patterns = _triggers(results, neurons), _patterns(results, neurons)
    gallery, shown = _gallery(results, found["model"]["layers"])
    for memory in found["memories"]:
        layer_key = number(memory)
        memory["triggers"] = triggers.get(layer_key)
        memory["patterns"] = patterns.get(layer_key)
        here = gallery is not None and (shown is None or layer_key[1] in shown[layer_key[0] - 1])
        memory["address"] = f"#/{memory['layer']}/{memory['key']}{'-' if memory['sign'] < 0 else ''}" if here else None
    return found | {"gallery": gallery}


def _read(results: Path, name: str, neurons: int | None) -> pl.DataFrame | None:
    path = results / "tables" / f"{name}.parquet"
    if not path.exists():
        return None
    table = tables.read(path)
    if tables.neurons_of(path) != neurons:
        raise UserError(f"{path}: its memories have other signs than the model's", rebuild_hint(path))
    return table


def _triggers(results: Path, neurons: int | None) -> dict[Memory, int]:
    """Return the number of triggers of each memory that the run looked at."""
    triggers = _read(results, "triggers", neurons)
    if triggers is None:
        return {}
    counts = triggers.group_by("layer", "key").agg(pl.len())
    counts_by_memory = {(layer, key): n for layer, key, n in counts.iter_rows()}
    looked_at = _read(results, "values", neurons)  # a row for each of them, with triggers or without
    return (
        counts_by_memory
        if looked_at is None
        else dict.fromkeys(looked_at.select("layer", "key").iter_rows(), 0) | counts_by_memory
    )


def _patterns(results: Path, neurons: int | None) -> dict[Memory, list[dict[str, Any]]]:
    """Return the patterns that the proxy found in each memory that it looked at."""
    by_proxy = pl.col("annotator") == ANNOTATOR
    annotations, labels = _read(results, "annotations", neurons), _read(results, "pattern_labels", neurons)
    if annotations is None or labels is None:
        return {}
    looked_at = labels.filter(by_proxy).select("layer", "key").unique().iter_rows()
    patterns: dict[Memory, list[dict[str, Any]]] = {(layer, key): [] for layer, key in looked_at}
    for row in annotations.filter(by_proxy).iter_rows(named=True):
        pattern = {"type": row["type"], "description": row["description"], "triggers": len(row["ranks"])}
        patterns.setdefault((row["layer"], row["key"]), []).append(pattern)
    return patterns


def _gallery(results: Path, layers: int) -> tuple[str | None, list[frozenset[int]] | None]:
    """Return the gallery's page, if there is one, and the memories that it shows by layer, ``None`` for all."""
    folder = results / "gallery"
    try:
        shown = parts.read(folder, MANIFEST).get("shown")
        shown = None if shown is None else [frozenset(keys) for keys in shown]
        whole = (folder / "index.html").is_file() and (shown is None or len(shown) == layers)
    except (OSError, ValueError, LookupError, AttributeError, TypeError):  # none, or damaged: the trace does without
        return None, None
    return ((folder / "index.html").as_posix(), shown) if whole else (None, None)


KINDS = {  # kind: its mark in the grid, and what it says
    "residual": ("r", "The output keeps the residual's prediction."),
    "agreement": ("a", "Residual and update predict the same, and so does the output."),
    "composition": ("c", "The output predicts what neither residual nor update predicts."),
    "ffn": ("f", "The output takes over the update's prediction."),
}
PARTS = ("residual", "update", "output")
LONGEST = 14  # characters of a token in the grid; the details have all of them


def page(found: dict[str, Any], folder: Path, run: str = "", scope: str = "paper") -> str:
    """Return a trace of ``api.trace`` as one page, which lies in ``folder``: its links to the gallery begin there.

    ``run``: the run's name. ``scope``: that of its model (``model.info``).
    """
    script = Markup(files("ff_memories.report").joinpath("templates", "trace", "trace.js").read_text(encoding="utf-8"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    cells, layers = found["cells"], found["layers"]
    rows = []
    for index, position in enumerate(found["positions"]):
        row_cells = cells[index * len(layers) : (index + 1) * len(layers)]
        following = found["positions"][index + 1]["id"] if index + 1 < len(found["positions"]) else None
        rows.append(
            {
                "token": shown(position["token"]),
                "unknown": position["unknown"],
                "next": following,
                "cells": [_grid_cell(cell, following) for cell in row_cells],
            }
        )
    return (
        environment("report")
        .get_template("trace/trace.html.j2")
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
            settings=[said(told) for told in found.get("set", ())],
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


def _grid_cell(cell: dict[str, Any], following: int | None) -> dict[str, Any]:
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
    """Return what the page's script shows as JSON for a script element; cells name tokens and memories by number."""
    words: dict[str, int] = {}
    pairs = lambda tops: [[words.setdefault(shown(t["token"]), len(words)), number(t["probability"], 3)] for t in tops]
    index_of = {(m["layer"], m["key"], m["sign"]): i for i, m in enumerate(found["memories"])}
    cells = [
        [
            cell["kind"],
            *(pairs(cell[part]) for part in PARTS),
            [
                [index_of[cell["layer"], m["key"], m["sign"]], number(m["coefficient"], 4), number(m["share"], 3)]
                for m in cell["memories"]
            ],
        ]
        for cell in found["cells"]
    ]
    memories = [_memory(memory, pairs(memory["promotes"])) for memory in found["memories"]]
    gallery = found.get("gallery")
    data = {
        "layers": found["layers"],
        "positions": [shown(p["token"]) for p in found["positions"]],
        "kinds": {kind: said for kind, (_, said) in KINDS.items()},
        "gallery": None if gallery is None else _link(Path(gallery), folder),
        "run": "triggers" in next(iter(found["memories"]), {}),
        "words": list(words),
        "cells": cells,
        "memories": memories,
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
        yield f"with {', '.join(map(said, found['set']))} at this position, the model predicts"
        yield f"{'before':<20}  {'after':<20}"
        yield from (f"{_top(one)}  {_top(other)}" for one, other in zip(found["before"], found["after"], strict=True))


def _top(top: dict[str, Any]) -> str:
    word = escape_invisible(top["token"])
    return f"{word if len(word) <= 13 else word[:12] + '…':<13} {top['probability']:6.3f}"

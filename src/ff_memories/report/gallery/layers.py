"""Write each layer's index: one entry per key, used to filter and sort lists."""

from typing import Any

import numpy as np
import polars as pl

from ff_memories.paper.keys.measures import LABELS, MUTATIONS, key_changes
from ff_memories.report.gallery.material import Material
from ff_memories.report.gallery.parts import number
from ff_memories.tables.annotation import MODEL

PROMOTED = 5  # tokens that a list shows of a value


def layer_indices(material: Material, mean: str) -> list[dict[str, Any]]:
    """Return every layer's index: columns over the keys that the gallery shows, in order.

    ``words`` are the texts that ``top`` (the value's top token), ``more`` (the next ones), ``next`` (the top
    trigger's target) and ``end`` (the triggers' most common last token, shared by ``same`` of them) point to.
    ``probability``, ``rank``, ``agreeing`` and ``measured`` (triggers that could agree) come from the values table.
    ``coefficient`` is the top trigger's, and ``triggers`` how many are shown; null if there is none. ``fired`` says
    on how many of ``prefixes`` prefixes of the training text the key fires; both are left out where the run did not
    count. By place in the layer, if any: ``labels``, how many triggers are shallow, both, semantic and none;
    ``disagree``, on how many annotators differ; ``changes``, the mean change without the first, last and random
    token (``mean``: as the config defines it).
    """
    frame = _frame(material)
    sparse: dict[str, dict[int, Any]] = {
        "labels": _labels(material),
        "disagree": _disagreements(material),
        "changes": _changes(material, mean),
    }
    return [
        _layer(material, frame.slice(ordinals.start, len(ordinals)), ordinals, sparse)
        for ordinals in map(material.of_layer, range(1, material.layers + 1))
    ]


def _frame(material: Material) -> pl.DataFrame:
    """Return the values table in ordinal order, with a summary of each key's triggers."""
    triggers = material.triggers.with_columns(pl.Series("last", material.last_tokens))
    by = ["layer", "key"]
    of_keys = triggers.group_by(by).agg(
        pl.len().alias("n"), pl.col("coefficient").filter(pl.col("rank") == 1).first().alias("coefficient")
    )
    ends = (
        triggers.group_by(*by, "last")
        .agg(pl.len().alias("same"))
        .sort(*by, "same", "last", descending=[False, False, True, False])
        .unique(by, keep="first", maintain_order=True)
    )
    counted = material.firing.select(*by, "fired", "prefixes")
    joined = material.values.sort(by).join(counted, on=by, how="left", maintain_order="left")
    joined = joined.join(of_keys, on=by, how="left", maintain_order="left")
    return joined.join(ends, on=by, how="left", maintain_order="left")


def _layer(
    material: Material, frame: pl.DataFrame, ordinals: range, sparse: dict[str, dict[int, Any]]
) -> dict[str, Any]:
    places: dict[int, int] = {}

    def words(column: str) -> list[int | None]:
        return [None if t is None else places.setdefault(t, len(places)) for t in frame[column].to_list()]

    numbers = lambda column: [number(x) for x in frame[column].to_list()]
    promoted = (
        material.promoted["token"].to_numpy().reshape(material.size, -1)[ordinals.start : ordinals.stop, 1:PROMOTED]
    )
    return {
        "top": words("top_token"),
        "more": [[places.setdefault(t, len(places)) for t in tokens] for tokens in promoted.tolist()],
        "next": words("next_token"),
        "end": words("last"),
        "same": frame["same"].fill_null(0).to_list(),
        "probability": numbers("top_probability"),
        "coefficient": numbers("coefficient"),
        "rank": frame["next_token_rank"].to_list(),
        "agreeing": frame["agreeing_triggers"].to_list(),
        "measured": frame["triggers"].to_list(),
        "triggers": frame["n"].fill_null(0).to_list(),
        **{name: frame[name].to_list() for name in ("fired", "prefixes") if len(material.firing)},
        **{name: {o - ordinals.start: rows[o] for o in ordinals if o in rows} for name, rows in sparse.items()},
        "words": ["" if token < 0 else material.words[token] for token in places],
    }


def _counted(material: Material) -> pl.DataFrame:
    """Return the labels of people and of the proxy; models' labels only stand on the keys' pages."""
    return material.labels.filter(~pl.col("annotator").str.starts_with(MODEL))


def _labels(material: Material) -> dict[int, list[int]]:
    """Return by ordinal how many triggers have each label, over people and the proxy."""
    counted = _counted(material).group_by("layer", "key", "label").len().sort("layer", "key", "label")
    out: dict[int, list[int]] = {}
    for ordinal, label, n in zip(material.ordinals(counted).tolist(), counted["label"], counted["len"], strict=True):
        out.setdefault(ordinal, [0] * len(LABELS))[LABELS.index(label)] = n
    return out


def _disagreements(material: Material) -> dict[int, int]:
    """Return by ordinal how many triggers annotators labelled differently, for keys with several annotators."""
    several = (
        _counted(material)
        .group_by("layer", "key", "rank")
        .agg(pl.col("annotator").n_unique().alias("who"), (pl.col("label").n_unique() > 1).alias("differ"))
        .filter(pl.col("who") > 1)
        .group_by("layer", "key")
        .agg(pl.col("differ").sum())
        .sort("layer", "key")
    )
    return dict(zip(material.ordinals(several).tolist(), several["differ"].to_list(), strict=True))


def _changes(material: Material, mean: str) -> dict[int, list[float | None]]:
    out: dict[int, list[float | None]] = {}
    frame = key_changes(material.mutations, mean)
    for ordinal, row in zip(material.ordinals(frame).tolist(), frame.iter_rows(named=True), strict=True):
        changes = out.setdefault(ordinal, [None] * len(MUTATIONS))
        if row["change"] is not None and np.isfinite(row["change"]):
            changes[MUTATIONS.index(row["mutation"])] = number(row["change"], 4)
    return out


def summary(material: Material) -> list[dict[str, Any]]:
    """Return each layer's number of keys with triggers, share of agreeing values and median top coefficient."""
    rows = []
    for layer in range(1, material.layers + 1):
        values = material.values.filter(pl.col("layer") == layer)
        tops = material.triggers.filter((pl.col("layer") == layer) & (pl.col("rank") == 1))
        rows.append(
            {
                "fire": len(tops),
                "agree": number(values.select(pl.col("agrees").mean()).item()),
                "coefficient": number(tops.select(pl.col("coefficient").median()).item()),
            }
        )
    return rows

"""Say what a run's tables and its gallery have on the memories of a trace."""

from pathlib import Path
from typing import Any

import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.report.gallery import parts
from ff_memories.report.gallery.site import MANIFEST
from ff_memories.tables.annotation import ANNOTATOR

Memory = tuple[int, int]  # layer, and the memory's number in it: with both signs d_m + i is key i of sign -1


def join(found: dict[str, Any], results: Path, neurons: int | None) -> dict[str, Any]:
    """Return a trace with what a run knows of its memories.

    Args:
        found: from ``record.record``.
        results: the run's folder, ``results/<run>``.
        neurons: d_m where the model counts both signs, else ``None``.

    Raises:
        UserError: a table cannot be read, or belongs to a model with other signs.
    """
    number = lambda memory: (memory["layer"], memory["key"] + (neurons or 0) * (memory["sign"] < 0))
    triggers, patterns = _triggers(results, neurons), _patterns(results, neurons)
    gallery, shown = _gallery(results, found["model"]["layers"])
    for memory in found["memories"]:
        own = number(memory)
        memory["triggers"] = triggers.get(own)
        memory["patterns"] = patterns.get(own)
        here = gallery is not None and (shown is None or own[1] in shown[own[0] - 1])
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

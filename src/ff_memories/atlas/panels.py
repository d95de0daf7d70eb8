"""Measure the panels of an atlas: for each a number per run and layer, and the same number of untrained models."""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from ff_memories.atlas.runs import PATTERNS, Member, Tables
from ff_memories.base.draws import ends
from ff_memories.judge import measures
from ff_memories.judge.statistics import medians
from ff_memories.paper.beyond import measures as removal
from ff_memories.paper.keys import measures as keys_measures
from ff_memories.paper.layers import measures as layers_measures
from ff_memories.paper.values import measures as values_measures

# tables, run and seed to a frame with ``layer``, ``value`` or ``mean``, ``low``, ``high``, ``n`` per layer: no rows if
# the tables lack the numbers, and no interval without a seed
Measure = Callable[[Tables, Member, int | None], pl.DataFrame]
NUMBERS: dict[str, pl.DataType] = {
    **dict.fromkeys(("panel", "run", "label"), pl.String()), "layer": pl.Int64(),
    **dict.fromkeys(("depth", "value", "low", "high"), pl.Float64()), "n": pl.Int64(),
    **dict.fromkeys(("untrained", "untrained_low", "untrained_high"), pl.Float64()), "untrained_seeds": pl.Int64(),
}  # fmt: skip


@dataclass(frozen=True)
class Panel:
    """One panel: what it shows, as ``panels.toml`` declares it."""

    name: str  # of its files
    title: str  # above its axes
    axis: str  # the title of its y axis
    section: str  # the paper's section, or ``beyond`` (``report.outline.BEYOND``)
    formula: str  # what it shows, in symbols
    says: str  # the same in words, and what to keep in mind
    measure: Measure
    table: str  # the table that it needs
    of: str  # the units that are counted and resampled
    sections: Sequence[str]  # the config sections that it depends on besides those that all do
    form: str = "share"  # how its numbers are written: ``share``, ``change``, ``factor`` or ``correlation``
    together: str = ""  # panels with the same word share one axis
    chance: tuple[float, str] | None = None  # a level to compare with, and its name


def _medians(frame: pl.DataFrame, column: str, seed: int | None) -> pl.DataFrame:
    """Return the median of a column per layer, with its bootstrap interval."""
    rows = []
    for (layer,), part in frame.drop_nulls(column).sort("layer").group_by("layer", maintain_order=True):
        values = part[column].cast(pl.Float64).to_numpy()
        rows.append((layer, float(np.median(values)), *ends(medians(values, seed)), len(values)))
    schema = {"layer": pl.Int64(), "value": pl.Float64(), "low": pl.Float64(), "high": pl.Float64(), "n": pl.Int64()}
    return pl.DataFrame(rows, schema=schema, orient="row")


def with_pattern(tables: Tables, member: Member, seed: int | None, kind: str) -> pl.DataFrame:
    """Return the share of keys with a trigger of this kind of pattern, or of both."""
    shown = pl.col("label").cast(pl.String).is_in([kind, "both"])
    keys = tables[PATTERNS].group_by("layer", "key").agg(has=shown.any())
    return measures.means(keys.sort("layer", "key"), ["layer"], "has", seed)


def last_token(tables: Tables, member: Member, seed: int | None) -> pl.DataFrame:
    """Return the median change of a key's coefficient after removing its triggers' last token."""
    keys = keys_measures.key_changes(tables["mutations"].filter(pl.col("mutation") == "last"), member.mean)
    return _medians(keys, "change", seed)


def over_pairs(tables: Tables, member: Member, seed: int | None) -> pl.DataFrame:
    """Return the agreement rate over that of random pairs; no rows for layers in which random pairs never agree."""
    rates = values_measures.agreement(tables["values"], seed)
    chances = measures.chance_agreement(tables["values"], "top_token", "next_token").filter(pl.col("chance") > 0)
    both = rates.join(chances, on="layer", maintain_order="left")
    return both.with_columns(pl.col("mean", "low", "high") / pl.col("chance"))


def rank(tables: Tables, member: Member, seed: int | None) -> pl.DataFrame:
    """Return the median rank of the next token, as a share of the token types."""
    ranks = _medians(tables["values"], "next_token_rank", seed)
    return ranks.with_columns(pl.col("value", "low", "high") / member.info["vocab"])


def effective(tables: Tables, member: Member, seed: int | None) -> pl.DataFrame:
    """Return the median effective number of memories, as a share of all."""
    table = tables["composition"]
    table = table if "effective" in table.columns else table.clear().with_columns(effective=pl.lit(0.0))
    return _medians(table, "effective", seed).with_columns(pl.col("value", "low", "high") / member.neurons)


def of_kind(tables: Tables, member: Member, seed: int | None, kind: str) -> pl.DataFrame:
    """Return the share of examples with this kind of prediction."""
    found = tables["refinement"].with_columns(found=pl.col("kind") == kind)
    return measures.means(found, ["layer"], "found", seed)


def stays(tables: Tables, member: Member, seed: int | None) -> pl.DataFrame:
    """Return the share of a layer's predictions that stay without the memory that adds most to their margin."""
    without = tables["removals"].filter(pl.col("by") == "margin").with_columns(stays=~pl.col("layer_top_changed"))
    return measures.means(without, ["layer"], "stays", seed)


MEASURES: dict[str, Measure] = {
    "shallow-keys": partial(with_pattern, kind="shallow"),
    "semantic-keys": partial(with_pattern, kind="semantic"),
    "last-token": last_token,
    "agreement": over_pairs,
    "rank": rank,
    "effective": effective,
    "residual": lambda tables, member, seed: layers_measures.residual_predicts(tables["refinement"], seed),
    **{f"kind-{kind}": partial(of_kind, kind=kind) for kind in layers_measures.KINDS},
    "effect-left": lambda tables, member, seed: removal.shares(tables["causal"], member.info["layers"], seed).filter(
        pl.col("control") == "none"
    ),
    "stays": stays,
}
_declared = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PANELS = tuple(Panel(name, measure=MEASURES[name], **declared) for name, declared in _declared.items())


def numbers(panel: Panel, members: Sequence[Member]) -> pl.DataFrame:
    """Return a panel's numbers: a row per run and layer with the columns ``NUMBERS``, in the runs' order.

    ``low`` and ``high`` bound the 95 % bootstrap interval. ``untrained`` is the mean over the untrained models' seeds,
    and its ``_low`` and ``_high`` are the extremes; null if the run has no untrained models.
    """
    parts = [pl.DataFrame(schema=NUMBERS)]
    for member in (member for member in members if panel.table in member.tables):
        by_layer = panel.measure(member.tables, member, member.seed).rename({"mean": "value"}, strict=False)
        whose = {"panel": pl.lit(panel.name), "run": pl.lit(member.name), "label": pl.lit(member.label)}
        layer = pl.col("layer")
        rows = by_layer.with_columns(layer.cast(pl.Int64), depth=layer / member.info["layers"], **whose)
        rows = rows.join(_baseline(panel, member), on="layer", how="left", maintain_order="left").fill_nan(None)
        parts.append(rows.select(pl.col(name).cast(kind) for name, kind in NUMBERS.items()).sort("layer"))
    return pl.concat(parts)


def _baseline(panel: Panel, member: Member) -> pl.DataFrame:
    """Return the mean and the extremes of the panel's number over the untrained models, per layer."""
    parts = [pl.DataFrame(schema={"layer": pl.Int64, "value": pl.Float64})]
    for tables in (tables for tables in member.untrained if panel.table in tables):
        by_layer = panel.measure(tables, member, None).rename({"mean": "value"}, strict=False)
        parts.append(by_layer.select(pl.col("layer").cast(pl.Int64), pl.col("value").cast(pl.Float64)))
    value = pl.col("value")
    spread = {"untrained": value.mean(), "untrained_low": value.min(), "untrained_high": value.max()}
    return pl.concat(parts).group_by("layer").agg(**spread, untrained_seeds=pl.len()).sort("layer")

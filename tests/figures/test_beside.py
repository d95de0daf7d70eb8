"""Test additions to a figure's own marks: the other choice of types, untrained models and the font."""

import polars as pl
import pytest
from drawings import LAYERS, SECTIONS, chosen, looking, synthetic, texts

from ff_memories import tables
from ff_memories.config import Settings
from ff_memories.figures import draw, render
from ff_memories.judge.evidence import OTHER_TYPES

SHOWN = {"figure4": "mean", "figure5": "median", "figure6": "mean", "figure8": "mean"}


def knowing(types: str) -> dict[str, pl.DataFrame]:
    """Return the synthetic tables with the columns of the other choice of types: every second value agrees."""
    frames = synthetic()
    values, composition = frames["values"], frames["composition"]
    own = [name.removesuffix(f"_{types}") for name in tables.TABLES["values"].optional
           if name.endswith(f"_{types}") and "folded" not in name]  # fmt: skip
    values = values.with_columns(pl.col(name).alias(f"{name}_{types}") for name in own)
    values = values.with_columns((pl.col("key") % 2 == 0).alias(f"agrees_{types}"))
    composition = composition.with_columns(pl.lit(0, dtype=pl.UInt16).alias(f"agreeing_memories_{types}"))
    known = {"values": values, "composition": composition}
    return frames | {name: tables.conform(frame, tables.TABLES[name]) for name, frame in known.items()}


def made(figure: str, frames: dict[str, pl.DataFrame], **look) -> tuple[pl.DataFrame, dict]:
    """Return a figure's frame and specification."""
    context = looking(figure, **look)
    frame = draw.data(chosen(figure, frames), Settings(SECTIONS), context)
    return frame, render.spec(draw.chart(frame, context))


@pytest.mark.parametrize("figure", SHOWN)
@pytest.mark.parametrize("types", OTHER_TYPES)
def test_the_other_choice_of_types_stands_beside_the_runs_own(figure, types):
    column = f"{SHOWN[figure]}_{types}"
    frame, spec = made(figure, knowing(types))
    without, bare = made(figure, synthetic())
    assert frame.select(without.columns).equals(without) and column not in without.columns
    ticks = [layer for layer in spec["layer"] if layer.get("encoding", {}).get("y", {}).get("field") == column]
    assert ticks and [row[column] for row in ticks[0]["data"]["values"]] == frame[column].drop_nulls().to_list()
    said = texts(render.svg(spec, figure))
    assert f"hollow ticks: the same {OTHER_TYPES[types]}" in said
    assert "hollow ticks" not in texts(render.svg(bare, figure))


def test_the_other_choice_is_measured_as_the_runs_own_is():
    frames = knowing("trained")
    agreeing, _ = made("figure4", frames)
    assert agreeing["mean_trained"].to_list() == [0.5] * LAYERS
    assert made("figure8", frames)[0]["mean_trained"].to_list() == [1.0] * LAYERS
    ranks, _ = made("figure5", frames)
    assert ranks["median_trained"].to_list() == ranks["median"].to_list()  # the same ranks in both columns
    bins, _ = made("figure6", frames)
    assert bins["n_trained"].to_list() == bins["n"].to_list()


def test_an_interval_that_only_the_other_choice_fills_is_drawn_and_empty_of_the_runs_own():
    """Values that lose their most probable token fall into lower bins, which may be empty in the run itself."""
    values = knowing("trained")["values"].with_columns(
        pl.lit(4e-4, dtype=pl.Float32).alias("top_probability"),
        pl.lit(1e-4, dtype=pl.Float32).alias("top_probability_trained"),
    )
    frame, _ = made("figure6", {"values": values})
    assert frame["n"].to_list() == [0, values.height] and frame["mean"].to_list()[0] is None
    assert frame["n_trained"].to_list() == [values.height, None] and frame["mean_trained"][0] == 0.5
    over = values.with_columns(pl.lit(9e-4, dtype=pl.Float32).alias("top_probability_trained"))
    assert made("figure6", {"values": over})[0]["n_trained"].to_list() == [None]  # beyond the run's own intervals

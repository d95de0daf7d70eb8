"""Draw chance levels, untrained models, and the other choice of ``values.types`` beside a figure's own marks."""

from collections.abc import Callable, Mapping

import altair as alt
import polars as pl

from ff_memories.config.sections import SAME_SAMPLE, UNTRAINED
from ff_memories.figures.context import FigureContext
from ff_memories.figures.marks import HALO, Options, layer_axis, source
from ff_memories.figures.theme import BLACK, FAINT, INK
from ff_memories.judge import measures
from ff_memories.judge.evidence import OTHER_TYPES, of_types, other_types

LINE: Options = {"strokeWidth": 0.7, "strokeDash": [1.5, 1.5], "color": FAINT, "opacity": 1}
TICK: Options = {"color": "white", "stroke": BLACK, "strokeWidth": 0.5, "opacity": 1, "clip": True}
BAND: Options = {"color": FAINT, "opacity": 0.15}
DASHES = {"chance": [1.5, 1.5], "untrained": [4, 2], "same_sentences": [1, 0]}
ENDS = ("untrained_low", "untrained_high")
MARKED_BY = ("layer", "series", "mutation", "bin", "annotators", "removed")  # by which marks are known


def with_chance(rates: pl.DataFrame, cases: pl.DataFrame, prediction: str, target: str) -> pl.DataFrame:
    """Add the column ``chance``, how often predictions hit the targets of other cases, to a frame by layer."""
    chances = measures.chance_agreement(cases, prediction, target)
    return rates.join(chances, on="layer", how="left", maintain_order="left")


def with_models(frame: pl.DataFrame, models: Mapping[str, pl.DataFrame], shown: str) -> pl.DataFrame:
    """Add what untrained models have in the column ``shown``, and what the run's own has on the sentences they saw.

    Args:
        frame: a figure's frame.
        models: the frames of the models of ``baselines/``, by name; without an untrained one, nothing is added.

    Returns:
        The frame with ``untrained``, their mean, ``untrained_low`` and ``untrained_high``, their minimum and maximum
        over seeds, and ``same_sentences``.
    """
    by, value = [name for name in MARKED_BY if name in frame.columns], pl.col(shown)
    untrained = [model.select(*by, shown) for name, model in models.items() if name.startswith(UNTRAINED)]
    if not untrained:
        return frame
    spread = (
        pl.concat(untrained)
        .group_by(by)
        .agg(value.sort().mean().alias("untrained"), value.min().alias(ENDS[0]), value.max().alias(ENDS[1]))
    )
    same_sample = models[SAME_SAMPLE].select(*by, value.alias("same_sentences"))
    for columns in (spread, same_sample):
        frame = frame.join(columns, on=by, how="left", maintain_order="left")
    return frame


def by_layer(frame: pl.DataFrame, context: FigureContext) -> list[alt.Chart]:
    """Return a line for each of the frame's columns in ``DASHES``, and the untrained models' band."""
    lines = []
    if "untrained" in frame.columns:
        base = alt.Chart(source(frame.select("layer", *ENDS).drop_nulls()))
        lines.append(
            base.mark_area(clip=True, **BAND).encode(x=layer_axis(context), y=f"{ENDS[0]}:Q", y2=f"{ENDS[1]}:Q")
        )
    for name in [name for name in DASHES if name in frame.columns]:
        base = alt.Chart(source(frame.select("layer", name).drop_nulls()))
        line = base.mark_line(clip=True, **LINE | {"strokeDash": DASHES[name]})
        lines.append(line.encode(x=layer_axis(context), y=f"{name}:Q"))
    return lines


def by_series(frame: pl.DataFrame, context: FigureContext, series: str, colours: Mapping[str, str]) -> list[alt.Chart]:
    """Return the untrained models' line and band of each series, in the colour of the series."""
    if "untrained" not in frame.columns:
        return []
    base = alt.Chart(source(frame.select("layer", series, "untrained", *ENDS).drop_nulls()))
    base = base.encode(x=layer_axis(context), detail=f"{series}:N")
    paint = alt.Scale(domain=list(colours), range=list(colours.values()))
    band = base.mark_area(opacity=0.12, clip=True).encode(y=f"{ENDS[0]}:Q", y2=f"{ENDS[1]}:Q")
    line = base.mark_line(clip=True, **LINE | {"strokeDash": DASHES["untrained"]}).encode(y="untrained:Q")
    return [band.encode(fill=alt.Fill(f"{series}:N", legend=None, scale=paint)),
            line.encode(stroke=alt.Stroke(f"{series}:N", legend=None, scale=paint))]  # fmt: skip


def edges(frame: pl.DataFrame, context: FigureContext) -> list[alt.Chart]:
    """Return lines where untrained models have the edges between the segments of ``marks.stacked``."""
    if "untrained" not in frame.columns:
        return []
    ends = frame.with_columns(pl.col("untrained").cum_sum().over("layer"))
    between = alt.Chart(source(ends.filter(pl.col("series") != frame["series"][-1]).drop_nulls("untrained")))
    between = between.encode(x=layer_axis(context), y="untrained:Q", detail="series:N")
    return [between.mark_line(**HALO), between.mark_line(**LINE | {"strokeDash": DASHES["untrained"], "color": INK})]


def across(frame: pl.DataFrame, x: alt.X) -> list[alt.Chart]:
    """Return the untrained models' mean and range, and the run's own, on a numeric axis, from ``x`` to ``to``."""
    if "untrained" not in frame.columns:
        return []
    base = alt.Chart(source(frame.drop_nulls("untrained"))).encode(x=x, x2="to")
    run_itself = alt.Chart(source(frame.drop_nulls("same_sentences"))).encode(x=x, x2="to", y="same_sentences:Q")
    return [base.mark_rect(**BAND).encode(y=f"{ENDS[0]}:Q", y2=f"{ENDS[1]}:Q"),
            base.mark_rule(**LINE | {"strokeDash": DASHES["untrained"]}).encode(y="untrained:Q"),
            run_itself.mark_rule(**LINE | {"strokeDash": DASHES["same_sentences"]})]  # fmt: skip


def untrained(frame: pl.DataFrame, same_sample: bool = True) -> list[str]:
    """Return the note on the lines of untrained models, if any, and of this model on the ``same_sample``."""
    dashed = "dashed: untrained models, on a sample of the text"
    others = "band: range over seeds; thin line: this model on the same sample"
    return [dashed, *([others] if same_sample else [])] if "untrained" in frame.columns else []


def level(value: float) -> list[alt.Chart]:
    """Return a horizontal line at a value."""
    return [alt.Chart(source([{"chance": value}])).mark_rule(**LINE).encode(y="chance:Q")]


# ------------------------------------------------------- the same numbers under the other choice of ``values.types``


def _chart(frame: pl.DataFrame, column: str) -> alt.Chart:
    return alt.Chart(source(frame.drop_nulls(column)))


def with_other_types(
    frame: pl.DataFrame, table: pl.DataFrame, column: str, shown: str, measure: Callable[[pl.DataFrame], pl.DataFrame]
) -> pl.DataFrame:
    """Add the column ``shown`` of the same measure under the other choice to a frame by layer, with its suffix.

    ``column``: a column that the table repeats with a suffix if it has the other choice. Without it, the frame is
    returned unchanged.
    """
    types = other_types(table, column)
    if types is None:
        return frame
    others = measure(of_types(table, types)).select("layer", pl.col(shown).alias(f"{shown}_{types}"))
    return frame.join(others, on="layer", how="left", maintain_order="left")


def other_types_by_layer(frame: pl.DataFrame, column: str, context: FigureContext) -> list[alt.Chart]:
    """Return a hollow tick at each value of ``column`` under the other choice, on the layer axis."""
    types = other_types(frame, column)
    if types is None:
        return []
    mark = _chart(frame, f"{column}_{types}").mark_tick(thickness=1.4, width={"band": 0.4}, **TICK)
    return [mark.encode(x=layer_axis(context), y=f"{column}_{types}:Q")]


def other_types_across(frame: pl.DataFrame, column: str, x: alt.X) -> list[alt.Chart]:
    """Return such ticks on a numeric axis ``x``, from ``tick_from`` to ``tick_to``."""
    types = other_types(frame, column)
    if types is None:
        return []
    y = f"{column}_{types}:Q"
    halo = _chart(frame, y[:-2]).mark_rule(strokeWidth=2.8, color=BLACK).encode(x=x, x2="tick_to", y=y)
    return [halo, _chart(frame, y[:-2]).mark_rule(strokeWidth=1.8, color="white").encode(x=x, x2="tick_to", y=y)]


def other_types_note(frame: pl.DataFrame, column: str) -> list[str]:
    """Return the note that explains the ticks, if there are any."""
    types = other_types(frame, column)
    return [f"hollow ticks: the same {OTHER_TYPES[types]}"] if types else []

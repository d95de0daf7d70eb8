"""Draw chance levels and untrained models beside a figure's own marks."""

from collections.abc import Mapping

import altair as alt
import polars as pl

from ff_memories.config.sections import SAME_SAMPLE, UNTRAINED
from ff_memories.figures.context import FigureContext
from ff_memories.figures.marks import HALO, Options, layer_axis, source
from ff_memories.figures.theme import FAINT, INK
from ff_memories.judge import measures

LINE: Options = {"strokeWidth": 0.7, "strokeDash": [1.5, 1.5], "color": FAINT, "opacity": 1}
BAND: Options = {"color": FAINT, "opacity": 0.15}
DASHES = {"chance": [1.5, 1.5], "untrained": [4, 2], "same_sentences": [1, 0]}
ENDS = ("untrained_low", "untrained_high")
MARKED_BY = ("layer", "series", "mutation", "bin", "annotators", "removed")  # by which marks are known


def with_chance(rates: pl.DataFrame, cases: pl.DataFrame, prediction: str, target: str) -> pl.DataFrame:
    """Add the column ``chance``, how often predictions hit the targets of other cases, to a frame by layer."""
    chances = measures.chance_agreement(cases, prediction, target)
    return rates.join(chances, on="layer", how="left", maintain_order="left")


def with_models(frame: pl.DataFrame, models: Mapping[str, pl.DataFrame], shown: str) -> pl.DataFrame:
    """Add what any untrained models and, on their sentences, the run itself have in the column ``shown`` to a frame.

    ``untrained``, ``untrained_low`` and ``untrained_high``: mean and extremes over seeds; ``same_sentences``: the run.
    """
    by = [name for name in MARKED_BY if name in frame.columns]
    untrained = [model.select(*by, shown) for name, model in models.items() if name.startswith(UNTRAINED)]
    if not untrained:
        return frame
    same_sample = models[SAME_SAMPLE].select(*by, pl.col(shown).alias("same_sentences"))
    for columns in (measures.spread(untrained, by, shown, "untrained"), same_sample):
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

"""Draw the pictures of docs/findings.md: a forest plot of all claims, and four measures by layer."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
from atlas_pictures import side_by_side, small

from ff_memories.atlas import chart
from ff_memories.atlas.panels import PANELS, Measure, Panel, numbers
from ff_memories.atlas.runs import BEYOND_PAPER, Member, Tables
from ff_memories.figures import render
from ff_memories.figures.marks import Options, source
from ff_memories.figures.theme import BLACK, FAINT, MODEL_COLOURS
from ff_memories.judge import wording
from ff_memories.judge.measures import means
from ff_memories.judge.register import Claim, register
from ff_memories.paper.beyond.measures import ranks
from ff_memories.report.outline import BEYOND

CLAIMS, LAYERS = Path("docs/pictures/claims.svg"), Path("docs/pictures/layers.svg")
WIDTH, STEP, GREY = 300, 8, "#8A8A8A"  # of the axes, and the height of one run's row, in points
SHADES = {"signal": "#CDE8D9", "common": "#FBE3B8", "absent": "#F2D3CE", "open": "#E8E8E8"}
CAUSAL, _ = BEYOND_PAPER


class Axis:
    """One of the small multiples: the units that share it, its title and its x axis."""

    def __init__(self, units: tuple[str, ...], title: str, least: float, most: float, **options: Any):
        self.units, self.title, self.ends = units, title, (least, most)
        kind = options.pop("type", "linear")
        self.scale = alt.Scale(type=kind, domain=[least, most], nice=False, clamp=True)
        self.axis = alt.Axis(grid=True, **options)

    def __call__(self, field: str) -> alt.X:
        return alt.X(f"{field}:Q", title=self.title, scale=self.scale, axis=self.axis)


AXES = (
    Axis(("share",), "share", 0, 1, format="~%"),
    Axis(("points", "change"), "difference of shares, or relative change, in points", -1, 0.6, format="~%"),
    Axis(("factor",), "factor", 0.25, 40, type="log", values=[0.25, 0.5, 1, 2, 4, 8, 16, 32], format="~"),
    Axis(("correlation",), "rank correlation", -1, 1),
    Axis(("number", "layer"), "number, or layer", 0, 24),
)


def claims(known: Sequence[Mapping[str, Any]]) -> str:
    """Return the forest plot as SVG: a row per claim and run, by unit, sorted by the group in the first run.

    Args:
        known: what the page says of each run.
    """
    runs = [run["run"] for run in known]
    rows = [_marks(claim, run) for run in known for claim in register()]
    frame = pl.DataFrame([row for row in rows if row["measured"] is not None], infer_schema_length=None)
    drawn = alt.vconcat(*(_forest(frame, axis, runs) for axis in AXES), spacing=6).resolve_scale(
        color="shared", shape="shared", fill="shared"
    )
    return small(render.svg(render.spec(drawn), CLAIMS.stem)) + "\n"


def _marks(claim: Claim, run: Mapping[str, Any]) -> dict[str, Any]:
    row = next((row for row in run["claims"] if row["claim"] == claim.id), dict.fromkeys(("measured", "group")))
    ends = (claim.limit.low, claim.limit.high) if claim.limit and claim.limit.high else (row.get("limit"), None)
    limit, other = ends if claim.judged_as == claim.measured_as else (None, None)
    return {
        "question": claim.words, "unit": claim.unit, "run": run["run"], "group": row["group"],
        **{name: row.get(name) for name in ("measured", "low", "high", "baseline_low", "baseline_high", "expected")},
        "limit": limit, "other": other, "paper": claim.paper_number, "eye": claim.known == "read off a figure",
        "shown": row["group"] and wording.word(row["group"]),
    }  # fmt: skip


def _forest(frame: pl.DataFrame, axis: Axis, runs: Sequence[str]) -> Any:
    """Return the rows of one axis: shades of groups, bands of random networks, limits, numbers and the paper's."""
    part = frame.filter(pl.col("unit").is_in(axis.units)).with_columns(left=axis.ends[0], right=axis.ends[1])
    seen = dict(part.filter(run=runs[0]).select("question", "group").iter_rows())
    order = sorted(part["question"].unique(maintain_order=True), key=lambda words: _place(seen.get(words)))
    rows = alt.Y("question:N", title=None, sort=order, scale=alt.Scale(paddingInner=0.1, paddingOuter=0.05),
                 axis=alt.Axis(labelLimit=300, ticks=False, labelPadding=6))  # fmt: skip
    of_run = alt.YOffset("run:N", sort=list(runs), scale=alt.Scale(domain=list(runs), padding=0))
    of = lambda field: alt.Chart(source(part.drop_nulls(field))).encode(y=rows)
    each = lambda names, ranges: alt.Scale(domain=list(names), range=list(ranges))
    colour = alt.Color("run:N", title=None, scale=each(runs, MODEL_COLOURS[: len(runs)]))
    shape = alt.Shape("run:N", title=None, scale=each(runs, chart.SHAPES[: len(runs)]))
    words = each(map(wording.word, SHADES), SHADES.values())
    shade = alt.Fill("shown:N", title=None, scale=words, legend=alt.Legend(symbolType="square"))
    paper: Options = {"shape": "diamond", "size": 60, "opacity": 1}
    once = of("paper").transform_filter(alt.datum.run == runs[0]).encode(x=axis("paper"))
    marks = [
        of("shown").mark_bar(height={"band": 1}).encode(x=axis("left"), x2="right:Q", yOffset=of_run, fill=shade),
        of("baseline_low").mark_bar(height={"band": 0.7}, color=GREY, opacity=0.6, minBandSize=1)
        .encode(x=axis("baseline_low"), x2="baseline_high:Q", yOffset=of_run),
        *(of(end).mark_tick(color=BLACK, thickness=1.2, height=STEP).encode(x=axis(end), yOffset=of_run)
          for end in ("limit", "other")),
        of("expected").mark_point(shape="M-1,-1L1,1M-1,1L1,-1", size=14, color=BLACK, strokeWidth=1, opacity=1)
        .encode(x=axis("expected"), yOffset=of_run),
        of("low").mark_rule(strokeWidth=1).encode(x=axis("low"), x2="high:Q", yOffset=of_run, color=colour),
        of("measured").mark_point(filled=True, size=22, opacity=1)
        .encode(x=axis("measured"), yOffset=of_run, color=colour, shape=shape),
        once.transform_filter("!datum.eye").mark_point(filled=True, color=FAINT, **paper),
        once.transform_filter("datum.eye").mark_point(color=FAINT, strokeWidth=1, **paper),
    ]  # fmt: skip
    return alt.layer(*marks).properties(width=WIDTH, height={"step": STEP, "for": "offset"})


def _place(group: str | None) -> int:
    return list(SHADES).index(group) if group else len(SHADES)


# ------------------------------------------------------------------------------------------------------------ by layer


def kept(tables: Tables, member: Member, seed: int | None) -> pl.DataFrame:
    """Return the share of predictions that a layer leaves as they are."""
    stays = tables["refinement"].select("layer", stays=pl.col("kind").cast(pl.String).is_in(["residual", "agreement"]))
    return means(stays, ["layer"], "stays", seed).select("layer", "low", "high", "n", value="mean")


def correlation(tables: Tables, member: Member, seed: int | None) -> pl.DataFrame:
    """Return the rank correlation of direct and total effect within a layer; without intervals."""
    direct, total = pl.col("direct"), pl.col("total")
    rho = (direct * total).sum() / (direct.pow(2).sum() * total.pow(2).sum()).sqrt()
    by = ranks(tables[CAUSAL], member.info["layers"]).group_by("layer").agg(value=rho, n=pl.len()).sort("layer")
    return by.with_columns(low="value", high="value")


def _panel(name: str, title: str, axis: str, measure: Measure, table: str, **more: Any) -> Panel:
    return Panel(name, title, axis, BEYOND, "", "", measure, table, "", (), **more)


DEPTH = (
    *(panel for panel in PANELS if panel.name in ("agreement", "residual")),
    _panel("kept", "Predictions that a layer keeps", "share of prefixes", kept, "refinement"),
    _panel("correlation", "Direct and total effect of a memory", "rank correlation", correlation, CAUSAL,
           form="correlation", chance=(0.0, "none")),
)  # fmt: skip


def layers(runs: Sequence[Member]) -> str:
    """Return four measures over relative depth as SVG: a line per run, and dashed ones for its random networks."""
    made = []
    for panel in DEPTH:
        drawn = chart.chart(numbers(panel, runs), panel, [run.label for run in runs], [], "", panel.title)
        made.append(small(render.svg(render.spec(drawn), panel.name)))
    return side_by_side(made, columns=2)

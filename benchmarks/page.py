"""The benchmark's table as a page of the docs and as a figure."""

import altair as alt
import polars as pl

from benchmarks.measures import SHARE, products_work
from benchmarks.subjects import SIZES
from ff_memories.figures.theme import BLUE, INK, ORANGE, TEXT_WIDTH
from ff_memories.inputs.registry import source

# why a target is missed, as the profile below the table shows; a miss without an entry has not been explained yet
REASONS = {
    "cold": "while lists are short most sentences bring something new: comparing, gathering and sorting it, below",
    "whole": "the sentences' maxima and their comparison with the gates, in every batch, and the cold start, below",
    "warm": "the sentences' maxima and their comparison with the gates, as in the whole pass, below",
    "concatenation / ours": "what ours takes above the forward pass while lists are short, below",
    "hook and cache / ours": "the forward pass, which both make, is most of either: see the row that follows",
    "on fairseq's model": "fairseq's forward pass is the larger part of it: see the row above",
    "fairseq's forward": "products with weights, which both make, are most of either: see the row above",
    "all keys / ten keys": "in so short a text lists are filling all the time, as when cold, below",
    "memory, ten times the text": "a tenth of so short a text fills neither a batch nor the lists",
}


INTRODUCTION = """Written by `python -m benchmarks --benchmark benchmark.parquet --page docs/benchmark.md`;
measured on {}.

Weights are random, sentences have the lengths of WikiText's and made-up tokens. Methods take turns batch by batch on
the same sentences, model and threads; a ratio is the median over rounds, with the smallest and largest in brackets.

*Forward*: the same batches, up to the last layer's first matrix. *Per sentence*: a sentence's best prefix of each key;
*every prefix*: all of them. *Cold*: from empty lists; *warm*: other text against the gates that the whole pass left.
fairseq's forward ends with the last layer's second matrix, which it cannot leave out. A measure that a table lacks was
not made on that model."""


def markdown(table: pl.DataFrame) -> str:
    """Return docs/benchmark.md."""
    by = table.select("machine", "threads").unique(maintain_order=True).rows()
    machines = "; ".join(f"{threads} thread{'s'[: threads > 1]} of {name}" for name, threads in by)
    lines = ["# Benchmark", "", INTRODUCTION.format(machines), ""]
    for (model,), part in table.group_by("model", maintain_order=True):
        lines += [
            f"## {model}",
            "",
            "| measure | over | target | reached | met | why not |",
            "|---|---|---|---|---|---|",
        ]
        measured, profiled = part.filter(pl.col("unit") != SHARE), part.filter(pl.col("unit") == SHARE)
        for row in measured.iter_rows(named=True):
            target = "–" if row["target"] is None else f"{row['sign']} {row['target']:g}"
            spread = f" ({number(row['low'])}–{number(row['high'])})" if row["rounds"] > 1 else ""
            met = {True: "yes", False: "**no**", None: "–"}[row["met"]]
            why = reason(row["measure"]) if row["met"] is False else ""
            unit = "" if row["unit"] in ("ratio", "power") else f" {row['unit']}"
            reached = f"{number(row['reached'])}{unit}{spread}"
            lines.append(f"| {row['measure']} | {row['tokens']:,} | {target} | {reached} | {met} | {why} |")
        lines += ["", *profile(profiled)]
    return "\n".join([*lines, on_a_gpu(), BFLOAT16])


def profile(table: pl.DataFrame) -> list[str]:
    """Return the lines that say what the engine's time above the forward pass goes into."""
    if table.is_empty():
        return []
    named = table.with_columns(
        pl.col("measure").str.split_exact(": ", 1).struct.rename_fields(["pass", "part"])
    ).unnest("measure")
    names = named["pass"].unique(maintain_order=True).to_list()
    lines = ["What the engine does besides the forward pass, in % of the forward pass's time:", ""]
    lines += [f"| | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for (part,), rows in named.group_by("part", maintain_order=True):
        share = dict(rows.select("pass", "reached").iter_rows())
        lines.append(f"| {part} | {' | '.join(f'{share[name]:.1f}' for name in names)} |")
    return [*lines, ""]


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"


def reason(measure: str) -> str:
    return next((why for name, why in REASONS.items() if name in measure), "not explained yet")


def on_a_gpu() -> str:
    """Return what float32 allows at best on one H200, by arithmetic."""
    size, tokens = SIZES["paper"], source("wikitext-103").tokens["train"]
    least = tokens * products_work(size) / PEAK / 60
    return GPU.format(tokens=tokens, work=products_work(size) / 1e9, peak=PEAK / 1e12, least=least)


PEAK = 16_896 * 2 * 1.98e9  # float32 operations a second of an H200: cores, a multiply and an add, clock
GPU = """## On a GPU

    python -m benchmarks --size paper --tokens 100000000 --benchmark benchmark.parquet --page benchmark.md

measures the paper's dimensions in full there, over a text as long as WikiText-103. No GPU has been at hand: its code
paths were run on the CPU alone. By arithmetic, the products of the pass over WikiText-103 ({tokens:,} tokens at
{work:.2f} GFLOP) take at least {least:.0f} minutes in float32 on one H200 (at its peak of {peak:.0f} TFLOP/s).
"""

BFLOAT16 = """## Why there is no bfloat16 mode

A pass in bfloat16 could only propose candidates; whatever stands in a table must be computed in float32, or it would be
another table. A trigger's float32 coefficient needs the float32 forward pass of its sentence, so exact re-scoring runs
again every sentence that holds a candidate of any key: nine in ten of the demo run's training sentences hold a trigger,
and the candidates, taken with a margin, are more. Nor is there a proof to be had that nothing was missed: a rigorous
bound on bfloat16's error through all layers is too loose to exclude anything. Within the float32 pass all coefficients
are needed as they are, for the layer's output: screening them with a bfloat16 product, whose error can be bounded, adds
a product and saves none but in the last layer. `extraction.precision` therefore knows float32 alone.
"""


def chart(table: pl.DataFrame) -> alt.TopLevelMixin:
    """Return the figure: every measure with a target, as its distance from it."""
    met = table.filter(pl.col("target").is_not_null()).with_columns(
        pl.concat_str([pl.col("model"), pl.col("measure")], separator=": ").alias("row"),
        pl.when(pl.col("sign") == "≤").then(pl.col("reached") / pl.col("target"))
        .otherwise(pl.col("target") / pl.col("reached")).alias("of_target"),
        pl.when("met").then(pl.lit("met")).otherwise(pl.lit("missed")).alias("target met"),
    ).with_row_index("place")  # fmt: skip
    base = alt.Chart(alt.Data(values=met.select("row", "of_target", "target met", "place").to_dicts()))
    y = alt.Y("row:N", sort=alt.EncodingSortField("place"), title=None, axis=alt.Axis(labelLimit=300))
    colour = alt.Color("target met:N", scale=alt.Scale(domain=["met", "missed"], range=[BLUE, ORANGE]), title=None)
    points = base.mark_point(filled=True, size=30, opacity=1).encode(
        alt.X("of_target:Q", title="share of the target used up (left of the line: met)", scale=alt.Scale(type="log")),
        y, colour, alt.Shape("target met:N", scale=alt.Scale(domain=["met", "missed"], range=["circle", "diamond"])),
    )  # fmt: skip
    line = alt.Chart(alt.Data(values=[{"at": 1}])).mark_rule(color=INK, strokeDash=[3, 2]).encode(alt.X("at:Q"))
    return (points + line).properties(width=TEXT_WIDTH // 2, height=alt.Step(11))

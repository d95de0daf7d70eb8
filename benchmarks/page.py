"""The benchmark as a page of the docs, a column for each machine that it was measured on, and as a figure."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from benchmarks.measures import OURS, SHARE, products_work
from benchmarks.subjects import SIZES
from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.figures.theme import BLUE, INK, ORANGE, TEXT_WIDTH
from ff_memories.inputs.registry import source

DOCS = Path(__file__).parent.parent / "docs"
KEPT, PAGE = DOCS / "data" / "benchmark.csv", DOCS / "benchmark.md"
LARGEST = 3  # parts of a profile that are named

INTRODUCTION = """How much does finding triggers cost beyond the model's forward pass?

{}

Machines: {}. To add yours, run `python -m benchmarks --benchmark benchmark.parquet --keep`.

The weights and tokens are random; sentence lengths follow WikiText. Methods alternate batch by batch on the same
sentences, model and threads. A ratio is the median over rounds, with the smallest and largest in brackets. **Bold**
numbers miss their target; the list below each table gives the reason from the machine's profile.

| term | meaning |
|---|---|
| a / b | a divided by b: their times, unless the row names something else |
| ours | this package's trigger pass |
| forward | the bare forward pass over the same batches, up to the last layer's first matrix (fairseq's: to its end) |
| per sentence | keep only each key's best prefix of a sentence |
| every prefix | consider all prefixes of a sentence |
| cold | the pass starts with empty trigger lists |
| whole | the pass over the whole text |
| warm | the pass over other text, with the thresholds that the whole pass ended with |
| hook and cache | store all activations, then search them |
| concatenation | add each batch's activations to the running list and take the top again |
| all keys | the time to find the triggers of all keys |
| exponent of time in tokens | 1 means that time grows in proportion to the text |
| gate | the coefficient that a prefix must reach to enter a key's list |"""


def keep(table: pl.DataFrame) -> None:
    """Put a machine's measurements among those that are kept, in place of the same ones, and write the page."""
    held = read()
    own = table.select("machine", "model", "measure").unique()
    every = pl.concat([held.join(own, on=list(own.columns), how="anti"), table.drop("row")])
    write_whole(KEPT, every.write_csv(float_precision=6))
    write_whole(PAGE, markdown(read()))


def read() -> pl.DataFrame:
    """Return what is kept, machine by machine; nothing where nothing is."""
    columns = {name: kind for name, kind in tables.TABLES["benchmark"].columns.items() if name != "row"}
    if not KEPT.exists():
        return pl.DataFrame(schema=columns)
    return pl.read_csv(KEPT, schema_overrides=columns).select(*columns)


def markdown(table: pl.DataFrame) -> str:
    """Return docs/benchmark.md."""
    by = table.select("machine", "threads").unique(maintain_order=True).rows()
    machines = "; ".join(f"{threads} thread{'s'[: threads > 1]} of {name}" for name, threads in by)
    lines = ["# Benchmark", "", INTRODUCTION.format(summary(table), machines), ""]
    for (model,), part in table.group_by("model", maintain_order=True):
        names = part["machine"].unique(maintain_order=True).to_list()
        lines += [
            f"## {model[:1].upper()}{model[1:]}",
            "",
            f"| measure | over | target | {' | '.join(map(column, names))} |",
            "|---|---|---|" + "---|" * len(names),
        ]
        measured = part.filter(~pl.col("unit").is_in([SHARE, OURS]))
        for keys, rows in measured.group_by("measure", "tokens", maintain_order=True):
            measure, tokens = map(str, keys)
            found = {row["machine"]: row for row in rows.iter_rows(named=True)}
            first = rows.row(0, named=True)
            target = "–" if first["target"] is None else f"{first['sign']} {first['target']:g}"
            cells = " | ".join(cell(found[name]) if name in found else "" for name in names)
            lines.append(f"| {measure} | {int(tokens):,} | {target} | {cells} |")
        lines += ["", *(line for name in names for line in misses(part.filter(machine=name)))]
        for name in names:
            lines += profile(column(name), part.filter(pl.col("unit") == SHARE, machine=name))
    return "\n".join([*lines, on_a_gpu()])


def column(machine: str) -> str:
    """Return a machine without its torch."""
    return machine.partition(", torch")[0]


def cell(row: dict[str, Any]) -> str:
    """Return a number with its unit and spread, in bold where it misses its target."""
    low, high, reached = (number(row[name]) for name in ("low", "high", "reached"))
    unit = "" if row["unit"] in ("ratio", "power") else f" {row['unit']}"
    mark = "**" if row["met"] is False else ""
    return f"{mark}{reached}{unit}{mark}" + (f" ({low}–{high})" if row["rounds"] > 1 else "")


def summary(table: pl.DataFrame) -> str:
    """Return the benchmark in a few plain sentences."""
    said = []
    for name in table["machine"].unique(maintain_order=True):
        own = table.filter(machine=name)
        judged = own.filter(pl.col("met").is_not_null())
        whole = own.filter(pl.col("measure") == "per sentence / forward, whole")["reached"]
        cached = own.filter(pl.col("measure") == "hook and cache / ours")["reached"]
        if len(whole) and len(cached):
            said.append(
                f"- On {column(name)}, the trigger pass over a long text takes {between(whole)} times as long as the "
                f"bare forward pass. Caching all activations takes {between(cached)} times as long as our pass. "
                f"We meet {judged['met'].sum()} of {len(judged)} targets."
            )
    return "\n".join(said)


def between(values: pl.Series) -> str:
    held = sorted(values.to_list())
    low, high = f"{held[0]:.2f}", f"{held[-1]:.2f}"
    return low if low == high else f"{low} to {high}"


def misses(part: pl.DataFrame) -> list[str]:
    """Return a line for each target that a machine misses, with what its own numbers say of the reason."""
    reached = dict(part.select("measure", "reached").iter_rows())
    lines = []
    for row in part.filter(~pl.col("met")).iter_rows(named=True):
        say = next((say for told, say in REASONS.items() if re.search(told, row["measure"])), None)
        why = say(row["measure"], reached) if say else ""
        lines.append(f"- {column(row['machine'])}, {row['measure']}, {number(row['reached'])}: {why or UNEXPLAINED}.")
    return [*lines, ""] if lines else []


UNEXPLAINED = "the measurements don't explain this"


def largest(prefix: str, unit: str, reached: dict[str, float]) -> str:
    """Return the largest parts of a profile, in words."""
    parts = {name.removeprefix(prefix): share for name, share in reached.items() if name.startswith(prefix)}
    top = sorted(parts.items(), key=lambda item: -item[1])[:LARGEST]
    return ", ".join(f"{name} {share:.1f} %" for name, share in top) + f" {unit}" if top else ""


def of_forward(mode: str, when: str) -> Callable[[str, dict[str, float]], str]:
    def say(_: str, reached: dict[str, float]) -> str:
        own = largest(f"{mode}, {when}: ", "of the forward pass", reached)
        return own or largest(f"{mode}, whole: ", "of the forward pass, in the whole pass", reached)

    return say


def shared_forward(_: str, reached: dict[str, float]) -> str:
    """Both methods make the forward pass: say what share of each it is."""
    ours, cached = (reached.get(name) for name in ("every prefix / forward, cold", "hook and cache / forward"))
    if not ours or not cached:
        return ""
    shares = f"{100 / cached:.0f} % of its time and {100 / ours:.0f} % of ours"
    return f"both methods run the forward pass, which is {shares}"


def shared_products(_: str, reached: dict[str, float]) -> str:
    share = reached.get("matrix products alone / forward")
    return f"both run the products with weights, which are {100 * share:.0f} % of our forward pass" if share else ""


def cold_as_fairseq(_: str, reached: dict[str, float]) -> str:
    """The pass over a model of `transformers` is cold: say what that costs over fairseq's model."""
    parts = largest("per sentence, cold: ", "of the forward pass", reached)
    return f"the lists start empty, as in the cold pass above: there, {parts}" if parts else ""


def shared_transformers(measure: str, reached: dict[str, float]) -> str:
    """Both methods make the forward pass of `transformers`: say what share of each it is."""
    ours = reached.get(f"{measure.partition(':')[0]}: per sentence / transformers' forward")
    if not ours:
        return ""
    shares = f"{100 / (ours * reached[measure]):.0f} % of its time and {100 / ours:.0f} % of ours"
    return f"both methods run the forward pass, which without padding is {shares}"


# how the numbers of a run say why it misses a target, by what the measure's name holds
REASONS: dict[str, Callable[[str, dict[str, float]], str]] = {
    **{
        f"^{mode} / forward, {when}": of_forward(mode, when)
        for mode in ("per sentence", "every prefix") for when in ("cold", "whole", "warm")
    },
    "^concatenation": of_forward("every prefix", "cold"),
    "^hook and cache": shared_forward,
    "^fairseq's forward": shared_products,
    "transformers' forward$": cold_as_fairseq,
    "transformers, padded": shared_transformers,
    "^all keys / ten keys": of_forward("per sentence", "whole"),
    "^values: all": lambda _, reached: largest("values, ", "of our time", reached),
    "^memory, ten times": lambda _, reached: (
        f"the whole text takes {number(reached['memory of the pass'])} GB, and a tenth of it is too little to "
        "fill batches and lists" if "memory of the pass" in reached else ""
    ),
}  # fmt: skip


def profile(machine: str, table: pl.DataFrame) -> list[str]:
    """Return the lines that say what the engine's time above the forward pass goes into."""
    if table.is_empty():
        return []
    named = table.with_columns(
        pl.col("measure").str.split_exact(": ", 1).struct.rename_fields(["pass", "part"])
    ).unnest("measure")
    names = named["pass"].unique(maintain_order=True).to_list()
    lines = [f"Cost beyond the forward pass on {machine}, in % of the forward pass's time:", ""]
    lines += [f"| | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for key, rows in named.group_by("part", maintain_order=True):
        share = dict(rows.select("pass", "reached").iter_rows())
        lines.append(f"| {key[0]!s} | {' | '.join(f'{share[name]:.1f}' for name in names)} |")
    return [*lines, ""]


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"


def on_a_gpu() -> str:
    """Return what float32 allows at best on one H200, by arithmetic."""
    size, tokens = SIZES["paper"], source("wikitext-103").tokens["train"]
    least = tokens * products_work(size) / PEAK / 60
    return GPU.format(tokens=tokens, work=products_work(size) / 1e9, peak=PEAK / 1e12, least=least)


PEAK = 16_896 * 2 * 1.98e9  # float32 operations a second of an H200: cores, a multiply and an add, clock
GPU = """## On a GPU

    python -m benchmarks --size paper --tokens 100000000 --benchmark benchmark.parquet --keep

measures the paper's dimensions on a text as long as WikiText-103; `--precision` sets the arithmetic. [The GPU
campaign](gpu.md) includes this benchmark and lists what has run on a GPU so far. As a lower bound, the matrix products
of the pass over WikiText-103 ({tokens:,} tokens at {work:.2f} GFLOP each) take {least:.0f} minutes in float32 on one
H200 (peak {peak:.0f} TFLOP/s).
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

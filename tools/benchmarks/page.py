"""The benchmark as tables, with a column for each machine that it was measured on."""

from pathlib import Path
from typing import Any

import polars as pl

from ff_memories.base.files import write_whole

KEPT = Path(__file__).parents[2] / "docs" / "data" / "benchmark.csv"
COLUMNS = {
    "model": pl.String(),
    "machine": pl.String(),
    "threads": pl.UInt16(),
    "measure": pl.String(),
    "tokens": pl.UInt64(),
    "unit": pl.String(),
    "sign": pl.String(),
    "target": pl.Float64(),
    "reached": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    "rounds": pl.UInt8(),
    "met": pl.Boolean(),
}

PRODUCT = "hook and cache / forward"  # of two other measures
INTRODUCTION = """{}

Machines: {}. To add yours, run `python -m tools.benchmarks --keep`.

a / b divides their times. *Ours* is this package's trigger pass, which keeps only each key's best prefix of a sentence
(*per sentence*) or considers all (*every prefix*), from empty lists (*cold*) or over the *whole* text. *Forward* is the
bare forward pass over the same batches, up to the last layer's first matrix; *hook and cache* stores all activations,
then searches them. Weights and tokens are random; sentence lengths follow WikiText. Methods alternate batch by batch on
the same sentences, model and threads. A ratio is the median over rounds, with the smallest and largest in brackets.
**Bold** numbers miss their target. Tokens: {}."""


def keep(table: pl.DataFrame) -> None:
    """Put a machine's measurements among those that are kept, and leave out the old ones."""
    kept, same = read(), ["machine", "model", "measure"]
    write_whole(KEPT, pl.concat([kept.join(table, on=same, how="anti"), table]).write_csv(float_precision=6))


def read() -> pl.DataFrame:
    """Return what is kept, machine by machine; nothing where nothing is."""
    return pl.read_csv(KEPT, schema=COLUMNS) if KEPT.exists() else pl.DataFrame(schema=COLUMNS)


def markdown(table: pl.DataFrame) -> str:
    """Return the part of docs/performance.md on the benchmark."""
    by = table.select("machine", "threads").unique(maintain_order=True).rows()
    machines = "; ".join(f"{threads} thread{'s'[: threads > 1]} of {name}" for name, threads in by)
    columns = table.select("machine", "model").unique(maintain_order=True).sort("machine", maintain_order=True).rows()
    tokens = table.group_by("model", maintain_order=True).agg(pl.col("tokens").unique().sort()).rows()
    sizes = "; ".join(f"{model}: {' and, where it says *whole*, '.join(f'{n:,}' for n in of)}" for model, of in tokens)
    lines = [
        INTRODUCTION.format(summary(table), machines, sizes),
        "",
        f"| measure | target | {' | '.join(f'{column(machine)}, {model}' for machine, model in columns)} |",
        "|---|---|" + "---|" * len(columns),
    ]
    for (measure,), rows in table.filter(pl.col("measure") != PRODUCT).group_by("measure", maintain_order=True):
        of = {(row["machine"], row["model"]): row for row in rows.iter_rows(named=True)}
        first = rows.row(0, named=True)
        target = "–" if first["target"] is None else f"{first['sign']} {first['target']:g}"
        lines.append(f"| {measure} | {target} | {' | '.join(cell(of[c]) if c in of else '' for c in columns)} |")
    return "\n".join(lines)


def column(machine: str) -> str:
    """Return a machine without its torch."""
    return machine.partition(", torch")[0]


def cell(row: dict[str, Any]) -> str:
    """Return a number with its unit and spread, in bold where it misses its target."""
    low, high, reached = (number(row[name]) for name in ("low", "high", "reached"))
    unit = "" if row["unit"] == "ratio" else f" {row['unit']}"
    mark = "**" if row["met"] is False else ""
    return f"{mark}{reached}{unit}{mark}" + (f" ({low}–{high})" if row["rounds"] > 1 else "")


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4g}"


def summary(table: pl.DataFrame) -> str:
    """Return the benchmark in a few plain sentences."""
    lines = []
    for name in table["machine"].unique(maintain_order=True):
        of_machine = table.filter(machine=name)
        judged = of_machine.filter(pl.col("met").is_not_null())
        whole, cached = (
            of_machine.filter(measure=measure)["reached"]
            for measure in ("per sentence / forward, whole", "hook and cache / ours")
        )
        if len(whole) and len(cached):
            lines.append(
                f"- On {column(name)}, the trigger pass over a long text takes {between(whole)} times as long as the "
                f"bare forward pass. Caching all activations takes {between(cached)} times as long as our pass. "
                f"We meet {judged['met'].sum()} of {len(judged)} targets."
            )
    return "\n".join(lines)


def between(values: pl.Series) -> str:
    low, high = (f"{end:.2f}" for end in (min(values.to_list()), max(values.to_list())))
    return low if low == high else f"{low} to {high}"

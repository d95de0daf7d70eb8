"""Make the `sensitivity` table: every claim under each choice."""

import polars as pl

from ff_memories.judge.wording import PAPERS, natural
from ff_memories.tables import TABLES

BASELINE = "baseline"  # the choice of the run's own claims


def rows(claims: pl.DataFrame, choice: str = BASELINE, value: str = "") -> pl.DataFrame:
    """Return a choice's rows, of the paper's claims: no choice varies the table that others rest on."""
    own = pl.col("claim").str.starts_with(PAPERS)
    named = claims.filter(own).with_columns(pl.lit(choice).alias("choice"), pl.lit(value).alias("value"))
    return named.select(*TABLES["sensitivity"].columns)


def refused(claims: pl.DataFrame, choice: str, value: str) -> pl.DataFrame:
    """Return the rows of a choice that a run refuses; no claim has a value."""
    none = {c: pl.lit(None, claims.schema[c]) for c in ("measured", "low", "high")}
    verdict = pl.lit("not_applicable", claims.schema["verdict"])
    return rows(claims.with_columns(verdict=verdict, **none), choice, value)


def changes(table: pl.DataFrame) -> pl.DataFrame:
    """Return each claim under each choice beside the run's own result, in order of claim and choice.

    Columns: ``claim``, ``choice``, ``value``, ``measured``, ``baseline``, ``change`` (relative to the baseline's size;
    null if either is missing), ``beyond`` (outside the baseline's 95 % interval; without an interval, whether it
    differs at all), ``verdict``, ``was``, ``refused`` (whether a run with the choice has no number at all), ``changed``
    (whether the verdicts differ, whatever their words, under a choice that is not refused).
    """
    own = table.filter(pl.col("choice") == BASELINE).select(
        "claim", baseline="measured", below="low", above="high", was="verdict"
    )
    measured, baseline = pl.col("measured"), pl.col("baseline")
    inside = measured.is_between(pl.col("below"), pl.col("above"))
    return (
        table.filter(pl.col("choice") != BASELINE)
        .join(own, on="claim", maintain_order="left")
        .with_columns(
            change=pl.when(measured == baseline)
            .then(0.0)
            .when(baseline != 0)
            .then((measured - baseline) / baseline.abs()),
            beyond=(~inside).fill_null(measured != baseline).fill_null(False),
            refused=measured.is_null().all().over("choice", "value"),
            order=pl.col("claim").map_elements(lambda claim: natural(claim)[2], return_dtype=pl.Int64),
        )
        .with_columns(changed=(pl.col("verdict") != pl.col("was")) & ~pl.col("refused"))
        .sort("order", "choice", "value", maintain_order=True)
        .drop("low", "high", "below", "above", "order")
    )

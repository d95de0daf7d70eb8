"""A text that was sampled from the run's own model: what must be said wherever a number on its next tokens stands."""

import polars as pl

from ff_memories.tables import SAMPLED

SAID = (
    "the text was sampled from the model, so next tokens are its own draws: agreement is higher than on text that "
    "people wrote"
)
CHECKS = frozenset(  # of claims on the tokens that follow triggers
    f"values.{name}"
    for name in (
        "near_zero_below",
        "peak_above",
        "contrast",
        "above_chance",
        "rank_improves",
        "rises_with_probability",
        "predictive_values_agree",
    )
)


def is_own(counts: pl.DataFrame) -> bool:
    """Return whether a run's text was sampled from its model, by the table `counts`."""
    return bool(counts.filter(pl.col("reason") == SAMPLED)["n"].sum())

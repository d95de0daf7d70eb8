"""Tables of section 4: what values predict, and whether it agrees with triggers."""

import polars as pl

from ff_memories.schema import KEY, LAYER, TOKEN, Column, Schema, both

FOLDED = {  # of models of `transformers`
    "agrees_folded": Column(pl.Boolean, null=True, optional=True),
    "agreeing_triggers_folded": Column(pl.UInt16, optional=True),
}
PREDICTED = {
    "top_token": Column(TOKEN),
    "top_probability": Column(pl.Float32, compared="probability"),
    "next_token_rank": Column(pl.UInt32, null=True),
    "agrees": Column(pl.Boolean, null=True),
    "agreeing_triggers": Column(pl.UInt16),
}

TABLES = {
    "values": Schema(
        about="E4-E7: every value's prediction, and how it compares with the tokens that follow its key's "
        "triggers; `folded` counts types that differ only in case and in blanks around them as one",
        by={"layer": LAYER, "key": KEY},
        fields={
            "top_token": PREDICTED["top_token"],
            "top_probability": PREDICTED["top_probability"],
            "next_token": Column(TOKEN, null=True),
            "next_token_rank": PREDICTED["next_token_rank"],
            "agrees": PREDICTED["agrees"],
            "agreeing_triggers": PREDICTED["agreeing_triggers"],
            "triggers": Column(pl.UInt16),
            **FOLDED,
            **both(PREDICTED | FOLDED),
        },
        measured=True,
        of_baselines=True,
    ),
    "projection_seeds": Schema(
        about="ranks of the top triggers' targets by layer, under the released script's random projections "
        "(`random`, one row per seed) and the model's own softmax (`adaptive`, seed 0); `moved` is the "
        "share of ranks that differ from the model's own, and the quartiles cover the `n_tail` targets "
        "outside the softmax's head",
        by={"projection": pl.Enum(["adaptive", "random"]), "seed": pl.UInt64, "layer": LAYER},
        fields={
            "n": Column(pl.UInt32, compared="statistic"),
            "agreement": Column(pl.Float64, compared="statistic"),
            "moved": Column(pl.Float64, compared="statistic"),
            "n_tail": Column(pl.UInt32, compared="statistic"),
            **dict.fromkeys(("q1", "median", "q3"), Column(pl.Float64, null=True, compared="statistic")),
        },
    ),
}

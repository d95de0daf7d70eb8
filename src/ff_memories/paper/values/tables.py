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
    )
}

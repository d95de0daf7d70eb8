"""Tables of section 4: what values predict, and whether it agrees with triggers."""

import polars as pl

from ff_memories.schema import KEY, LAYER, TOKEN, Column, Schema, both

FIELDS = {
    "top_token": Column(TOKEN),
    "top_probability": Column(pl.Float32, compared="probability"),
    "next_token": Column(TOKEN, null=True),
    "next_token_rank": Column(pl.UInt32, null=True),
    "agrees": Column(pl.Boolean, null=True),
    "agreeing_triggers": Column(pl.UInt16),
    "triggers": Column(pl.UInt16),
    "agrees_folded": Column(pl.Boolean, null=True, optional=True),  # of models of `transformers`, as the next
    "agreeing_triggers_folded": Column(pl.UInt16, optional=True),
}
OF_TRIGGERS = ("next_token", "triggers")  # columns that do not depend on ``values.types``

TABLES = {
    "values": Schema(
        about="E4-E7: every value's prediction, and how it compares with the tokens that follow its key's "
        "triggers; `folded` counts types that differ only in case and in blanks around them as one",
        by={"layer": LAYER, "key": KEY},
        fields=FIELDS | both({name: field for name, field in FIELDS.items() if name not in OF_TRIGGERS}),
        measured=True,
        of_baselines=True,
    )
}

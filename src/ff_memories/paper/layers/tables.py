"""Tables of section 5: how memories compose a layer, and how layers refine predictions."""

import polars as pl

from ff_memories.schema import EXAMPLE, LAYER, POSITION, SENTENCE, TOKEN, Column, Schema, both

KIND = pl.Enum(["residual", "agreement", "composition", "ffn"])

TABLES = {
    "examples": Schema(
        about="the validation prefixes on which the layers are observed (section 5)",
        by={"example": EXAMPLE},
        fields={
            "sentence": Column(SENTENCE),
            "position": Column(POSITION),
            "next_token": Column(TOKEN, null=True),
            "model_top": Column(TOKEN),
        },
        measured=True,
        of_baselines=True,
    ),
    "composition": Schema(
        about="E8-E10: how many memories are active, and how many agree with their layer's prediction; "
        "`effective` is the participation ratio of their energies",
        by={"example": EXAMPLE, "layer": LAYER},
        fields={
            "active": Column(pl.UInt16),
            "ffn_top": Column(TOKEN),
            "output_top": Column(TOKEN),
            "agreeing_memories": Column(pl.UInt16),
            "effective": Column(pl.Float32, optional=True, compared="probability"),
            **both({"agreeing_memories": Column(pl.UInt16)}),
        },
        measured=True,
        of_baselines=True,
    ),
    "agreeing": Schema(
        about="E10 by layer: how often stop words and short prefixes occur when some memory agrees, and in all cases",
        by={"layer": LAYER},
        fields={
            "pairs": Column(pl.UInt32),
            "agreeing": Column(pl.UInt32),
            "agreeing_stop_word": Column(pl.Float64, null=True),
            "every_stop_word": Column(pl.Float64),
            "agreeing_next_stop_word": Column(pl.Float64, null=True),
            "every_next_stop_word": Column(pl.Float64, null=True),
            "agreeing_short": Column(pl.Float64, null=True),
            "every_short": Column(pl.Float64),
        },
        compared="follows",
    ),
    "refinement": Schema(
        about="E11-E13: the predictions of the residual, the feed-forward and the output at every layer",
        by={"example": EXAMPLE, "layer": LAYER},
        fields={
            "residual_top": Column(TOKEN),
            "ffn_top": Column(TOKEN),
            "output_top": Column(TOKEN),
            "model_top": Column(TOKEN),
            "residual_probability": Column(pl.Float32, compared="probability"),
            "kind": Column(KIND),
        },
        measured=True,
        of_baselines=True,
    ),
}

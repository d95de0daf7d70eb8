"""What the paper's released code computes; only with `fidelity: released`, or on request."""

import polars as pl

from ff_memories.tables.schema import EXAMPLE, LAYER, PROBABILITY, STATISTIC, TOKEN, Column, Schema

TABLES = {
    "released_layer": Schema(
        about="the released code's 'layer' columns, with its names; only with `fidelity: released`",
        by={"example": EXAMPLE, "layer": LAYER},
        fields={
            "layer_output_argmax": Column(TOKEN),
            "layer_output_argmax_prob": Column(pl.Float32, compared=PROBABILITY),
            "residual_argmax": Column(TOKEN),
            "residual_argmax_prob": Column(pl.Float32, compared=PROBABILITY),
            "residual_argmax_change": Column(pl.UInt8),
            "residual_output_rank": Column(pl.UInt32),
            "residual_output_prob": Column(pl.Float32, compared=PROBABILITY),
            "ffn_matching_dims_count": Column(pl.UInt32),
            "ffn_output_rank": Column(pl.UInt32),
            "ffn_output_prob": Column(pl.Float32, compared=PROBABILITY),
            "ffn_residual_output_rank": Column(pl.UInt32),
            "ffn_residual_output_prob": Column(pl.Float32, compared=PROBABILITY),
            "ffn_argmax": Column(TOKEN),
            "ffn_argmax_prob": Column(pl.Float32, compared=PROBABILITY),
            "coeffs_l0": Column(pl.UInt32),
            "coeffs_residual_rank": Column(pl.UInt32),
        },
    ),
    "released_dim": Schema(
        about="the released code's 'dim' columns of the last layer; key d_m is the residual; only with "
        "`fidelity: released`",
        by={"example": EXAMPLE, "layer": LAYER, "key": pl.UInt32},
        fields={
            "coeffs_vals": Column(pl.Float32, compared=PROBABILITY),
            "dim_pattern_preds": Column(TOKEN),
            "dim_pattern_output_rank": Column(pl.UInt32),
            "dim_pattern_ffn_output_rank": Column(pl.UInt32, null=True),
            "dim_pattern_ffn_output_prob": Column(pl.Float32, null=True, compared=PROBABILITY),
        },
    ),
    "projection_seeds": Schema(
        about="ranks of the top triggers' targets by layer, under the released script's random projections "
        "(`random`, one row per seed) and the model's own softmax (`adaptive`, seed 0); `moved` is the "
        "share of ranks that differ from the model's own, and the quartiles cover the `n_tail` targets "
        "outside the softmax's head",
        by={"projection": pl.Enum(["adaptive", "random"]), "seed": pl.UInt64, "layer": LAYER},
        fields={
            "n": Column(pl.UInt32, compared=STATISTIC),
            "agreement": Column(pl.Float64, compared=STATISTIC),
            "moved": Column(pl.Float64, compared=STATISTIC),
            "n_tail": Column(pl.UInt32, compared=STATISTIC),
            "q1": Column(pl.Float64, null=True, compared=STATISTIC),
            "median": Column(pl.Float64, null=True, compared=STATISTIC),
            "q3": Column(pl.Float64, null=True, compared=STATISTIC),
        },
    ),
}

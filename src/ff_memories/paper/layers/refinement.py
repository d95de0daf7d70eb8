"""E13, section 5.2, Figure 11: whose prediction a layer's output takes over."""

import polars as pl


def kinds() -> pl.Expr:
    """Return the kind of every row with ``residual_top``, ``ffn_top`` and ``output_top``.

    ``residual``: the output predicts what the residual does and the feed-forward does not. ``agreement``: all three
    predict the same. ``ffn``: the output takes over the feed-forward's prediction. ``composition``: the output
    predicts something else than either, the rare case included that both agreed with each other.
    """
    residual, ffn, output = pl.col("residual_top"), pl.col("ffn_top"), pl.col("output_top")
    return (
        pl.when((output == residual) & (output == ffn))
        .then(pl.lit("agreement"))
        .when(output == residual)
        .then(pl.lit("residual"))
        .when(output == ffn)
        .then(pl.lit("ffn"))
        .otherwise(pl.lit("composition"))
    )

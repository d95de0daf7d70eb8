"""The 'layer' and 'dim' columns as the released code's data frames: one row per sentence, lists in most columns."""

import polars as pl

from ff_memories.memories.released import LAYER_COLUMNS

DIM_COLUMNS = ("coeffs_vals", "dim_pattern_preds", "dim_pattern_output_rank")  # one number per dimension, one more
DIM_FFN_COLUMNS = ("dim_pattern_ffn_output_rank", "dim_pattern_ffn_output_prob")  # one per dimension
PAIRS = ("output_rank", "output_prob", "argmax", "argmax_prob")  # of the residual and of the feed-forward


def _sentences(examples: pl.DataFrame, texts: dict[int, str]) -> pl.DataFrame:
    examples = examples.sort("example")
    return examples.select(
        "example",
        pl.Series("text", [texts[s] for s in examples["sentence"]], dtype=pl.String),
        pl.col("position").alias("random_pos"),
    )


def layer_frame(released: pl.DataFrame, examples: pl.DataFrame, texts: dict[int, str]) -> pl.DataFrame:
    """Return ``text``, ``random_pos`` and every column of ``released_layer`` as a list from the first layer on."""
    lists = released.sort("example", "layer").group_by("example", maintain_order=True).agg(LAYER_COLUMNS)
    joined = _sentences(examples, texts).join(lists, on="example", maintain_order="left")
    return joined.select("text", *LAYER_COLUMNS, "random_pos")


def dim_frame(
    released: pl.DataFrame, dims: pl.DataFrame, examples: pl.DataFrame, texts: dict[int, str]
) -> pl.DataFrame:
    """Return the last layer's columns: lists over its dimensions, and pairs of residual and feed-forward."""
    last = released.filter(pl.col("layer") == pl.col("layer").max())
    pairs = last.select(
        "example",
        *(pl.concat_list(f"residual_{name}", f"ffn_{name}").alias(f"residual_ffn_{name}") for name in PAIRS),
        "ffn_residual_output_rank",
        "ffn_residual_output_prob",
    )
    lists = dims.sort("example", "key").group_by("example", maintain_order=True)
    per_dim = lists.agg(*DIM_COLUMNS, *(pl.col(name).drop_nulls() for name in DIM_FFN_COLUMNS))
    joined = _sentences(examples, texts)
    for part in (pairs, per_dim):
        joined = joined.join(part, on="example", maintain_order="left")
    return joined.select("text", *pairs.columns[1:], *per_dim.columns[1:], "random_pos")

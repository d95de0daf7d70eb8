"""Arrange the 'layer' and 'dim' columns as the released code's data frames: one row per sentence, mostly lists."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from contrib.released_code.columns import LAYER_COLUMNS
from ff_memories.base.errors import UserError, with_extra
from ff_memories.base.files import atomic_write

PAIRS = ("output_rank", "output_prob", "argmax", "argmax_prob")  # of the residual and the feed-forward
# one number per dimension; the first two and the coefficients have one more, for the residual
DIM_COLUMNS = (
    "dim_pattern_preds",
    "dim_pattern_output_rank",
    "dim_pattern_ffn_output_rank",
    "dim_pattern_ffn_output_prob",
    "coeffs_vals",
)
FORMATS = (".parquet", ".jsonl", ".pkl")
Arrangement = Callable[[pl.DataFrame, pl.DataFrame, pl.DataFrame, dict[int, str], np.ndarray | None], pl.DataFrame]


def _sentences(examples: pl.DataFrame, texts: dict[int, str], distributions: np.ndarray | None) -> pl.DataFrame:
    """Return ``text``, ``random_pos`` and, if given, ``output_dist_vals`` by ``example``."""
    text = pl.Series("text", [texts[s] for s in examples["sentence"]], dtype=pl.String)
    frame = examples.select("example", text, pl.col("position").alias("random_pos"))
    if distributions is not None:
        lists = pl.Series("output_dist_vals", distributions).cast(pl.List(pl.Float32))
        frame = frame.with_columns(lists)
    return frame


def _ordered(frame: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    first = [name for name in ("text", "output_dist_vals") if name in frame.columns]
    return frame.select(*first, *columns, "random_pos")


def layer_frame(
    layers: pl.DataFrame,
    dims: pl.DataFrame,
    examples: pl.DataFrame,
    texts: dict[int, str],
    distributions: np.ndarray | None,
) -> pl.DataFrame:
    """Return the released 'layer' frame: every 'layer' column as a list over layers.

    Args:
        layers, dims: of ``columns.columns``.
        examples: the ``examples`` table, which sets the order of rows.
        texts: the sentences' texts.
        distributions: (examples, vocab) the model's output, for ``output_dist_vals``.
    """
    lists = layers.sort("example", "layer").group_by("example", maintain_order=True).agg(LAYER_COLUMNS)
    frame = _sentences(examples.sort("example"), texts, distributions)
    return _ordered(frame.join(lists, on="example", maintain_order="left"), list(LAYER_COLUMNS))


def dim_frame(
    layers: pl.DataFrame,
    dims: pl.DataFrame,
    examples: pl.DataFrame,
    texts: dict[int, str],
    distributions: np.ndarray | None,
) -> pl.DataFrame:
    """Return the released 'dim' frame of the last layer: lists over dimensions, and (residual, ffn) pairs.

    Args: as of ``layer_frame``.
    """
    last = layers.filter(pl.col("layer") == pl.col("layer").max())
    pairs = last.select(
        "example",
        *(pl.concat_list(f"residual_{name}", f"ffn_{name}").alias(f"residual_ffn_{name}") for name in PAIRS),
        "ffn_residual_output_rank",
        "ffn_residual_output_prob",
    )
    lists = dims.sort("example", "key").group_by("example", maintain_order=True)
    per_dim = lists.agg(pl.col(name).drop_nulls() for name in DIM_COLUMNS)
    frame = _sentences(examples.sort("example"), texts, distributions)
    for part in (pairs, per_dim):
        frame = frame.join(part, on="example", maintain_order="left")
    return _ordered(frame, [*pairs.columns[1:], *DIM_COLUMNS])


def check_name(path: str | Path) -> None:
    """Raise ``UserError`` if a file's suffix names no format."""
    if (suffix := Path(path).suffix) not in FORMATS:
        raise UserError(f"{path}: expected the suffix {' or '.join(FORMATS)}, found {suffix or 'none'}")


def write(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a data frame in the format of the suffix: ``.parquet``, ``.jsonl`` or, as in released code, ``.pkl``."""
    suffix = Path(path).suffix
    with atomic_write(path) as partial:
        if suffix == ".parquet":
            frame.write_parquet(partial)
        elif suffix == ".jsonl":
            frame.write_ndjson(partial)
        else:
            try:
                import pandas
            except ImportError:
                raise UserError(f"{path}: pandas, which writes .pkl, is not installed", with_extra("pickle")) from None
            made = pandas.DataFrame(frame.to_dicts(), columns=frame.columns)
            made.astype({"text": object}).to_pickle(partial)  # older versions of pandas have no string type

"""A key's memory coefficient after every token of its triggers: the tables `shading` (exact) and `levels` (in steps).

Each sentence runs once for all keys that it triggers, no further than its last trigger and no deeper than their
highest layer.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl
import torch

from ff_memories.base.parameters import Shard, share
from ff_memories.corpus.store import Corpus
from ff_memories.model.batches import batching
from ff_memories.model.decoder import LanguageModel, signed_coefficients
from ff_memories.tables.gallery import TOP_LEVEL


def table(decoder: LanguageModel, corpus: Corpus, triggers: pl.DataFrame, batch_tokens: int) -> pl.DataFrame:
    """Return the ``shading`` table of the given rows of ``triggers``: a row per trigger and token of its prefix."""
    flat, starts = prefix_coefficients(decoder, corpus, triggers, batch_tokens)
    lengths = np.diff(starts)
    row = np.repeat(np.arange(len(triggers)), lengths)
    inside = np.arange(len(flat)) - np.repeat(starts[:-1], lengths)
    columns = triggers.select("layer", "key", "rank")[row]
    return columns.with_columns(pl.Series("position", inside + 1), pl.Series("coefficient", flat))


def levels(along: pl.DataFrame, triggers: pl.DataFrame) -> pl.DataFrame:
    """Return the ``levels`` table of rows of ``table``; the coefficient of a key's first trigger is its largest."""
    best = triggers.filter(pl.col("rank") == 1).select("layer", "key", pl.col("coefficient").alias("best"))
    share = pl.col("coefficient").cast(pl.Float64) / pl.col("best")
    level = (share * TOP_LEVEL).round().clip(0, TOP_LEVEL).cast(pl.UInt8).alias("level")
    return along.join(best, on=["layer", "key"], how="left", maintain_order="left").select(
        "layer", "key", "rank", "position", level
    )


def of_shard(triggers: pl.DataFrame, batch_tokens: int, shard: Shard) -> pl.DataFrame:
    """Return a shard's rows of those of ``table``: whole batches, which run as they would with all."""
    sequences = _sequences(triggers)
    batches = [np.zeros(0, np.int64), *share(list(_batches(sequences, batch_tokens)), shard)]
    kept = sequences["sentence"].gather(np.concatenate(batches))
    return triggers.filter(pl.col("sentence").is_in(kept.implode()))


def _sequences(triggers: pl.DataFrame) -> pl.DataFrame:
    """Return what runs for some triggers, deepest first: ``sequence``, ``sentence``, ``length``, ``depth``."""
    return (
        triggers.filter(pl.col("position") > 0)
        .group_by("sentence")
        .agg(pl.col("position").max().cast(pl.Int64).alias("length"), pl.col("layer").max().alias("depth"))
        .sort("depth", "length", "sentence", descending=[True, False, False])
        .with_row_index("sequence")
    )


def _batches(sequences: pl.DataFrame, batch_tokens: int) -> Iterator[np.ndarray]:
    """Yield the sequences of each batch. All have one depth, so a batch stops where all its sequences stop."""
    lengths, depth = sequences["length"].to_numpy(), sequences["depth"].to_numpy()
    for layer in np.unique(depth)[::-1]:
        yield from batching.sequences(lengths, np.flatnonzero(depth == layer), batch_tokens)


def prefix_coefficients(
    decoder: LanguageModel, corpus: Corpus, triggers: pl.DataFrame, batch_tokens: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return each trigger's coefficients after w_1, ..., w_j.

    Args:
        triggers: rows with ``layer``, ``key``, ``sentence`` and ``position`` (the prefix's length j).
        batch_tokens: rows of one forward pass.

    Returns:
        (tokens,) float32, all triggers one after the other, and (triggers + 1,) int64 where each one starts.
    """
    starts = np.concatenate([[0], triggers["position"].cast(pl.Int64).to_numpy().cumsum()]).astype(np.int64)
    out = np.zeros(starts[-1], dtype=np.float32)
    sequences = _sequences(triggers)
    rows = triggers.with_row_index("row").join(sequences.select("sentence", "sequence"), on="sentence")
    rows = rows.filter(pl.col("position") > 0).sort("sequence", "row")
    read = {name: rows[name].to_numpy().astype(np.int64) for name in ("row", "layer", "key", "position", "sequence")}
    lengths, depth, sentence = (sequences[name].to_numpy() for name in ("length", "depth", "sentence"))
    work = (lengths + 1) * depth.astype(np.int64)

    def run(part: np.ndarray) -> None:
        """Run sentences up to their layer and put the coefficients of their triggers' keys where they belong."""
        batch = decoder.pack([corpus.sentence(sentence[i])[: lengths[i]] for i in part])
        begin, _ = batch.sentences()
        x, deepest = decoder.embed(batch), int(depth[part[0]])
        own = slice(*np.searchsorted(read["sequence"], [part[0], part[-1] + 1]))
        row_of, layer_of, key_of, count_of, sequence_of = (a[own] for a in read.values())
        for number, block in enumerate(decoder.layers[:deepest], 1):
            activations = block(x, batch, last=number == deepest)
            here = np.flatnonzero(layer_of == number)
            if len(here):
                count = count_of[here]
                inside = np.arange(count.sum()) - np.repeat(count.cumsum() - count, count)
                row = np.repeat(begin[sequence_of[here] - part[0]] + 1, count) + inside
                pick = torch.from_numpy(np.stack([row, np.repeat(key_of[here], count)])).to(decoder.device)
                out[np.repeat(starts[row_of[here]], count) + inside] = (
                    signed_coefficients(activations.coefficients, pick[0], pick[1]).cpu().numpy()
                )
            x = activations.output

    batches = _batches(sequences, batch_tokens)
    batching.run_batches(run, batches, "token layers", "shading", amount=work)
    return out, starts

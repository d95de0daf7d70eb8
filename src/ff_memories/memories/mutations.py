"""E3, section 3.2, Figure 3: what removing the first, the last or a random token does to a trigger's coefficient.

A prefix w_1..w_j without its token u, read at its last position, is a row of the sentence without its token u: all
triggers of a sentence that lose the same token share one run, and removing the last token is the sentence itself, read
one position earlier. Every run stops at the highest layer that is read in it.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

from ff_memories.corpus.store import Corpus
from ff_memories.memories import plan
from ff_memories.model.decoder import Batch, Decoder
from ff_memories.progress import Progress
from ff_memories.seeding import generator

NOTHING = 0  # `removed` of the sentence as it is


@dataclass
class Sample:
    """Which triggers are mutated, and what was left out: rows of the ``mutations`` table without ``mutated``."""

    rows: pl.DataFrame
    counts: dict[str, int]


def sample_keys(triggers: pl.DataFrame, layers: int, keys: int, per_layer: int, seed: int) -> pl.DataFrame:
    """Draw keys with triggers that can be mutated, ``per_layer`` of each layer without replacement: ``layer``, ``key``.

    Other keys are passed over, as if drawn again; layers with fewer keys give all of them.
    """
    rng = generator(seed, "mutation keys")
    fires = set(triggers.select("layer", "key").unique().iter_rows())
    drawn = []
    for layer in range(1, layers + 1):
        order = [int(key) for key in rng.permutation(keys) if (layer, int(key)) in fires]
        drawn += [(layer, key) for key in sorted(order[:per_layer])]
    return pl.DataFrame(drawn, schema={"layer": pl.UInt8, "key": pl.UInt16}, orient="row")


def sample(
    triggers: pl.DataFrame, layers: int, keys: int, *, keys_per_layer: int, top: int, random: str,
    single_token: str, seed: int,
) -> Sample:  # fmt: skip
    """Choose keys, triggers and the tokens to remove.

    Args:
        triggers: the ``triggers`` table.
        layers, keys: L and d_m.
        keys_per_layer, top: keys of each layer, and triggers of each key.
        random: ``any`` of the prefix's tokens, or ``inner``: neither the first nor the last.
        single_token: ``skip`` prefixes of one token, or ``bos``: read the coefficient at ``</s>``.
        seed: of keys and random tokens.
    """
    shortest = 2 if single_token == "skip" else 1
    shown = triggers.filter(pl.col("rank") <= top)
    mutable = shown.filter(pl.col("position") >= shortest)
    chosen = sample_keys(mutable, layers, keys, keys_per_layer, seed)
    rows = shown.join(chosen, on=["layer", "key"]).sort("layer", "key", "rank")
    counts = {
        "keys_without_triggers": layers * keys - triggers.select("layer", "key").unique().height,
        "keys_without_mutable_prefix": shown.join(mutable, on=["layer", "key"], how="anti")
        .select("layer", "key")
        .n_unique(),
        "keys_missing": layers * keys_per_layer - len(chosen),
        "prefixes_of_no_token": rows.filter(pl.col("position") == 0).height,
        "prefixes_of_one_token": rows.filter(pl.col("position") == 1).height,
    }
    rows = rows.filter(pl.col("position") >= shortest)
    length = rows["position"].cast(pl.Int64).to_numpy()
    draw = generator(seed, "mutation tokens").random(len(rows))
    if random == "any":
        removed = 1 + np.floor(draw * length).astype(np.int64)
    else:
        removed = np.where(length > 2, 2 + np.floor(draw * (length - 2)).astype(np.int64), 0)
    counts["prefixes_without_inner_token"] = int((removed == 0).sum())
    plain = rows.select("layer", "key", "rank", "coefficient", "sentence", pl.col("position").cast(pl.Int64))
    parts = [
        plain.with_columns(pl.lit(name).alias("mutation"), pl.Series("removed", token, dtype=pl.Int64))
        for name, token in (("first", np.ones_like(length)), ("last", length), ("random", removed))
    ]
    return Sample(pl.concat(parts).filter(pl.col("removed") > 0).sort("layer", "key", "rank", "mutation"), counts)


def mutated_coefficients(decoder: Decoder, corpus: Corpus, rows: pl.DataFrame, batch_tokens: int) -> np.ndarray:
    """Return the memory coefficient (rows,) float32 of every mutated trigger at its last position.

    Args:
        rows: ``layer``, ``key``, ``sentence``, ``position`` (the prefix's length j) and ``removed`` (1-based).
    """
    if rows.is_empty():
        return np.zeros(0, dtype=np.float32)
    last = pl.col("removed") == pl.col("position")
    runs = rows.with_row_index("row").select(
        "row", "layer", "key", "sentence",
        (pl.col("position") - 1).alias("read"),
        pl.when(last).then(NOTHING).otherwise("removed").alias("removed"),
    )  # fmt: skip
    sequences = (
        runs.group_by("sentence", "removed")
        .agg(pl.col("read").max().alias("length"), pl.col("layer").max().alias("depth"))
        .sort("depth", "length", "sentence", "removed", descending=[True, False, False, False])
        .with_row_index("sequence")
    )
    runs = runs.join(sequences.select("sequence", "sentence", "removed"), on=["sentence", "removed"]).sort("sequence")
    out = np.empty(len(rows), dtype=np.float32)
    reads = {name: runs[name].to_numpy() for name in ("row", "layer", "key", "read", "sequence")}
    lengths, depth = sequences["length"].to_numpy(), sequences["depth"].to_numpy()
    sentence, removed = sequences["sentence"].to_numpy(), sequences["removed"].to_numpy()

    def tokens(index: int) -> np.ndarray:
        whole = corpus.sentence(sentence[index])
        if removed[index] != NOTHING:
            whole = np.delete(whole, removed[index] - 1)
        return whole[: lengths[index]]

    work = int(((lengths + 1) * depth.astype(np.int64)).sum())
    with torch.inference_mode(), Progress(work, "token layers", "mutations") as progress:
        for layer in np.unique(depth)[::-1]:  # runs of one depth together: a batch stops where all its runs stop
            members = np.flatnonzero(depth == layer)
            for part in plan.sequences(lengths, members, batch_tokens):
                first, end = np.searchsorted(reads["sequence"], [part[0], part[-1] + 1])
                own = slice(first, end)
                out[reads["row"][own]] = _read(
                    decoder, [tokens(i) for i in part], int(layer),
                    reads["sequence"][own] - part[0], reads["read"][own], reads["layer"][own], reads["key"][own],
                )  # fmt: skip
                progress.step(int((lengths[part] + 1).sum()) * int(layer))
    return out


def _read(decoder: Decoder, sentences, depth: int, sequence, position, layer, key) -> np.ndarray:
    """Run sentences up to layer ``depth``; return the coefficients of (sequence, position, layer, key)."""
    batch = Batch.pack(sentences, decoder.device)
    starts = np.concatenate([[0], np.cumsum([len(s) + 1 for s in sentences])[:-1]])
    row = torch.from_numpy(starts[sequence] + position).to(decoder.device)
    key = torch.from_numpy(key.astype(np.int64)).to(decoder.device)
    out = torch.empty(len(row), device=decoder.device)
    x = decoder.embed(batch)
    for index in range(depth):
        block = decoder.layers[index]
        residual = block.attend(x, batch)
        here = torch.from_numpy(np.flatnonzero(layer == index + 1)).to(decoder.device)
        if index + 1 < depth:
            coefficients = block.coefficients(residual)
            out[here] = coefficients[row[here], key[here]]
            x = residual + block.combine(coefficients)
        else:  # of the last layer only the rows that are read
            needed, place = torch.unique(row[here], return_inverse=True)
            out[here] = block.coefficients(residual[needed])[place, key[here]]
    return out.cpu().numpy()


def table(rows: pl.DataFrame, mutated: np.ndarray) -> pl.DataFrame:
    """Return the ``mutations`` table: ``change`` = mutated / coefficient − 1, at least −1."""
    ratio = pl.col("mutated").cast(pl.Float64) / pl.col("coefficient").cast(pl.Float64) - 1
    return rows.with_columns(pl.Series("mutated", mutated)).select(
        "layer", "key", "rank", "mutation", "removed", "coefficient", "mutated", ratio.alias("change")
    )

"""Measure how the released script's projections, never loaded, and its dropout change ranks, by the seed of both.

The CSV has the ranks of the top triggers' targets by layer, under random projections (`random`, a row per seed) and the
model's own softmax (`adaptive`, seed 0). `moved` is the share of ranks that differ from the model's own; the quartiles
cover the `n_tail` targets outside the softmax's head.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import torch
from torch import nn

from ff_memories import config, tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import whole
from ff_memories.base.progress import Progress
from ff_memories.declaration import add_options, execution
from ff_memories.model.decoder import Decoder
from ff_memories.model.loading import load_decoder
from ff_memories.model.vocabulary import Vocabulary

QUARTILES = {"q1": 0.25, "median": 0.5, "q3": 0.75}
FULL = 64  # distributions over the whole vocabulary held at once
DROPOUT = 0.2  # of the script's softmax, on what the tails' projections give


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", required=True, type=Path, help="the run's config file")
    parser.add_argument("--weights", required=True, type=Path, help="model.safetensors")
    parser.add_argument("--description", required=True, type=Path, help="model.json")
    parser.add_argument("--values", required=True, help="the run's table values, for each value's target token")
    parser.add_argument(
        "--seeds", type=whole(), default=20, help="number of seeds, starting at values.projection_seed; default: 20"
    )
    add_options(parser)
    parser.add_argument("--out", required=True, help="file to write: .csv")


def run(args: argparse.Namespace) -> None:
    first, values = config.load(args.config).values.projection_seed, tables.read(args.values)
    decoder = load_decoder(args.weights, args.description, execution(args))
    if decoder.vocabulary.classes is None:
        raise UserError("the model's softmax has no projections to draw", "use a model with an adaptive softmax")
    write_whole(args.out, rank_table(decoder, values, range(first, first + args.seeds)).write_csv())


def masks(state: torch.Tensor, shapes: list[tuple[int, int]]) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Return the dropout factors of one layer's values, (values, d_k) for each tail, and the state afterwards."""
    with torch.random.fork_rng(devices=[]):  # torch's own generator stays as it was
        torch.default_generator.set_state(state)
        factors = [nn.functional.dropout(torch.ones(shape), DROPOUT, training=True) for shape in shapes]
        return factors, torch.default_generator.get_state()


def distributions(
    vocabulary: Vocabulary, values: torch.Tensor, factors: list[torch.Tensor]
) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield (first value, log p (values, vocab)) of an adaptive softmax with dropout on its tails' projections.

    Args:
        vocabulary: the model's output layer, with an adaptive softmax.
        values: (d_m, d).
        factors: (d_m, d_k) for each tail: 0 for dropped entries, the scale for the others.
    """
    head, *tails = vocabulary.clusters
    if vocabulary.classes is None:
        raise ValueError("no adaptive softmax")
    for start in range(0, len(values), FULL):
        h = values[start : start + FULL]
        logits = torch.cat([head.inner(h) @ head.embedding.T, h @ vocabulary.classes.T], 1)
        words, classes = torch.log_softmax(logits, 1).split([head.size, len(tails)], 1)
        log_probabilities = [words]
        for k, tail in enumerate(tails):
            inner = tail.inner(h) * factors[k][start : start + FULL].to(h.device, h.dtype)
            log_probabilities.append(torch.log_softmax(inner @ tail.embedding.T, 1) + classes[:, k, None])
        yield start, torch.cat(log_probabilities, 1)


def predictions(
    vocabulary: Vocabulary, values: torch.Tensor, state: torch.Tensor, which: torch.Tensor, ids: torch.Tensor
) -> tuple[list[int], list[float], list[int], torch.Tensor]:
    """Return one layer's top tokens, their probabilities, the ranks of given tokens, and the generator's new state.

    Args:
        vocabulary: a ``random`` reading.
        values: (d_m, d) values of the layer.
        state: the state of torch's generator before this layer's dropout.
        which, ids: (n,) pairs of a value and the token to rank in its distribution.
    """
    factors, state = masks(state, [(len(values), c.embedding.shape[1]) for c in vocabulary.clusters[1:]])
    tops, maxima, ranks = [], [], torch.zeros_like(which)
    for start, logp in distributions(vocabulary, values, factors):
        value, token = logp.max(1)
        tops += token.tolist()
        maxima += value.exp().tolist()
        here = ((which >= start) & (which < start + len(logp))).nonzero().squeeze(1)
        for part in here.split(FULL):
            distribution = logp[which[part] - start]
            ranks[part] = (distribution > distribution.gather(1, ids[part, None])).sum(1)
    return tops, maxima, ranks.tolist(), state


def rank_table(decoder: Decoder, values: pl.DataFrame, seeds: range) -> pl.DataFrame:
    """Return the ranks of the top triggers' targets, seed by seed.

    Args:
        decoder: a model with an adaptive softmax.
        values: the ``values`` table, for each key's target token.
        seeds: seeds of the projections and the dropout.
    """
    wanted = values.filter(pl.col("next_token").is_not_null()).sort("layer", "key")
    parts, trained, head = [], {}, decoder.vocabulary.clusters[0].size
    with torch.inference_mode(), Progress(len(seeds) + 1, "readings", "projection seeds") as progress:
        for seed in (None, *seeds):
            vocabulary = decoder.vocabulary if seed is None else decoder.vocabulary.reading("random", seed)
            state = vocabulary.generator_state
            for layer, block in enumerate(decoder.layers, 1):
                rows = wanted.filter(pl.col("layer") == layer)
                which, ids = (
                    torch.from_numpy(rows[c].to_numpy().astype("int64")).to(decoder.device)
                    for c in ("key", "next_token")
                )
                if state is None:
                    trained[layer] = ranks = vocabulary.predict(block.values[which], ids).target_rank.tolist()
                else:
                    *_, ranks, state = predictions(vocabulary, block.values, state, which, ids)
                frame = rows.select("next_token", rank=pl.Series(ranks), trained=pl.Series(trained[layer]))
                parts.append(_summary(layer, seed, frame, head))
            progress.step(1)
    return pl.concat(part for part in parts if part["n"].item())


def _summary(layer: int, seed: int | None, ranks: pl.DataFrame, head: int) -> pl.DataFrame:
    tail, rank = pl.col("next_token") >= head, pl.col("rank")
    return ranks.select(
        pl.lit("adaptive" if seed is None else "random").alias("projection"),
        pl.lit(seed or 0).alias("seed"),
        pl.lit(layer).alias("layer"),
        pl.len().alias("n"),
        (rank == 0).mean().alias("agreement"),
        (rank != pl.col("trained")).mean().alias("moved"),
        tail.sum().alias("n_tail"),
        *(rank.filter(tail).quantile(at, "linear").alias(name) for name, at in QUARTILES.items()),
    )

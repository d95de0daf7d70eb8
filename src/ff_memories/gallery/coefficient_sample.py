"""Every key's coefficients in a random sample of the training text: the tables `histogram` and `samples`.

Triggers are the extreme of a key's coefficients. The sample shows the rest: how they spread, and prefixes on which the
key fires less.
"""

import numpy as np
import polars as pl
import torch

from ff_memories.base.draws import generator
from ff_memories.base.parameters import WHOLE, Shard, share
from ff_memories.corpus.store import POSITIONS, Corpus, available
from ff_memories.model.batches import batching
from ff_memories.model.decoder import LanguageModel
from ff_memories.tables import concat
from ff_memories.tables.gallery import HISTOGRAM_BINS as BINS

PERCENTILES = (25, 50, 75, 95)
HELD = 1 << 27  # coefficients held at once, if those of a layer are no more; the text runs again for the others
KEYS = 128  # counted at once


def tables(
    decoder: LanguageModel,
    corpus: Corpus,
    triggers: pl.DataFrame,
    n: int,
    positions: str,
    seed: int,
    batch_tokens: int,
    shard: Shard = WHOLE,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return `histogram` and `samples` of the keys that have ``triggers``, whose first ends a key's histogram.

    ``n`` sentences with a prefix (``positions``: ``POSITIONS``) are drawn. ``shard``: of groups of layers, a pass each.
    """
    best = triggers.filter(pl.col("rank") == 1).select("layer", "key", "coefficient").sort("layer", "key")
    of_layer = {layer: part for (layer,), part in best.group_by("layer", maintain_order=True)}
    sample = _Sample(corpus, drawn(corpus, n, positions, seed), positions)
    neurons = decoder.description.keys
    asked = {layer: np.unique(part["key"].to_numpy() % neurons) for layer, part in of_layer.items()}
    most = max(map(len, asked.values()), default=0)
    at_once = max(1, HELD // max(1, len(sample.sentence) * most))
    histogram, samples = [], []
    layers = sorted(of_layer) if len(sample.sentence) else []
    for group in share([layers[i : i + at_once] for i in range(0, len(layers), at_once)], shard):
        by_layer = sample.coefficients(decoder, {layer: asked[layer] for layer in group}, batch_tokens)
        for layer, coefficients in by_layer.items():
            for part in of_layer[layer].iter_slices(KEYS):
                keys, top = (part[name].to_numpy() for name in ("key", "coefficient"))
                m = coefficients[:, np.searchsorted(asked[layer], keys % neurons)].T.copy()
                m[keys >= neurons] *= -1
                number = pl.lit(layer, pl.Int64).alias("layer")
                histogram.append(_histogram(keys, top, m).with_columns(number))
                samples.append(_samples(keys, m, sample.sentence, sample.position).with_columns(number))
    return concat("histogram", histogram), concat("samples", samples)


def drawn(corpus: Corpus, n: int, positions: str, seed: int) -> np.ndarray:
    """Return (at most n,) training sentences that have a prefix, ascending; a smaller draw is part of a larger."""
    able = np.flatnonzero(available(corpus, positions))
    return np.sort(generator(seed, "coefficient sample").permutation(able)[:n])


class _Sample:
    """The prefixes (P,) of some sentences: ``sentence`` and ``position``, in the order of the text."""

    def __init__(self, corpus: Corpus, sentences: np.ndarray, positions: str):
        self.low, high = POSITIONS[positions]
        self.texts = [corpus.sentence(sentence)[: None if high == 0 else high] for sentence in sentences]
        counts = np.array([len(text) + 1 - self.low for text in self.texts], np.int64)
        self.starts = counts.cumsum() - counts
        self.sentence = np.repeat(sentences, counts)
        self.position = np.arange(counts.sum()) - np.repeat(self.starts, counts) + self.low

    def coefficients(
        self, decoder: LanguageModel, asked: dict[int, np.ndarray], batch_tokens: int
    ) -> dict[int, np.ndarray]:
        """Return (P, k) float32 of some memories of some layers; the sentences run no deeper than the last of them.

        Args:
            asked: {layer: (k,) memories}, ascending.
        """
        out = {layer: np.empty((len(self.sentence), len(memories)), np.float32) for layer, memories in asked.items()}
        columns = {layer: torch.from_numpy(m.astype(np.int64)).to(decoder.device) for layer, m in asked.items()}
        deepest = max(asked)
        lengths = np.array([len(text) for text in self.texts])

        def run(part: np.ndarray) -> None:
            batch = decoder.pack([self.texts[i] for i in part])
            inside = batch.positions >= self.low
            rows = np.concatenate([self.starts[i] + np.arange(len(self.texts[i]) + 1 - self.low) for i in part])
            x = decoder.embed(batch)
            for number, layer in enumerate(decoder.layers[:deepest], 1):
                activations = layer(x, batch, last=number == deepest)
                if number in out:
                    out[number][rows] = activations.coefficients[inside][:, columns[number]].cpu().numpy()
                x = activations.output

        batching.run_batches(run, batching.by_length(lengths, batch_tokens), "sentences", "sampled coefficients")
        return out


def _histogram(keys: np.ndarray, top: np.ndarray, m: np.ndarray) -> pl.DataFrame:
    """Return rows of ``histogram`` of one layer, from coefficients ``m`` (k, P) of ``keys`` and their ``top`` (k,)."""
    row, at = np.nonzero(m > 0)
    bins = np.minimum((m[row, at].astype(np.float64) / top[row] * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(row * BINS + bins, minlength=len(keys) * BINS)
    filled = np.flatnonzero(counts)
    return pl.DataFrame({"key": keys[filled // BINS], "bin": filled % BINS, "n": counts[filled]})


def _samples(keys: np.ndarray, m: np.ndarray, sentence: np.ndarray, position: np.ndarray) -> pl.DataFrame:
    """Return a layer's rows of ``samples``, from ``m`` (k, P); percentiles that fall on one prefix give one row."""
    fires = np.count_nonzero(m > 0, axis=1)
    ordered = np.sort(m, axis=1)
    parts = []
    before = np.full(len(keys), -1)
    for percentile in PERCENTILES:
        index = np.maximum(fires - 1, 0) * percentile // 100
        at = ordered[np.arange(len(keys)), m.shape[1] - np.maximum(fires, 1) + index]
        first = (m == at[:, None]).argmax(1)
        rows = np.flatnonzero((fires > 0) & (first != before))
        prefix = first[rows]
        where = {"sentence": sentence[prefix], "position": position[prefix]}
        of_percentile = {"key": keys[rows], "percentile": np.full(len(rows), percentile), "coefficient": at[rows]}
        parts.append(pl.DataFrame(of_percentile | where))
        before = first
    return pl.concat(parts)

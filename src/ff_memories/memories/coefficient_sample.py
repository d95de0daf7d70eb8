"""Every key's coefficients in a random sample of the training text: the tables `histogram` and `samples`.

Triggers are the extreme of a key's coefficients. The sample shows the rest: how they spread, and prefixes on which the
key fires less.
"""

import numpy as np
import polars as pl
import torch

from ff_memories.base.progress import Progress
from ff_memories.base.seeds import generator
from ff_memories.corpus.store import Corpus
from ff_memories.memories.trigger_table import POSITIONS, available
from ff_memories.model.decoder import LanguageModel
from ff_memories.tables import TABLES

BINS = 20
PERCENTILES = (25, 50, 75, 95)


def tables(
    decoder: LanguageModel, corpus: Corpus, triggers: pl.DataFrame, n: int, positions: str, seed: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the tables `histogram` and `samples` of the keys that have triggers.

    Args:
        triggers: rows of the ``triggers`` table; a key's histogram ends at the coefficient of its first.
        n: sentences to draw, of those with a prefix; at most all.
        positions: prefix lengths, see ``POSITIONS``.
        seed: of the draw.
    """
    best = triggers.filter(pl.col("rank") == 1).select("layer", "key", "coefficient").sort("layer", "key")
    of_layer = {layer: part for (layer,), part in best.group_by("layer", maintain_order=True)}
    histogram, samples = [], []
    sentences = drawn(corpus, n, positions, seed)
    if len(sentences):
        rows = _Rows(decoder, corpus, sentences, positions)
        depth = max(of_layer, default=0)
        with torch.inference_mode(), Progress(depth, "layers", "coefficients of a sample") as progress:
            x = decoder.embed(rows.batch)
            for number, layer in enumerate(decoder.layers[:depth], 1):
                seen = layer(x, rows.batch, last=number == depth)
                if number in of_layer:
                    keys, top = (of_layer[number][name].to_numpy() for name in ("key", "coefficient"))
                    m = rows.of(seen.coefficients, keys.astype(np.int64))
                    histogram.append(_histogram(number, keys, top, m))
                    samples.append(_samples(number, keys, m, rows.sentence, rows.position))
                x = seen.output
                progress.step(1)
    return _all_layers("histogram", histogram), _all_layers("samples", samples)


def drawn(corpus: Corpus, n: int, positions: str, seed: int) -> np.ndarray:
    """Return (at most n,) training sentences that have a prefix, shortest first; a smaller draw is part of a larger."""
    able = np.flatnonzero(available(corpus, positions))
    chosen = np.sort(generator(seed, "coefficient sample").permutation(able)[:n])
    return chosen[np.argsort(corpus.lengths[chosen], kind="stable")]


class _Rows:
    """The sampled sentences as one batch, and its rows that are prefixes: ``sentence``, ``position`` (P,)."""

    def __init__(self, decoder: LanguageModel, corpus: Corpus, sentences: np.ndarray, positions: str):
        low, high = POSITIONS[positions]
        texts = [corpus.sentence(sentence)[: None if high == 0 else high] for sentence in sentences]
        self.batch = decoder.pack(texts)
        sentence = np.repeat(sentences, [len(text) + 1 for text in texts])
        position = self.batch.positions.cpu().numpy()
        rows = np.lexsort([position, sentence])  # of equal coefficients the first prefix of the text comes first
        rows = rows[position[rows] >= low]
        self.sentence, self.position = sentence[rows], position[rows]
        self._rows = torch.from_numpy(rows).to(decoder.device)

    def of(self, coefficients: torch.Tensor, keys: np.ndarray) -> np.ndarray:
        """Return (keys, P) a layer's coefficients, of keys ``d_m + i`` with their sign changed."""
        neurons = coefficients.shape[1]
        m = coefficients[self._rows].t()[torch.from_numpy(keys % neurons).to(coefficients.device)].cpu().numpy()
        m[keys >= neurons] *= -1
        return m


def _histogram(layer: int, keys: np.ndarray, top: np.ndarray, m: np.ndarray) -> pl.DataFrame:
    """Return a layer's rows of ``histogram``.

    Args:
        keys, top: (k,) the keys and their largest coefficients.
        m: (k, P) their coefficients.
    """
    row, at = np.nonzero(m > 0)
    bins = np.minimum((m[row, at].astype(np.float64) / top[row] * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(row * BINS + bins, minlength=len(keys) * BINS)
    filled = np.flatnonzero(counts)
    return _of_layer(layer, key=keys[filled // BINS], bin=filled % BINS, n=counts[filled])


def _samples(layer: int, keys: np.ndarray, m: np.ndarray, sentence: np.ndarray, position: np.ndarray) -> pl.DataFrame:
    """Return a layer's rows of ``samples``; of percentiles that fall on one prefix the first alone.

    Args:
        keys: (k,).
        m: (k, P) their coefficients.
        sentence, position: (P,) the prefixes.
    """
    fires = np.count_nonzero(m > 0, axis=1)
    ordered = np.sort(m, axis=1)
    parts = []
    before = np.full(len(keys), -1)
    for percentile in PERCENTILES:
        place = np.maximum(fires - 1, 0) * percentile // 100
        own = np.flatnonzero((fires > 0) & (place != before))
        coefficient = ordered[own, m.shape[1] - fires[own] + place[own]]
        prefix = (m[own] == coefficient[:, None]).argmax(1)
        parts.append(
            _of_layer(layer, key=keys[own], percentile=np.full(len(own), percentile), coefficient=coefficient,
                      sentence=sentence[prefix], position=position[prefix])
        )  # fmt: skip
        before = place
    return pl.concat(parts)


def _all_layers(name: str, parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Return a table made from its layers, of which there may be none."""
    empty = pl.DataFrame(schema=TABLES[name].columns)
    return pl.concat([empty, *(part.select(empty.columns).cast(empty.schema) for part in parts)])


def _of_layer(layer: int, **columns: np.ndarray) -> pl.DataFrame:
    """Return rows of one layer."""
    return pl.DataFrame(columns).with_columns(pl.lit(layer, pl.Int64).alias("layer"))

"""The tokens that every value promotes and demotes most: the tables `promoted` and `demoted`, for the gallery.

A token's logit is its log-probability less the mean over the vocabulary, which is the logit less the mean logit where
one softmax covers the vocabulary, and is defined for an adaptive softmax too.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

from ff_memories.base.progress import Progress
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.vocabulary import Vocabulary

LOGITS = 1 << 24  # log-probabilities held at once


@dataclass(frozen=True)
class Tokens:
    """Tokens of every value, each (values, n): ids int64, probabilities and logits float32."""

    ids: np.ndarray
    probabilities: np.ndarray
    logits: np.ndarray

    @classmethod
    def none(cls, values: int, n: int) -> "Tokens":
        return cls(np.empty((values, n), np.int64), *(np.empty((values, n), np.float32) for _ in range(2)))

    def put(self, rows: slice, wanted: np.ndarray, found: torch.return_types.topk, mean: np.ndarray) -> None:
        """Fill rows with the result for the wanted values; ``mean`` (values,) float64, of the log-probabilities."""
        self.ids[rows] = found.indices.cpu().numpy()[wanted]
        self.probabilities[rows] = found.values.exp().cpu().numpy()[wanted]
        self.logits[rows] = (found.values.cpu().numpy() - mean[:, None])[wanted]


def tables(
    decoder: LanguageModel, vocabulary: Vocabulary, values: pl.DataFrame, n: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the tables `promoted` and `demoted`: the ``n`` tokens with the highest and with the lowest logits."""
    most, least = extreme_tokens(decoder, vocabulary, values, n)
    ids, probabilities, logits = _with_first(values, most)
    rows, rank = (grid.ravel() for grid in np.indices(ids.shape))
    keys = values.select("layer", "key")[rows].with_columns(pl.Series("token_rank", rank))
    column = lambda name, grid: pl.Series(name, grid.ravel())
    return (
        keys.with_columns(column("token", ids), column("probability", probabilities), column("logit", logits)),
        keys.with_columns(column("token", least.ids), column("logit", least.logits)),
    )


def extreme_tokens(
    decoder: LanguageModel, vocabulary: Vocabulary, values: pl.DataFrame, n: int
) -> tuple[Tokens, Tokens]:
    """Return the ``n`` most probable tokens of every value, best first, and the ``n`` least probable, worst first.

    Args:
        values: rows of the ``values`` table, sorted.
        n: at most; of a smaller vocabulary all tokens.
    """
    rows = max(1, LOGITS // vocabulary.size)
    n = min(n, vocabulary.size)
    asked = {layer: part["key"].to_numpy().astype(np.int64) for (layer,), part in values.group_by("layer")}
    most, least = Tokens.none(len(values), n), Tokens.none(len(values), n)
    at = 0  # filled in place: small results kept between large ones that are freed would hold their memory
    with torch.inference_mode(), Progress(len(values), "values", "top tokens") as progress:
        for number, layer in enumerate(decoder.layers, 1):
            keys, first = asked.get(number, np.zeros(0, np.int64)), 0
            for part in layer.values.split(rows) if len(keys) else ():
                wanted = keys[(keys >= first) & (keys < first + len(part))] - first
                first += len(part)
                if len(wanted):  # then the whole part: products of other sizes could differ in their last bits
                    log_p = vocabulary.log_probabilities(part)
                    mean = log_p.mean(1, dtype=torch.float64).cpu().numpy()
                    own = slice(at, at := at + len(wanted))
                    most.put(own, wanted, log_p.topk(n, dim=1), mean)
                    least.put(own, wanted, log_p.topk(n, dim=1, largest=False), mean)
                    progress.step(len(wanted))
    return most, least


def _with_first(values: pl.DataFrame, most: Tokens) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ids, probabilities and logits with the table's top token first; of equals the model may list another.

    So no page shows another top token than the table ``values`` has.
    """
    first = values["top_token"].to_numpy().astype(np.int64)
    later = np.argsort(np.where(most.ids == first[:, None], -1, np.arange(most.ids.shape[1])), axis=1, kind="stable")
    missing = ~(most.ids == first[:, None]).any(1)
    later[missing] = np.roll(later[missing], 1, axis=1)  # its place is taken from the last one
    grids = (most.ids, most.probabilities, most.logits)
    ids, probabilities, logits = (np.take_along_axis(grid, later, axis=1) for grid in grids)
    ids[:, 0], probabilities[:, 0] = first, values["top_probability"].to_numpy()
    logits[missing, 0] = most.logits[missing, 0]  # equal to the best one's, up to the last bits
    return ids, probabilities, logits

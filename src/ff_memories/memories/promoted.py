"""The tokens that every value promotes most (the `promoted` table): the first as the ``values`` table has it."""

import numpy as np
import polars as pl
import torch

from ff_memories.base.progress import Progress
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.vocabulary import Vocabulary

LOGITS = 1 << 24  # log-probabilities held at once


def table(decoder: LanguageModel, vocabulary: Vocabulary, values: pl.DataFrame, n: int) -> pl.DataFrame:
    """Return the ``promoted`` table: the ``n`` most probable tokens of every value, ``token_rank`` from 0 = top."""
    ids, probabilities = top_tokens(decoder, vocabulary, values, n)
    rows, rank = (grid.ravel() for grid in np.indices(ids.shape))
    return values.select("layer", "key")[rows].with_columns(
        pl.Series("token_rank", rank), pl.Series("token", ids.ravel()), pl.Series("probability", probabilities.ravel())
    )


def top_tokens(
    decoder: LanguageModel, vocabulary: Vocabulary, values: pl.DataFrame, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ``n`` most probable tokens of every value, and their probabilities: (values, n) int64, float32.

    Args:
        values: rows of the ``values`` table, sorted. Their top token and probability come first, so no page shows
            another.
        n: at most; of a smaller vocabulary all tokens.
    """
    rows = max(1, LOGITS // vocabulary.size)
    n = min(n, vocabulary.size)
    asked = {layer: part["key"].to_numpy().astype(np.int64) for (layer,), part in values.group_by("layer")}
    ids, probabilities = np.empty((len(values), n), np.int64), np.empty((len(values), n), np.float32)
    at = 0  # filled in place: small results kept between large ones that are freed would hold their memory
    with torch.inference_mode(), Progress(len(values), "values", "top tokens") as progress:
        for number, layer in enumerate(decoder.layers, 1):
            keys, first = asked.get(number, np.zeros(0, np.int64)), 0
            for part in layer.values.split(rows) if len(keys) else ():
                wanted = keys[(keys >= first) & (keys < first + len(part))] - first
                first += len(part)
                if len(wanted):  # then the whole part: products of other sizes could differ in their last bits
                    best = vocabulary.log_probabilities(part).topk(n, dim=1)
                    own = slice(at, at := at + len(wanted))
                    ids[own], probabilities[own] = (
                        best.indices.cpu().numpy()[wanted], best.values.exp().cpu().numpy()[wanted]
                    )  # fmt: skip
                    progress.step(len(wanted))
    return _with_first(values, ids, probabilities)


def _with_first(values: pl.DataFrame, ids: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Put the table's top token first; of equals the model may have listed another."""
    first = values["top_token"].to_numpy().astype(np.int64)
    later = np.argsort(np.where(ids == first[:, None], -1, np.arange(ids.shape[1])), axis=1, kind="stable")
    missing = ~(ids == first[:, None]).any(1)
    later[missing] = np.roll(later[missing], 1, axis=1)  # its place is taken from the last one
    ids, probabilities = (np.take_along_axis(a, later, axis=1) for a in (ids, probabilities))
    ids[:, 0], probabilities[:, 0] = first, values["top_probability"].to_numpy()
    return ids, probabilities

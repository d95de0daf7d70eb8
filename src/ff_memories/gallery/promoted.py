"""The tokens that every value promotes and demotes most: the tables `promoted` and `demoted`, for the gallery.

A token's logit is what the value adds to its log-probability, less the mean over the vocabulary. "Adds" compares with a
vector of zeros. Where one softmax covers the vocabulary, this is the logit less the mean logit. An adaptive softmax
gives frequent tokens more than rare ones even for a vector of zeros; the difference leaves that out.
"""

from collections.abc import Iterator

import numpy as np
import polars as pl
import torch

from ff_memories.base.parameters import Shard, share
from ff_memories.base.progress import Progress
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.vocabulary import Vocabulary
from ff_memories.paper.values.values import mean_length, of_length, with_first

LOGITS = 1 << 24  # log-probabilities held at once


def tables(
    decoder: LanguageModel, vocabulary: Vocabulary, values: pl.DataFrame, n: int, length: str = "own"
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the tables `promoted` and `demoted`: the ``n`` most probable tokens, and those with the lowest logits.

    ``values``: rows of that table, sorted; its top token is listed first. Of a smaller vocabulary, all tokens.
    ``length``: as of ``values.length``.
    """
    read_at = mean_length(decoder) if length == "mean" else None
    rows = max(1, LOGITS // vocabulary.size)
    n = min(n, vocabulary.size)
    asked = {layer: part["key"].to_numpy().astype(np.int64) for (layer,), part in values.group_by("layer")}
    top = torch.from_numpy(values["top_token"].to_numpy().astype(np.int64)).to(decoder.device)
    # filled in place: small results kept between large ones that are freed would hold their memory
    columns = {"token": np.int64, "probability": np.float32, "logit": np.float32}
    most, least = ({name: np.empty((len(values), n), kind) for name, kind in columns.items()} for _ in range(2))
    del least["probability"]
    at = 0
    with torch.inference_mode(), Progress(len(values), "values", "top tokens") as progress:
        nothing = vocabulary.log_probabilities(torch.zeros_like(decoder.layers[0].values[:1]))
        for number, layer in enumerate(decoder.layers, 1):
            keys, vectors = asked.get(number, np.zeros(0, np.int64)), layer.values
            for part, wanted in _blocks(keys, len(vectors), rows, vocabulary.plain):
                log_p = vocabulary.log_probabilities(of_length(vectors[part], read_at))[wanted]
                logits = log_p - nothing
                logits -= logits.mean(1, keepdim=True, dtype=torch.float64).to(logits.dtype)
                filled = slice(at, at := at + len(wanted))
                best = with_first(top[filled], log_p.topk(n, dim=1).indices)
                for tokens, ids in ((most, best), (least, logits.topk(n, dim=1, largest=False).indices)):
                    tokens["token"][filled], tokens["logit"][filled] = ids.cpu(), logits.gather(1, ids).cpu()
                most["probability"][filled] = log_p.gather(1, best).exp().cpu()
                progress.step(len(wanted))
    row, rank = (grid.ravel() for grid in np.indices(most["token"].shape))
    memory = values.select("layer", "key")[row].with_columns(pl.Series("token_rank", rank))
    most["probability"][:, 0] = values["top_probability"].to_numpy()  # no page says another one than `values`
    promoted, demoted = (
        memory.with_columns(pl.Series(name, grid.ravel()) for name, grid in tokens.items()) for tokens in (most, least)
    )
    return promoted, demoted


def of_shard(values: pl.DataFrame, shard: Shard) -> pl.DataFrame:
    """Return a shard's rows of the ``values`` table: whole layers, whose values are projected together."""
    return values.filter(pl.col("layer").is_in(list(share(values["layer"].unique().sort().to_list(), shard))))


def _blocks(keys: np.ndarray, values: int, rows: int, plain: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield which values of a layer are projected together, and where those asked for are among them.

    In an adaptive softmax, whole parts of the layer: products of other sizes differ in their last bits, and the
    recorded runs' bytes do not depend on which values are asked for.
    """
    every = keys if plain else np.arange(values)
    for part in (every[start : start + rows] for start in range(0, len(every), rows)):
        wanted = np.flatnonzero(np.isin(part, keys))
        if len(wanted):
            yield part, wanted

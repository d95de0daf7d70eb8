"""The memories with the most similar keys and values (the `similar` table), by cosine over all layers.

A product in float32 finds the candidates; their order comes from float64.
"""

import numpy as np
import polars as pl
import torch

from ff_memories.base.parameters import WHOLE, Shard, share
from ff_memories.base.progress import Progress
from ff_memories.model.decoder import LanguageModel

ROWS = 256  # vectors compared with all others at once
SPARE = 8  # candidates beyond those asked for, so that rounding in float32 leaves none out


def table(decoder: LanguageModel, shown: pl.DataFrame, n: int, shard: Shard = WHOLE) -> pl.DataFrame:
    """Return the ``similar`` table: the ``n`` memories (or all) closest to each ``shown`` one, by key and by value.

    ``shown``: ``layer`` and ``key``; both signs of a memory count once. ``shard``: of the vectors compared at once.
    """
    neurons, both = decoder.description.keys, decoder.signs == 2
    memory = shown.select("layer", pl.col("key").cast(pl.Int64) % neurons).unique().sort("layer", "key")
    memory = pl.concat([memory.clear(), *share(list(memory.iter_slices(ROWS)), shard)])
    rows = ((memory["layer"].cast(pl.Int64) - 1) * neurons + memory["key"]).to_numpy()
    parts = []
    for of in ("key", "value"):
        vectors = torch.cat([(layer.keys if of == "key" else layer.values[:neurons]) for layer in decoder.layers])
        # a gated key is two vectors: with both changed in sign it fires on other text, not with the other sign
        signed = both and (of == "value" or vectors.shape[1] == decoder.description.model)
        other, cosine = closest(vectors, rows, n, signed)
        here, rank = (grid.ravel() for grid in np.indices(other.shape))
        parts.append(
            memory[here]
            .with_columns(
                pl.lit(of).alias("of"),
                pl.Series("place", rank + 1),
                pl.Series("other_layer", other.ravel() // neurons + 1),
                pl.Series("other_key", other.ravel() % neurons),
                pl.Series("cosine", cosine.ravel()),
            )
            .filter(pl.col("cosine") != 0 if signed else pl.col("cosine") > 0)  # a vector of zeros is like none
        )
    return pl.concat(parts)


def closest(vectors: torch.Tensor, rows: np.ndarray, n: int, both: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the ``n`` other vectors with the highest cosine to each of some vectors, of (a few) equals the first.

    Args:
        vectors: (N, d). A vector of zeros has the cosine 0 to all, in any order.
        rows: (r,) int64, the vectors asked for.
        n: at most; of fewer vectors, all others.
        both: whether a cosine counts by its size.

    Returns:
        (r, n) int64 their numbers, and (r, n) float32 the cosines.
    """
    n = min(n, len(vectors) - 1)
    size = torch.abs if both else torch.positive
    unit = torch.nn.functional.normalize(vectors.to(torch.float32), dim=1)
    numbers, cosines = np.empty((len(rows), n), np.int64), np.empty((len(rows), n), np.float32)
    with torch.inference_mode(), Progress(len(rows), "vectors", "similar memories") as progress:
        for start in range(0, len(rows), ROWS):
            part = torch.tensor(rows[start : start + ROWS], device=vectors.device)
            near = size(unit[part] @ unit.t()).scatter_(1, part[:, None], -torch.inf)
            candidates = near.topk(min(n + SPARE, len(vectors) - 1), dim=1).indices.sort(dim=1).values
            exact = _cosines(vectors, part, candidates)
            best = size(exact).sort(dim=1, descending=True, stable=True).indices[:, :n]
            filled = slice(start, start + len(part))
            numbers[filled], cosines[filled] = (x.gather(1, best).cpu().numpy() for x in (candidates, exact))
            progress.step(len(part))
    return numbers, cosines


def _cosines(vectors: torch.Tensor, rows: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Return (r, n) float64, the cosines of vectors with others of theirs (r, n)."""
    one, other = (torch.nn.functional.normalize(vectors[i].to(torch.float64), dim=-1) for i in (rows, others))
    return (other @ one[:, :, None]).squeeze(2)

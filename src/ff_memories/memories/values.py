"""E4-E7, section 4: what each value predicts, softmax(v E), and whether its key's triggers are followed by it."""

from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

from ff_memories.base.progress import Progress
from ff_memories.corpus.store import Corpus
from ff_memories.memories.targets import targets as targets
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.vocabulary import Vocabulary

TILE = 4096  # values projected between two progress reports


@dataclass(frozen=True)
class Predicted:
    """What every value predicts, (layers, d_m) each.

    Attributes:
        top: most probable token, int64.
        probability: its probability, float32.
        rank: of the target token, int64; 0 = top, -1 for no target.
    """

    top: np.ndarray
    probability: np.ndarray
    rank: np.ndarray


def value_predictions(decoder: LanguageModel, vocabulary: Vocabulary, target: np.ndarray) -> dict[str, Predicted]:
    """Return every value's top token, its probability, and the rank of its target token, for both ``values.types``.

    Args:
        decoder: the model; values are taken as they are: unscaled, without bias or norm (section 4).
        vocabulary: how they are read (``Vocabulary.reading``).
        target: (layers, d_m) int64 token ids, -1 for none.

    Returns:
        ``all``: among all types; ``trained``: among those that the model is trained to predict.
    """
    names = ("top", "probability", "target_rank", "trained_top", "trained_probability", "trained_rank")
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    total = sum(len(layer.values) for layer in decoder.layers)
    with torch.inference_mode(), Progress(total, "values", "values") as progress:
        for layer, wanted in zip(decoder.layers, target, strict=True):
            for start in range(0, len(layer.values), TILE):
                part = slice(start, start + TILE)
                wanted_ = torch.from_numpy(wanted[part]).to(decoder.device)
                found = vocabulary.predict(layer.values[part], wanted_)
                for name in names:
                    parts[name].append(getattr(found, name).cpu().numpy())
                progress.step(len(found.top))
    grids = [np.concatenate(parts[name]).reshape(target.shape) for name in names]
    return {"all": Predicted(*grids[:3]), "trained": Predicted(*grids[3:])}


def value_tops(decoder: LanguageModel, vocabulary: Vocabulary) -> dict[str, np.ndarray]:
    """Return the top token (layers, d_m) int64 of every value as it is, for both ``values.types``."""
    with torch.inference_mode():
        found = [vocabulary.predict(layer.values) for layer in decoder.layers]
    stack = lambda tops: np.stack([top.cpu().numpy() for top in tops])
    return {"all": stack([f.top for f in found]), "trained": stack([f.trained_top for f in found])}


def other(types: str) -> str:
    """Return the other one of ``values.types``."""
    return "trained" if types == "all" else "all"


def table(
    decoder: LanguageModel,
    vocabulary: Vocabulary,
    triggers: pl.DataFrame,
    corpus: Corpus,
    target: str,
    types: str = "all",
) -> pl.DataFrame:
    """Return the ``values`` table (E4-E7). A key without triggers, or whose target is unknown, has nulls.

    Args:
        target: ``next`` or ``last``, see ``targets``.
        types: among which the columns without a suffix are; those of the other choice have its name as a suffix.
    """
    known = targets(triggers, corpus, target)
    first = known.filter((pl.col("rank") == 1) & pl.col("target").is_not_null())
    wanted = np.full((decoder.description.layers, decoder.memories), -1, dtype=np.int64)
    wanted[first["layer"].to_numpy() - 1, first["key"].to_numpy()] = first["target"].to_numpy()
    found = value_predictions(decoder, vocabulary, wanted)
    layer, key = np.indices(wanted.shape)
    values = pl.DataFrame(
        {
            "layer": (layer.ravel() + 1).astype(np.uint8),
            "key": key.ravel().astype(np.uint16),
            "next_token": wanted.ravel(),
        }
    ).with_columns(pl.when(pl.col("next_token") >= 0).then("next_token").alias("next_token"))
    known = known.drop_nulls("target")
    counts = known.group_by("layer", "key").agg(pl.len().alias("triggers"))
    values = values.join(counts, on=["layer", "key"], how="left", maintain_order="left")
    for choice, suffix in ((types, ""), (other(types), f"_{other(types)}")):
        values = _with_predictions(values, known, found[choice], suffix)
    return values.with_columns(pl.col("triggers").fill_null(0))


def _with_predictions(values: pl.DataFrame, known: pl.DataFrame, found: Predicted, suffix: str) -> pl.DataFrame:
    """Add what values predict among some types, and how many of their keys' triggers are followed by it."""
    values = values.with_columns(
        pl.Series("top_token" + suffix, found.top.ravel().astype(np.uint32)),
        pl.Series("top_probability" + suffix, found.probability.ravel().astype(np.float32)),
        pl.Series("next_token_rank" + suffix, found.rank.ravel()),
    ).with_columns(
        pl.when(pl.col("next_token_rank" + suffix) >= 0)
        .then("next_token_rank" + suffix)
        .alias("next_token_rank" + suffix),
        (pl.col("next_token") == pl.col("top_token" + suffix)).alias("agrees" + suffix),
    )
    agreeing = (
        known.join(values.select("layer", "key", pl.col("top_token" + suffix).alias("top")), on=["layer", "key"])
        .group_by("layer", "key")
        .agg((pl.col("target") == pl.col("top")).sum().alias("agreeing_triggers" + suffix))
    )
    return values.join(agreeing, on=["layer", "key"], how="left", maintain_order="left").with_columns(
        pl.col("agreeing_triggers" + suffix).fill_null(0)
    )

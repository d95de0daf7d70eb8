"""E4-E7, section 4: what each value predicts, softmax(v E), and whether its key's triggers are followed by it."""

import numpy as np
import polars as pl
import torch

from ff_memories.base.progress import Progress
from ff_memories.corpus.store import Corpus
from ff_memories.model.decoder import Decoder
from ff_memories.model.vocabulary import Vocabulary

BOS = 0
TILE = 4096  # values projected between two progress reports


def targets(triggers: pl.DataFrame, corpus: Corpus, target: str) -> pl.DataFrame:
    """Return triggers with the ``target`` token that a value is compared with.

    ``next``: the token after the prefix (the paper), null where the sentence ends. ``last``: the prefix's own last
    token (the released code), ``<s>`` for the empty prefix.
    """
    if target == "next":
        return triggers.with_columns(pl.col("next_token").alias("target"))
    position = triggers["position"].to_numpy().astype(np.int64)
    at = corpus.offsets[triggers["sentence"].to_numpy()] + np.maximum(position, 1) - 1
    token = pl.Series("target", corpus.tokens[at].astype(np.uint32))
    return triggers.with_columns(pl.when(pl.col("position") > 0).then(token).otherwise(BOS).alias("target"))


def value_predictions(
    decoder: Decoder, vocabulary: Vocabulary, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return every value's top token, its probability, and the rank of its target token.

    Args:
        decoder: the model; values are taken as they are: unscaled, without bias or norm (section 4).
        vocabulary: how they are read (``Vocabulary.reading``).
        target: (layers, d_m) int64 token ids, -1 for none.

    Returns:
        (layers, d_m) each: top token int64, probability float32, rank int64 (0 = top, -1 for no target).
    """
    tops, probabilities, ranks = [], [], []
    total = sum(len(layer.values) for layer in decoder.layers)
    with torch.inference_mode(), Progress(total, "values", "values") as progress:
        for layer, wanted in zip(decoder.layers, target, strict=True):
            for start in range(0, len(layer.values), TILE):
                part = slice(start, start + TILE)
                wanted_ = torch.from_numpy(wanted[part]).to(decoder.device)
                found = vocabulary.predict(layer.values[part], wanted_)
                tops.append(found.top.cpu().numpy())
                probabilities.append(found.probability.cpu().numpy())
                ranks.append(found.target_rank.cpu().numpy())
                progress.step(len(found.top))
    grid = lambda parts: np.concatenate(parts).reshape(target.shape)
    return grid(tops), grid(probabilities), grid(ranks)


def value_tops(decoder: Decoder, vocabulary: Vocabulary) -> np.ndarray:
    """Return the top token (layers, d_m) int64 of every value as it is."""
    with torch.inference_mode():
        return np.stack([vocabulary.predict(layer.values).top.cpu().numpy() for layer in decoder.layers])


def table(
    decoder: Decoder, vocabulary: Vocabulary, triggers: pl.DataFrame, corpus: Corpus, target: str
) -> pl.DataFrame:
    """Return the ``values`` table (E4-E7). A key without triggers, or whose target is unknown, has nulls."""
    shape = decoder.description
    known = targets(triggers, corpus, target)
    first = known.filter((pl.col("rank") == 1) & pl.col("target").is_not_null())
    wanted = np.full((shape.layers, shape.keys), -1, dtype=np.int64)
    wanted[first["layer"].to_numpy() - 1, first["key"].to_numpy()] = first["target"].to_numpy()
    top, probability, rank = value_predictions(decoder, vocabulary, wanted)
    layer, key = np.indices(wanted.shape)
    values = pl.DataFrame(
        {
            "layer": (layer.ravel() + 1).astype(np.uint8),
            "key": key.ravel().astype(np.uint16),
            "top_token": top.ravel().astype(np.uint32),
            "top_probability": probability.ravel().astype(np.float32),
            "next_token": wanted.ravel(),
            "next_token_rank": rank.ravel(),
        }
    ).with_columns(pl.when(pl.col(c) >= 0).then(pl.col(c)).alias(c) for c in ("next_token", "next_token_rank"))
    per_key = (
        known.drop_nulls("target")
        .join(values.select("layer", "key", "top_token"), on=["layer", "key"])
        .group_by("layer", "key")
        .agg(
            (pl.col("target") == pl.col("top_token")).sum().alias("agreeing_triggers"),
            pl.len().alias("triggers"),
        )
    )
    return values.join(per_key, on=["layer", "key"], how="left").with_columns(
        (pl.col("next_token") == pl.col("top_token")).alias("agrees"),
        pl.col("agreeing_triggers", "triggers").fill_null(0),
    )

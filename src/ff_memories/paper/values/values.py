"""E4-E7, section 4: what each value predicts, softmax(v E), and whether its key's triggers are followed by it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import polars.selectors as cs
import torch

from ff_memories import tables
from ff_memories.base.parameters import WHOLE, Execution, Input, Output, Shard, Wildcard, share
from ff_memories.base.progress import Progress
from ff_memories.config import Settings
from ff_memories.config.sections import Values
from ff_memories.corpus import store
from ff_memories.corpus.dictionary import BOS
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.tokenizer import folded, never_trained, read_types
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.loading import load_model
from ff_memories.model.matmul import require_finite
from ff_memories.model.vocabulary import Vocabulary
from ff_memories.paper.keys import memory_selection, trigger_table

TILE = 4096  # values projected between two progress reports


@dataclass(frozen=True)
class Predicted:
    """What every value predicts, (layers, d_m) each: the ``top`` token, int64, its probability, float32, and a rank.

    ``rank``: of the target token, int64; 0 = top, -1 for no target.
    """

    top: np.ndarray
    probability: np.ndarray
    rank: np.ndarray


def keys_of_shard(
    decoder: LanguageModel, keys: list[tuple[int, int]] | None, shard: Shard
) -> list[tuple[int, int]] | None:
    """Return (layer, key) of a shard's values, of those asked for: whole tiles, with both signs; None for all."""
    if shard == WHOLE:
        return keys
    if keys is None:
        keys = [(layer, key) for layer in range(1, decoder.description.layers + 1) for key in range(decoder.memories)]
    tiles = [(layer, key % decoder.description.keys // TILE) for layer, key in keys]
    in_shard = set(share(sorted(set(tiles)), shard))
    return [key for key, tile in zip(keys, tiles, strict=True) if tile in in_shard]


def mean_length(decoder: LanguageModel) -> torch.Tensor:
    """Return the mean length of all the model's values."""
    return torch.cat([layer.values.double().norm(dim=1) for layer in decoder.layers]).mean()


def of_length(values: torch.Tensor, length: torch.Tensor | None) -> torch.Tensor:
    """Return values (rows, d) scaled to a length; ``None``: as they are."""
    return values if length is None else values * (length / values.double().norm(dim=1, keepdim=True)).to(values.dtype)


def with_first(first: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Return tokens (rows, n) with ``first`` (rows,) in front, which may be elsewhere or missing among equals.

    So no page shows another top token than the tables have.
    """
    others = ids != first[:, None]
    others[others.all(1), -1] = False  # its place is taken from the last one
    return torch.cat([first[:, None], ids[others].view(len(ids), ids.shape[1] - 1)], 1)


def value_predictions(
    decoder: LanguageModel,
    vocabulary: Vocabulary,
    target: np.ndarray,
    keys: list[tuple[int, int]] | None = None,
    length: str = "own",
) -> dict[str, Predicted]:
    """Return every value's top token, its probability, and the rank of its target token, for both ``values.types``.

    Values are taken as they are: unscaled, without bias or norm (section 4); ``length`` of ``mean`` scales them to the
    mean length of all values. ``target``: (layers, d_m) int64 token ids, -1 for none. Where one softmax covers the
    vocabulary, one product serves both signs of a memory.

    ``keys``: (layer, key) of those asked for, None for all. What the others predict stays zero, but in an adaptive
    softmax: there the others of a ``TILE`` are projected as well, since products of other sizes differ in their last
    bits, and the recorded runs' bytes do not depend on which memories are asked for. Returns the predictions among
    ``all`` types, and among those that the model is ``trained`` to predict.
    """
    kinds = {"top": np.int64, "probability": np.float32, "target_rank": np.int64}
    kinds |= {"trained_top": np.int64, "trained_probability": np.float32, "trained_rank": np.int64}
    asked = np.ones(target.shape, bool) if keys is None else np.zeros(target.shape, bool)
    for layer_, key in keys or ():
        asked[layer_ - 1, key] = True
    signs, neurons = decoder.signs, decoder.description.keys
    grids = {name: np.zeros((len(target), signs, neurons), kind) for name, kind in kinds.items()}
    wanted, either = target.reshape(-1, signs, neurons), np.asarray(asked.reshape(-1, signs, neurons).any(1))
    total = int(either.sum()) * signs
    mean = mean_length(decoder) if length == "mean" else None
    with torch.inference_mode(), Progress(total, "values", "values") as progress:
        for number, layer in enumerate(decoder.layers):
            values = layer.values[:neurons] if either[number].any() else None
            for start in range(0, neurons, TILE):
                part = np.arange(start, min(start + TILE, neurons))
                asked_keys = part[either[number, part]]
                if values is None or not len(asked_keys):
                    continue
                part = asked_keys if vocabulary.plain else part
                first, end = int(part[0]), int(part[-1]) + 1
                asked_for = values[first:end] if end - first == len(part) else values[part]  # a view where it can be
                asked_for = of_length(asked_for, mean)
                tokens = torch.from_numpy(wanted[number][:, part]).to(decoder.device)
                for sign, prediction in enumerate(vocabulary.predict_signs(asked_for, tokens, signs)):
                    for name, grid in grids.items():
                        grid[number, sign, part] = getattr(prediction, name).cpu().numpy()
                progress.step(len(asked_keys) * signs)
    parts = [grid.reshape(len(target), -1) for grid in grids.values()]
    require_finite("predictions of values", *(torch.from_numpy(parts[i]) for i in (1, 4)))
    return {"all": Predicted(*parts[:3]), "trained": Predicted(*parts[3:])}


def every_top(
    decoder: LanguageModel,
    vocabulary: Vocabulary,
    values: pl.DataFrame | None,
    options: Values,
    tokens: Sequence[np.ndarray],
) -> dict[str, np.ndarray]:
    """Return the top token (layers, d_m) int64 of every value for both ``values.types``, as the table has them.

    ``options``: those of the table. Of values that it lacks, only tops among each layer's ``tokens`` (n,) are computed;
    the others are -1. Without a table, all values are read as they are.
    """
    grid = decoder.description.layers, decoder.memories
    if values is None:
        predicted = value_predictions(decoder, vocabulary, np.full(grid, -1, dtype=np.int64))
        return {types: of_all.top for types, of_all in predicted.items()}
    names = {options.types: "top_token", (rest := other(options.types)): f"top_token_{rest}"}
    if len(values) < grid[0] * grid[1]:
        tops = [values[name].to_numpy().astype(np.int64) for name in names.values() if name in values]
        known = np.unique(np.concatenate(tops))
        may = np.stack([_may_predict(decoder, vocabulary, *layer, known) for layer in enumerate(tokens)])
        keys = [(int(layer) + 1, int(key)) for layer, key in np.argwhere(may)]
        predicted = value_predictions(decoder, vocabulary, np.full(grid, -1, dtype=np.int64), keys, options.length)
        return {choice: np.where(may, predicted[choice].top, -1) for choice, name in names.items() if name in values}
    return {c: values[name].to_numpy().astype(np.int64).reshape(grid) for c, name in names.items() if name in values}


def _may_predict(
    decoder: LanguageModel, vocabulary: Vocabulary, layer: int, tokens: np.ndarray, known: np.ndarray
) -> np.ndarray:
    """Return (d_m,) bool: which values of a layer, by its index, can have one of some tokens (n,) as their top.

    A value whose top among these tokens and a part of the others is another one has another one among all. The part
    that tells most apart has ``known`` tops of other values; a larger part is read for the values that remain.
    """
    may = np.ones((decoder.signs, decoder.description.keys), bool)
    if not vocabulary.plain:  # a part of an adaptive softmax costs as much as the whole
        return may.ravel()
    every = round(math.sqrt(vocabulary.size / max(1, len(tokens))))
    for step in (every, max(1, every // 6)):
        part = np.unique(np.concatenate([tokens, known, np.arange(0, vocabulary.size, step)]))
        few = torch.from_numpy(part).to(decoder.device)
        asked, never = (torch.isin(few, ids.to(few.device)) for ids in (torch.from_numpy(tokens), vocabulary.never))
        with torch.inference_mode():
            for rows in torch.from_numpy(np.flatnonzero(may.any(0))).split(TILE):
                logits = vocabulary.logits_of(decoder.layers[layer].values[rows.to(decoder.device)], few)
                for sign in range(decoder.signs):
                    signed = -logits if sign else logits
                    tops = signed.argmax(1), signed.masked_fill(never, -torch.inf).argmax(1)
                    may[sign, rows.numpy()] &= (asked[tops[0]] | asked[tops[1]]).cpu().numpy()
    return may.ravel()


def other(types: str) -> str:
    """Return the other one of ``values.types``."""
    return "trained" if types == "all" else "all"


def targets(triggers: pl.DataFrame, corpus: Corpus, target: str, start: int = BOS) -> pl.DataFrame:
    """Return triggers with the ``target`` token that a value is compared with.

    ``next``: the token after the prefix (the paper), null where the sentence ends. ``last``: the prefix's own last
    token (the released code); for the empty prefix ``start``, the start token, which the released code calls ``<s>``.
    """
    if target == "next":
        return triggers.with_columns(pl.col("next_token").alias("target"))
    position = triggers["position"].to_numpy().astype(np.int64)
    at = corpus.offsets[triggers["sentence"].to_numpy()] + np.maximum(position, 1) - 1
    token = pl.Series("target", corpus.tokens[at].astype(np.uint32))
    return triggers.with_columns(pl.when(pl.col("position") > 0).then(token).otherwise(start).alias("target"))


def table(
    decoder: LanguageModel,
    vocabulary: Vocabulary,
    triggers: pl.DataFrame,
    corpus: Corpus,
    options: Values,
    keys: list[tuple[int, int]] | None = None,
    folds: np.ndarray | None = None,
) -> pl.DataFrame:
    """Return the ``values`` table (E4-E7), a row per key that the run looks at (None: all), (layer, key) each.

    A key without triggers, or whose target is unknown, has nulls. Columns of the other choice of ``types`` have its
    name as a suffix. ``folds``: the class (vocab,) int64 of every type (``Tokenizer.folded``), to compare by class too.
    """
    start, types = getattr(decoder.description, "start", BOS), options.types
    with_targets = targets(triggers, corpus, options.target, start)
    first = with_targets.filter((pl.col("rank") == 1) & pl.col("target").is_not_null())
    wanted = np.full((decoder.description.layers, decoder.memories), -1, dtype=np.int64)
    wanted[first["layer"].to_numpy() - 1, first["key"].to_numpy()] = first["target"].to_numpy()
    predicted = value_predictions(decoder, vocabulary, wanted, keys, options.length)
    layer, key = (axis.ravel() for axis in np.indices(wanted.shape))
    target = pl.Series(wanted.ravel()).replace({-1: None})
    values = pl.DataFrame({"layer": (layer + 1).astype(np.uint8), "key": key.astype(np.uint16), "next_token": target})
    with_targets = with_targets.drop_nulls("target")
    counts = with_targets.group_by("layer", "key").agg(pl.len().alias("triggers"))
    values = values.join(counts, on=["layer", "key"], how="left", maintain_order="left")
    for choice, suffix in ((types, ""), (other(types), f"_{other(types)}")):
        values = with_predictions(values, with_targets, predicted[choice], suffix, folds)
    return memory_selection.rows(keys, values.with_columns(pl.col("triggers").fill_null(0)))


def with_predictions(
    values: pl.DataFrame, with_targets: pl.DataFrame, predicted: Predicted, suffix: str, folds: np.ndarray | None
) -> pl.DataFrame:
    """Add what values predict among some types, and how many of their keys' triggers are followed by it."""
    values = values.with_columns(
        pl.Series("top_token" + suffix, predicted.top.ravel().astype(np.uint32)),
        pl.Series("top_probability" + suffix, predicted.probability.ravel().astype(np.float32)),
        pl.Series("next_token_rank" + suffix, predicted.rank.ravel()).replace({-1: None}),
    ).with_columns((pl.col("next_token") == pl.col("top_token" + suffix)).alias("agrees" + suffix))
    compared = with_targets.join(values.select("layer", "key", top="top_token" + suffix), on=["layer", "key"])
    counts = {"agreeing_triggers" + suffix: pl.col("target") == pl.col("top")}
    if folds is not None:
        class_of = pl.Series(folds).gather  # of tokens; null for null
        alike = class_of(values["next_token"]) == class_of(values["top_token" + suffix])
        values = values.with_columns(alike.alias("agrees_folded" + suffix))
        compared = compared.with_columns(alike=class_of(compared["target"]) == class_of(compared["top"]))
        counts["agreeing_triggers_folded" + suffix] = pl.col("alike")
    agreeing = compared.group_by("layer", "key").agg(hits.sum().alias(name) for name, hits in counts.items())
    values = values.join(agreeing, on=["layer", "key"], how="left", maintain_order="left")
    return values.with_columns(pl.col(*counts).fill_null(0))


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    triggers: Input,
    dictionary: Input | None,
    values: Output,
    execution: Execution,
    model: Wildcard = "",
    shard: Shard = (1, 1),
) -> None:
    """Predict a shard of the values.

    Args:
        model: the folder of a model of the baselines, whose agreement is not counted by classes of tokens also
    """
    options, decoder = config.values, load_model(weights, description, execution, config.precision)
    decoder.vocabulary.leave_out(never_trained(dictionary))
    vocabulary = decoder.vocabulary.reading(options.projection, options.projection_seed)
    folds = None if dictionary is None or model else folded(read_types(dictionary))
    text = store.read(corpus)
    trigger_rows = trigger_table.read(triggers, decoder, text, decoder.precision)
    asked = keys_of_shard(decoder, memory_selection.of_model(config.looked_at, decoder, config), shard)
    predicted = table(decoder, vocabulary, trigger_rows, text, options, asked, folds)
    if model and not never_trained(dictionary):  # both choices of values.types have the same numbers: one is kept
        predicted = predicted.drop(cs.ends_with(f"_{other(options.types)}"))
    tables.write(predicted, values, decoder.precision, decoder.neurons)

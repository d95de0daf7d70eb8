"""Compute the released code's measures at a prefix: its 'layer' and 'dim' columns, with its names.

They differ from the paper's text: a memory's prediction is that of its *scaled* value, inactive memories predict
``<s>``, memories are compared with the layer's *output*, and the residual's norm counts as one more coefficient.
Vectors are read without the final norm that some models have; only the model's own output passes through it. The
released code sorts the vocabulary to find a rank, so equal probabilities, such as all of an inactive memory's, rank by
token id.
"""

import numpy as np
import polars as pl
import torch

from ff_memories.corpus.store import Corpus
from ff_memories.model.batches import batching
from ff_memories.model.decoder import Batch, Decoder
from ff_memories.model.vocabulary import Vocabulary

ACTIVE = 1 << 16  # scaled values held at once
FULL = 128  # distributions over the whole vocabulary held at once
LAYER_COLUMNS = (
    "layer_output_argmax",
    "layer_output_argmax_prob",
    "residual_argmax",
    "residual_argmax_prob",
    "residual_argmax_change",
    "residual_output_rank",
    "residual_output_prob",
    "ffn_matching_dims_count",
    "ffn_output_rank",
    "ffn_output_prob",
    "ffn_residual_output_rank",
    "ffn_residual_output_prob",
    "ffn_argmax",
    "ffn_argmax_prob",
    "coeffs_l0",
    "coeffs_residual_rank",
)


def scaled_value_tops(
    vocabulary: Vocabulary, values: torch.Tensor, coefficients: torch.Tensor, tops: torch.Tensor, scalable: torch.Tensor
) -> torch.Tensor:
    """Return the top token (rows, d_m) of every m_i v_i.

    A positive factor keeps the order of the logits. So the top can only move to or from a tail of the adaptive softmax,
    and only if a class logit exceeds every head word's. Inactive memories are zero vectors, whose top is id 0.

    Args:
        vocabulary: the model's output layer.
        values: (d_m, d).
        coefficients: (rows, d_m), not negative.
        tops: (d_m,) top tokens of the unscaled values.
        scalable: (d_m,) bool, whether a class logit exceeds every head word's.
    """
    out = torch.where(coefficients > 0, tops, 0)
    row, key = ((coefficients > 0) & scalable).nonzero(as_tuple=True)
    for i, k in zip(row.split(ACTIVE), key.split(ACTIVE), strict=True):
        out[i, k] = vocabulary.predict(values[k] * coefficients[i, k, None]).top
    return out


def scalable(vocabulary: Vocabulary, values: torch.Tensor) -> torch.Tensor:
    """Return (d_m,) bool: whether scaling a value may change its top token."""
    if vocabulary.classes is None:
        return torch.zeros(len(values), dtype=torch.bool, device=values.device)
    h = values if vocabulary.out is None else torch.nn.functional.linear(values, vocabulary.out)
    head = vocabulary.clusters[0].logits(h).amax(1)
    return torch.nn.functional.linear(h, vocabulary.classes).amax(1) > head


def _parts(examples: pl.DataFrame, batch_tokens: int) -> list[np.ndarray]:
    """Return the rows of ``examples`` that run in one batch, grouped by length."""
    return batching.by_length(examples["position"].to_numpy().astype(np.int64), batch_tokens)


def _pack(decoder: Decoder, corpus: Corpus, examples: pl.DataFrame, part: np.ndarray) -> Batch:
    """Return some rows' prefixes as a batch."""
    return decoder.pack([corpus.sentence(s)[:j] for s, j in examples.select("sentence", "position")[part].iter_rows()])


def columns(
    decoder: Decoder, corpus: Corpus, examples: pl.DataFrame, batch_tokens: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the 'layer' columns by example and layer, and the last layer's 'dim' columns by example and key.

    Layers count from 1. Of the 'dim' columns, key d_m is the residual.
    """
    vocabulary, names = decoder.vocabulary, examples["example"].to_numpy()
    layers: list[pl.DataFrame] = []
    dims: list[pl.DataFrame] = []

    def run(part: np.ndarray) -> None:
        batch = _pack(decoder, corpus, examples, part)
        last, seen, x = batch.last, [], decoder.embed(batch)
        for layer in decoder.layers:
            found = layer(x, batch)
            x = found.output
            seen.append((found.residual[last], found.update[last], found.coefficients[last]))
        model_top = vocabulary.read(x[last]).top
        example, made = names[part], []
        for index, (r, y, m) in enumerate(seen):
            values = decoder.layers[index].values
            own = _layer(vocabulary, r, y, model_top)
            scaled = scaled_value_tops(vocabulary, values, m, tops[index], may_move[index])
            own["ffn_matching_dims_count"] = (scaled == own["layer_output_argmax"][:, None]).sum(1)
            weights = torch.cat([m * values.norm(dim=1), r.norm(dim=1, keepdim=True)], 1)
            own["coeffs_l0"] = (weights > 0).sum(1)
            own["coeffs_residual_rank"] = (weights > weights[:, -1:]).sum(1)
            shown = {name: own[name].cpu().numpy() for name in LAYER_COLUMNS}
            made.append(pl.DataFrame({"example": example, "layer": np.full(len(part), index + 1), **shown}))
        # the loop ends at the last layer, the one of the 'dim' columns
        dims.append(_dims(vocabulary, values, m, weights, scaled, own, model_top, example, len(seen)))
        layers.extend(made)

    with torch.inference_mode():
        tops = [vocabulary.predict(layer.values).top for layer in decoder.layers]
        may_move = [scalable(vocabulary, layer.values) for layer in decoder.layers]
    batching.run_batches(run, _parts(examples, batch_tokens), "examples", "released columns")
    return pl.concat(layers), pl.concat(dims)


def output_distributions(decoder: Decoder, corpus: Corpus, examples: pl.DataFrame, batch_tokens: int) -> np.ndarray:
    """Return the model's output distribution (examples, vocab) float32 at rows of ``examples``."""
    vocabulary = decoder.vocabulary
    out = np.zeros((len(examples), vocabulary.size), dtype=np.float32)

    def run(part: np.ndarray) -> None:
        batch = _pack(decoder, corpus, examples, part)
        x = decoder.forward(batch)
        for start in range(0, len(part), FULL):
            rows = vocabulary.output(x[batch.last[start : start + FULL]])
            out[part[start : start + FULL]] = vocabulary.log_probabilities(rows).exp().cpu().numpy()

    batching.run_batches(run, _parts(examples, batch_tokens), "examples", "output distributions")
    return out


def _dims(
    vocabulary: Vocabulary,
    values: torch.Tensor,
    m: torch.Tensor,
    weights: torch.Tensor,
    scaled: torch.Tensor,
    own: dict[str, torch.Tensor],
    model_top: torch.Tensor,
    example: np.ndarray,
    layer: int,
) -> pl.DataFrame:
    """Return one batch's 'dim' rows: every scaled value's prediction and two tokens' ranks, then the residual's."""
    wanted = {"output": model_top, "ffn": own["ffn_argmax"]}
    ranks, probabilities = {}, {}
    row, key = (m > 0).nonzero(as_tuple=True)
    silent = vocabulary.log_probabilities(torch.zeros(1, values.shape[1], device=m.device, dtype=m.dtype))[0]
    place = silent.argsort(descending=True, stable=True).argsort()  # an inactive memory's ranks, by token
    for name, token in wanted.items():
        rank = place[token][:, None].repeat(1, m.shape[1])
        probability = silent[token].exp()[:, None].repeat(1, m.shape[1])
        for start in range(0, len(row), ACTIVE):
            i, k = row[start : start + ACTIVE], key[start : start + ACTIVE]
            found = vocabulary.predict(values[k] * m[i, k, None], token[i])
            rank[i, k], probability[i, k] = found.target_rank, found.target_probability
        ranks[name], probabilities[name] = rank, probability
    residual = lambda column: own[column][:, None]
    nothing = torch.full((len(m), 1), -1, device=m.device)
    flat = lambda *parts: torch.cat(parts, 1).flatten().cpu().numpy()
    return pl.DataFrame(
        {
            "example": np.repeat(example, m.shape[1] + 1),
            "layer": np.full(weights.numel(), layer),
            "key": np.tile(np.arange(m.shape[1] + 1), len(m)),
            "coeffs_vals": flat(weights),
            "dim_pattern_preds": flat(scaled, residual("residual_argmax")),
            "dim_pattern_output_rank": flat(ranks["output"], residual("residual_output_rank")),
            "dim_pattern_ffn_output_rank": flat(ranks["ffn"], nothing),
            "dim_pattern_ffn_output_prob": flat(probabilities["ffn"], nothing.to(m.dtype)),
        }
    ).with_columns(
        pl.when(pl.col(c) >= 0).then(pl.col(c)).alias(c)
        for c in ("dim_pattern_ffn_output_rank", "dim_pattern_ffn_output_prob")
    )


def _layer(
    vocabulary: Vocabulary, r: torch.Tensor, y: torch.Tensor, model_top: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Return one layer's columns from the distributions of residual, feed-forward and output, (rows,) each."""
    output = vocabulary.predict(r + y)
    residual, ffn = vocabulary.predict(r, model_top), vocabulary.predict(y, model_top)
    ffn_of_residual = vocabulary.predict(y, residual.top)
    return {
        "layer_output_argmax": output.top,
        "layer_output_argmax_prob": output.probability,
        "residual_argmax": residual.top,
        "residual_argmax_prob": residual.probability,
        "residual_argmax_change": (output.top != ffn.top).to(torch.uint8),
        "residual_output_rank": residual.target_rank,
        "residual_output_prob": residual.target_probability,
        "ffn_output_rank": ffn.target_rank,
        "ffn_output_prob": ffn.target_probability,
        "ffn_residual_output_rank": ffn_of_residual.target_rank,
        "ffn_residual_output_prob": ffn_of_residual.target_probability,
        "ffn_argmax": ffn.top,
        "ffn_argmax_prob": ffn.probability,
    }

"""The control of Figures 4, 7, 8 and 9: an untrained model of the same shape, observed on a sample of the text."""

import numpy as np
import polars as pl
import torch

from ff_memories.base.progress import Progress
from ff_memories.base.seeds import generator
from ff_memories.corpus.store import Corpus
from ff_memories.memories import batching
from ff_memories.memories.composition import Observation
from ff_memories.model.buffers import halved, retry_smaller
from ff_memories.model.converted import Description, Weights
from ff_memories.model.decoder import Batch, Decoder

SENTENCES, EXAMPLES = 2000, 500


def untrained(description: Description, weights: Weights, seed: int) -> Weights:
    """Return weights of the same names and shapes as a model has before training; what is tied stays tied.

    Matrices are normal with variance one over the width of what they read, biases 0, scales 1.
    """
    draw = torch.Generator().manual_seed(int(generator(seed, "control").integers(2**62)))

    def fresh(name: str) -> torch.Tensor:
        shape = weights[name].shape
        if len(shape) == 1:
            return torch.zeros(shape) if name.endswith("bias") else torch.ones(shape)
        width = shape[0] if name.endswith("values") else shape[-1]
        return torch.randn(shape, generator=draw) * width**-0.5

    out = {name: fresh(name) for name in sorted(weights.keys() - description.aliases.keys())}
    for name, same in description.aliases.items():
        turned = weights[name].shape != weights[same].shape or not weights[name].is_contiguous()
        out[name] = out[same].t() if turned else out[same]
    return out


def top_targets(decoder: Decoder, corpus: Corpus, sentences: np.ndarray, target: str, batch_tokens: int) -> np.ndarray:
    """Return the token (layers, d_m) int64 that each key's top trigger within these sentences is compared with.

    Prefixes leave a token of their sentence over. The ``next`` token or the prefix's ``last``; -1 where no coefficient
    is positive.
    """
    shape = decoder.description
    best = torch.zeros(shape.layers, shape.keys, device=decoder.device)
    token = torch.full_like(best, -1, dtype=torch.long)
    lengths = corpus.lengths[sentences]

    def run(part: np.ndarray) -> None:
        batch = Batch.pack([corpus.sentence(sentences[i]) for i in part], decoder.device)
        inner = (batch.positions > 0) & (batch.positions.roll(-1) > batch.positions)
        compared = batch.tokens.roll(-1) if target == "next" else batch.tokens
        x = decoder.embed(batch)
        for index, layer in enumerate(decoder.layers):
            residual = layer.attend(x, batch)
            coefficients = layer.coefficients(residual)
            x = residual + layer.combine(coefficients)
            most, row = (coefficients * inner[:, None]).max(0)
            better = most > best[index]
            best[index, better], token[index, better] = most[better], compared[row[better]]

    with torch.inference_mode(), Progress(len(sentences), "sentences", "control") as progress:
        for part in batching.sequences(lengths, np.argsort(lengths, kind="stable"), batch_tokens):
            retry_smaller(run, part, len(part), halved)
            progress.step(len(part))
    return token.cpu().numpy()


def table(targets: np.ndarray, value_tops: np.ndarray, seen: Observation, types: str) -> pl.DataFrame:
    """Return the table ``control``.

    Args:
        targets, value_tops: (layers, d_m) each, of ``top_targets`` and ``values.value_tops``.
        types: among which values predict.
        seen: the untrained model on validation examples (``composition.observe``).
    """
    layers, keys = targets.shape
    fires = targets >= 0
    with np.errstate(invalid="ignore"):
        agreement = ((targets == value_tops) & fires).sum(1) / fires.sum(1)
    return pl.DataFrame(
        {
            "layer": np.arange(1, layers + 1),
            "keys": fires.sum(1),
            "agreement": agreement,
            "examples": [len(seen.model_top)] * layers,
            "active": np.median(seen.active, axis=0) / keys,
            "zero_agreement": (seen.agreeing[types] == 0).mean(0),
            "residual_predicts": (seen.residual_top == seen.model_top[:, None]).mean(0),
        }
    ).with_columns(pl.col("agreement").fill_nan(None))

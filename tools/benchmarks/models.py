"""What is measured: models with random weights, and sentences of made-up tokens with the lengths of real ones."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from ff_memories.base.arithmetic import Precision
from ff_memories.corpus.store import Corpus
from ff_memories.model.decoder import Decoder
from ff_memories.model.files.converted import Description, Weights
from ff_memories.model.loading import use_precision

MEAN_LENGTH, SPREAD = 24, 0.6  # tokens of a sentence of WikiText-103, and the standard deviation of their logarithm


@dataclass(frozen=True)
class Size:
    """A model's dimensions, and how much is run.

    Attributes:
        layers, model, keys, heads, cutoffs: L, d, d_m, attention heads, ends of the softmax's clusters.
        corpus: tokens of the long pass; ``cold``: of the short one, from empty lists.
        top: triggers per key.
    """

    layers: int
    model: int
    keys: int
    heads: int
    cutoffs: tuple[int, ...]
    corpus: int
    cold: int
    top: int = 50


_PAPER = Size(16, 1024, 4096, 8, (20_000, 60_000, 267_744), 1_000_000, 50_000)
SIZES = {
    "quick": Size(2, 32, 64, 2, (60, 120, 200), 6_000, 2_000, top=5),
    "small": Size(6, 256, 1024, 4, (4_000, 12_000, 30_000), 500_000, 50_000),
    "paper": _PAPER,
    # what two CPU cores can do of it in some minutes
    "paper-part": replace(_PAPER, corpus=12_000, cold=4_000),
}


def random_decoder(size: Size, device: str = "cpu", seed: int = 1, precision: Precision = "float32") -> Decoder:
    """Return a model of the paper's kind with random weights, scaled as fairseq initialises them."""
    use_precision(precision, device)
    draw = torch.Generator().manual_seed(seed)
    d, m = size.model, size.keys
    normal = lambda *shape: torch.randn(shape, generator=draw) * shape[-1] ** -0.5
    weights: Weights = {}
    for i in range(size.layers):
        own = {
            "qkv.weight": normal(3 * d, d), "attention_out.weight": normal(d, d), "keys": normal(m, d),
            "values": normal(m, d) * (d / m) ** 0.5, "qkv.bias": torch.zeros(3 * d),
            "attention_out.bias": torch.zeros(d), "key_bias": torch.zeros(m), "value_bias": torch.zeros(d),
        } | {f"{n}.{k}": v for n in ("attention_norm", "norm") for k, v in
             (("weight", torch.ones(d)), ("bias", torch.zeros(d)))}  # fmt: skip
        weights |= {f"layers.{i}.{name}": tensor for name, tensor in own.items()}
    start = 0
    for band, end in enumerate(size.cutoffs):
        width = d // 4**band
        weights[f"input.{band}.embedding"] = normal(end - start, width)
        weights[f"input.{band}.projection"] = normal(d, width) * (width / d) ** 0.5
        start = end
    weights |= {"output.head": weights["input.0.embedding"], "output.classes": normal(len(size.cutoffs) - 1, d)}
    for k in range(len(size.cutoffs) - 1):
        weights[f"output.{k}.embedding"] = weights[f"input.{k + 1}.embedding"]
        weights[f"output.{k}.projection"] = weights[f"input.{k + 1}.projection"].t().contiguous()
    unique = {t.data_ptr(): t.numel() for t in weights.values()}
    description = Description(
        size.layers, d, m, size.heads, size.cutoffs[-1], size.cutoffs, True, size.cutoffs, True, False, False, 512,
        d**0.5, sum(unique.values()), {},
    )  # fmt: skip
    return Decoder(description, weights, device, precision=precision)


def random_corpus(tokens: int, vocab: int, seed: int = 1, longest: int = 500) -> Corpus:
    """Return sentences of so many tokens in all; their lengths log-normal, their tokens by Zipf's law."""
    rng = np.random.default_rng(seed)
    drawn = rng.lognormal(np.log(MEAN_LENGTH) - SPREAD**2 / 2, SPREAD, 2 * tokens // MEAN_LENGTH + 100)
    lengths = np.clip(drawn.round(), 2, longest).astype(np.int64)
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), tokens)) + 1]
    chance = 1 / np.arange(1, vocab - 3)
    words = rng.choice(np.arange(4, vocab), size=int(lengths.sum()), p=chance / chance.sum()).astype(np.int32)
    return Corpus(words, np.concatenate([[0], np.cumsum(lengths)]), len(lengths))

"""The language model as a stack of key-value memories: its whole forward pass, in plain torch.

    x = decoder.embed(batch)
    for layer in decoder.layers:
        layer_output = layer(x, batch)  # r^l, m^l = ReLU(LN(r^l) K^T + b1), y^l = m^l V + b2, o^l = r^l + y^l
        x = layer_output.output

Every experiment of the paper writes this loop and takes from it what it studies. Tokens of all sentences of a batch
lie one after the other in one (tokens, d) matrix; only attention knows where a sentence begins.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ff_memories.base.arithmetic import Precision
from ff_memories.corpus.dictionary import EOS, PAD
from ff_memories.model import matmul
from ff_memories.model.batches.prefix_tree import Level, PrefixTree
from ff_memories.model.files.converted import Description, Weights
from ff_memories.model.matmul import USUAL, Paths, Scoring, linear
from ff_memories.model.vocabulary import Vocabulary


def band_of(lengths: np.ndarray) -> np.ndarray:
    """Return the band of each length: no sentence is padded to more than twice its length."""
    return np.ceil(np.log2(lengths))


@dataclass(frozen=True)
class Batch:
    """Sentences packed without padding: groups of exactly equal length, one after the other."""

    tokens: Tensor  # (rows,) int64 ids, the model's start token (fairseq's ``</s>``) first in each sentence
    positions: Tensor  # (rows,) int64, 0 at the start token: row p of a sentence is its prefix of length p
    groups: tuple[tuple[int, int, int], ...]  # (first row, sentences, rows per sentence) of each group

    @classmethod
    def pack(cls, sentences: Sequence[np.ndarray], device: torch.device | str = "cpu", start: int = EOS) -> "Batch":
        """Pack sentences (token ids without the start token), which must come sorted by length."""
        rows = np.array([len(s) + 1 for s in sentences])
        if (np.diff(rows) < 0).any():
            raise ValueError("sentences are not sorted by length")
        starts = np.cumsum(rows) - rows
        tokens = np.insert(np.concatenate(sentences), starts - np.arange(len(rows)), start).astype(np.int64)
        positions = np.arange(len(tokens)) - np.repeat(starts, rows)
        lengths, first, count = np.unique(rows, return_index=True, return_counts=True)
        groups = tuple((int(starts[i]), int(n), int(t)) for i, n, t in zip(first, count, lengths, strict=True))
        return cls(torch.from_numpy(tokens).to(device), torch.from_numpy(positions).to(device), groups)

    def sentences(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first row (sentences,) of each sentence, and how many rows it has."""
        lengths = np.repeat([rows for _, _, rows in self.groups], [n for _, n, _ in self.groups])
        return np.cumsum(lengths) - lengths, lengths

    @cached_property
    def ends(self) -> Tensor:
        """(sentences + 1,) int32, 0 and the row behind each sentence."""
        ends = np.concatenate([[0], np.cumsum(self.sentences()[1])])
        return torch.from_numpy(ends.astype(np.int32)).to(self.tokens.device)

    @cached_property
    def last(self) -> Tensor:
        """(sentences,) int64, the row of each sentence's last token."""
        return self.ends[1:].long() - 1

    @cached_property
    def bands(self) -> tuple[Paths, ...]:
        """The sentences in groups of like length (``band_of``), each padded to its longest."""
        groups, send = list[Paths](), partial(torch.as_tensor, device=self.tokens.device)
        begins, lengths = self.sentences()
        band = band_of(lengths)
        for number in np.unique(band):
            first, length = begins[band == number, None], lengths[band == number, None]
            inside = np.arange(length.max()) < length
            rows = np.where(inside, first + np.arange(length.max()), first)
            groups.append((send(rows), send(np.flatnonzero(inside)), send(rows[inside])))
        return tuple(groups)

    def attention(self, q: Tensor, k: Tensor, v: Tensor, scoring: Scoring = USUAL) -> Tensor:
        """Return attention's output (rows, heads, d_head) for queries, keys and values (rows, heads, d_head) each.

        Keys and values may have fewer heads.
        """
        if matmul.takes_sentences(q, v, scoring):
            return matmul.attention_of_sentences(q, k, v, self.ends, self.groups[-1][2], scoring)
        if q.is_cuda:
            return matmul.attention_along(q, k, v, self.bands, len(q), scoring)
        out = v.new_empty(*q.shape[:2], v.shape[2])
        for start, sentences, rows in self.groups:
            part = slice(start, start + sentences * rows)
            q_, k_, v_ = (x[part].unflatten(0, (sentences, rows)).transpose(1, 2) for x in (q, k, v))
            mixed = matmul.attention(q_, k_, v_, scoring).transpose(1, 2)
            out[part].view(sentences, rows, *out.shape[1:]).copy_(mixed)
        return out


Rows = Batch | Level  # what a layer runs over; ``interventions.Branches`` too


class LayerOutput(NamedTuple):
    """What one layer computes, a row per token (section 2)."""

    residual: Tensor  # (rows, d), r, which the feed-forward output is added to
    coefficients: Tensor  # (rows, d_m), m
    update: Tensor  # (rows, d), y, the feed-forward output; empty where the layer stopped at its coefficients
    output: Tensor  # (rows, d), o = r + y; empty likewise


def signed_coefficients(coefficients: Tensor, rows: Tensor, memories: Tensor) -> Tensor:
    """Return single coefficients (n,) of a matrix (rows, d_m).

    Memory ``d_m + i`` is memory i with its sign changed, as models with both signs count them.
    """
    keys = coefficients.shape[1]
    positive = coefficients[rows, memories % keys]
    return torch.where(memories < keys, positive, -positive)


class AnyLayer(Protocol):
    """One block of a model, as every experiment runs it: ``DecoderLayer``, or ``transformer.hooked.HookedLayer``."""

    @property
    def keys(self) -> Tensor:
        """(d_m, d), the keys; of a gated layer (d_m, 2 d), the two vectors of each key."""

    @property
    def values(self) -> Tensor:
        """(memories, d), the values."""

    @property
    def added(self) -> Tensor:
        """(memories, d), what each memory adds to m V: its value, before the norm behind it, if there is one."""

    def behind(self, m: Tensor) -> tuple[Callable[[Tensor], Tensor], Tensor] | None:
        """Return the norm behind the feed-forward layer and what it takes, m V + b2 (rows, d); ``None`` without one."""

    def __call__(
        self, x: Tensor, batch: Rows, *, last: bool = False, needed: int | None = None, out: Tensor | None = None
    ) -> LayerOutput: ...


class LanguageModel(ABC):
    """What every experiment asks of a model: ``Decoder``, or ``transformer.hooked.HookedModel``."""

    description: Description  # what the model is
    precision: Precision
    device: torch.device
    dtype: torch.dtype
    start: int  # id of the token that every sentence begins with
    signs: int  # 1, or 2 where the coefficients' negative values are memories of their own
    forests: bool  # whether layers take a ``PrefixTree``
    parallel: bool  # whether the feed-forward layer reads its block's input, beside attention
    embedding: Tensor  # (vocab, d), of the input
    vocabulary: Vocabulary
    layers: Sequence[AnyLayer]  # the blocks, from below

    @property
    def memories(self) -> int:
        """Memories per layer: d_m, or twice that with both signs."""
        return self.signs * self.description.keys

    @property
    def neurons(self) -> int | None:
        """d_m with both signs, which tables then tell from keys; else ``None``."""
        return self.description.keys if self.signs == 2 else None

    @property
    def max_tokens(self) -> int:
        """The longest sentence of a run, without the start token: no longer than a layer's window of attention."""
        return self.description.max_positions - 1

    @property
    def longest(self) -> int:
        """The longest text the model takes, without the start token."""
        return self.max_tokens

    def pack(self, sentences: Sequence[np.ndarray]) -> Batch:
        """Return sentences, sorted by length and without the start token, as a batch on the model's device."""
        return Batch.pack(sentences, self.device, self.start)

    def pack_unsorted(self, sentences: Sequence[np.ndarray]) -> tuple[Batch, np.ndarray]:
        """Return sentences in any order as a batch, and (sentences,) the row of each one's start token."""
        order = np.argsort([len(sentence) for sentence in sentences], kind="stable")
        batch, first = self.pack([sentences[i] for i in order]), np.empty_like(order)
        first[order] = batch.sentences()[0]
        return batch, first

    @abstractmethod
    def embed(self, batch: Batch | PrefixTree) -> Tensor:
        """Return the input of the first layer (rows, d)."""

    def forward(self, batch: Batch) -> Tensor:
        """Return the last layer's output o^L (rows, d), before the model's final norm if it has one."""
        x = self.embed(batch)
        for layer in self.layers:
            x = layer(x, batch).output
        return x

    def close(self) -> None:  # noqa: B027  # a model of our own has nothing to take out
        """Take out of the library's model what reads it; nothing can be computed with it any more."""


class DecoderLayer:
    """One block: self-attention, then the feed-forward memories (section 2)."""

    def __init__(self, weights: Weights, index: int, heads: int):
        tensors = {n.split(".", 2)[2]: t for n, t in weights.items() if n.startswith(f"layers.{index}.")}
        self.heads = heads
        self.attention_norm = tensors["attention_norm.weight"], tensors["attention_norm.bias"]
        self.qkv, self.attention_out = (
            (matmul.with_bias(tensors[f"{name}.weight"], tensors[f"{name}.bias"]), tensors[f"{name}.bias"])
            for name in ("qkv", "attention_out")
        )
        self.norm = tensors["norm.weight"], tensors["norm.bias"]
        self.key_bias, self.value_bias = tensors["key_bias"], tensors["value_bias"]
        self._first = matmul.with_bias(tensors["keys"], self.key_bias)  # the two matrices as they are multiplied by
        self._second = matmul.with_bias(tensors["values"].t(), self.value_bias)
        self.keys = self._first[:, : tensors["keys"].shape[1]]  # (d_m, d): key i is row i
        self.values = self.added = self._second[:, : len(tensors["values"])].t()  # (d_m, d): value i is row i

    def __call__(
        self, x: Tensor, batch: Rows, *, last: bool = False, needed: int | None = None, out: Tensor | None = None
    ) -> LayerOutput:
        """Run the layer.

        Args:
            x: (rows, d), the output of the layer below.
            last: whether to stop at the coefficients, before the second matrix.
            needed: how many rows, the first ones, need an output; ``None``: all.
            out: (rows, d_m) memory for the coefficients.
        """
        residual = self.attend(x, batch)
        coefficients = self.coefficients(residual, out)
        if last:
            nothing = residual[:0]
            return LayerOutput(residual, coefficients, nothing, nothing)
        update = self.combine(coefficients[:needed])
        return LayerOutput(residual, coefficients, update, residual[:needed] + update)

    def attend(self, x: Tensor, batch: Rows) -> Tensor:
        """Return the residual r (rows, d): the layer's input plus its self-attention."""
        qkv = linear(F.layer_norm(x, x.shape[1:], *self.attention_norm), *self.qkv)
        q, k, v = qkv.to(self.qkv[0].dtype).unflatten(1, (3, self.heads, -1)).unbind(1)
        mixed = batch.attention(q, k, v).flatten(1)
        return x[: len(mixed)] + linear(mixed, *self.attention_out)

    def coefficients(self, residual: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the memory coefficients m (rows, d_m) = ReLU(x K^T + b1), x the normalised residual (equation 1).

        ``out``: (rows, d_m) memory to put them in.
        """
        x = F.layer_norm(residual, residual.shape[1:], *self.norm)
        return matmul.relu_linear(x, self._first, self.key_bias, out)

    def combine(self, coefficients: Tensor) -> Tensor:
        """Return the feed-forward output y (rows, d) = m V + b2, the sum of values weighted by their coefficients."""
        return linear(coefficients, self._second, self.value_bias)

    def behind(self, _: Tensor) -> None:
        """Return ``None``: there is no norm behind the feed-forward layer."""


class Decoder(LanguageModel):
    """A fairseq ``transformer_lm`` for analysis: inputs, layers of memories, output vocabulary.

    Args:
        dtype: of all numbers; float64 is for tests.
        precision: ``extraction.precision``. With ``bfloat16``, matrices that are multiplied by are held in bfloat16;
            ``tf32`` is a setting of the GPU (``loading.use_precision``).
    """

    start, signs = EOS, 1
    forests, parallel = True, False
    layers: list[DecoderLayer]

    def __init__(
        self,
        description: Description,
        weights: Weights,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        precision: Precision = "float32",
    ):
        self.description, self.precision = description, precision
        self.device, self.dtype = torch.device(device), dtype
        factor = torch.bfloat16 if precision == "bfloat16" else dtype
        looked_up = re.compile(r"input\.\d+\.embedding|positions").fullmatch  # other matrices are multiplied by
        is_factor = {n: t.dim() == 2 and not looked_up(n) for n, t in weights.items()}
        weights = {n: t.to(self.device, factor if is_factor[n] else dtype) for n, t in weights.items()}
        self.embedding = _input_table(description, weights)  # (vocab, d)
        learned = weights.get("positions")
        self.positions = sinusoids(description.max_positions + 1, description.model) if learned is None else learned
        self.positions = self.positions.to(self.device, dtype)
        self.layers = [DecoderLayer(weights, i, description.heads) for i in range(description.layers)]
        self.vocabulary = Vocabulary(description.output_cutoffs, weights, precision)

    def embed(self, batch: Batch | PrefixTree) -> Tensor:
        """Return the input of the first layer (rows, d): scaled embeddings plus positions."""
        return self.embedding[batch.tokens] + self.positions[batch.positions + PAD + 1]


def _input_table(description: Description, weights: Weights) -> Tensor:
    """Return every token's input vector (vocab, d), scaled: one look-up replaces a product per band."""
    bands = []
    for band in range(len(description.input_cutoffs)):
        table = weights[f"input.{band}.embedding"]
        projection = weights.get(f"input.{band}.projection")
        bands.append(table if projection is None else linear(table, projection))
    return torch.cat(bands).mul_(description.embedding_scale)


def sinusoids(length: int, dimensions: int) -> Tensor:
    """Return sinusoidal position vectors (PAD + 1 + length, d) float32 as fairseq computes them; row PAD is zero."""
    half = dimensions // 2
    frequencies = torch.exp(torch.arange(half, dtype=torch.float) * -(np.log(10000) / (half - 1)))
    angles = torch.arange(PAD + 1 + length, dtype=torch.float).unsqueeze(1) * frequencies
    table = torch.cat([torch.sin(angles), torch.cos(angles)], dim=1)
    table = F.pad(table, (0, dimensions - 2 * half))
    table[PAD] = 0
    return table

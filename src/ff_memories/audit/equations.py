"""A fairseq ``transformer_lm`` in float64, equation by equation: the audit's reference for checkpoints.

It takes one sentence at a time through plain sums and products. It shares the checkpoint's reader with the package, but
no forward pass, attention, softmax, batching, tiling or precision. ``Activations`` are what the audit's other
reference, ``transformers_oracle``, gives as well.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from ff_memories.audit.near_equal import Error, Tops
from ff_memories.corpus.dictionary import BOS, EOS, PAD
from ff_memories.model.files import checkpoint
from ff_memories.model.files.converted import Weights
from ff_memories.model.vocabulary import Vocabulary

EPSILON = 1e-5  # of fairseq's layer norms


@dataclass(frozen=True)
class Activations:
    """One layer's activations for a sentence, its first token in front: row j is the prefix of length j."""

    # (rows, d) r, to which the feed-forward output is added, or what a parallel block reads (``composition.residual``)
    residual: torch.Tensor
    m: torch.Tensor  # (rows, d_m) what the values are multiplied by
    # (rows, d_m) each, the sums that m is made of: x K^T + b1, or those of the gate and the up matrix
    scores: tuple[torch.Tensor, ...]
    ffn: torch.Tensor  # (rows, d) y, the feed-forward layer's output
    output: torch.Tensor  # (rows, d) o, the layer's output
    signs: int = 1  # 2 if memory d_m + i is memory i with its sign changed
    outliers: bool = False  # whether the first row is not like the others: many models give it far larger numbers

    def coefficients(self) -> torch.Tensor:
        """Return the memory coefficients (rows, memories)."""
        return torch.cat([self.m, -self.m], 1) if self.signs == 2 else self.m

    def noise(self, share: float) -> float:
        """Return the usual error of a coefficient, where a score's is a share of the layer's largest score."""
        return share * self._largest(self.scores[0] if len(self.scores) == 1 else self.m)

    def unsure(self, share: float, error: Error = lambda scores, usual: usual) -> torch.Tensor:
        """Return (memories,) whose coefficient at the last row may have either sign, or none."""
        last = [score[-1] for score in self.scores]
        unsure = torch.zeros_like(last[0], dtype=torch.bool)
        for score, last_score in zip(self.scores, last, strict=True):
            unsure |= last_score.abs() <= error(last_score, share * self._largest(score))
        if self.signs == 2:  # GELU below zero is a difference of equal numbers
            product = torch.stack(last).prod(0).abs()
            unsure |= (self.m[-1] != 0) & (self.m[-1].abs() <= share * product)
            return torch.cat([unsure, unsure])
        return unsure

    def _largest(self, numbers: torch.Tensor) -> float:
        return float(numbers[int(self.outliers and len(numbers) > 1) :].abs().max())


def held(scale: torch.Tensor, epsilon: float, centred: bool, change: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Return what changes (..., d) add behind a norm whose deviation is held at that of ``at`` (d,)."""
    if centred:
        change, at = change - change.mean(-1, keepdim=True), at - at.mean()
    return scale * change / (at.square().mean() + epsilon).sqrt()


class Change(NamedTuple):
    """A vector (d,) that is added to m V of layer 1..L at the last token of a sentence (ids without the first token).

    ``seen``: what the sentence's layers give without that; those below ``layer`` give the same.
    """

    tokens: Collection[int]
    seen: Sequence[Activations]
    layer: int
    vector: torch.Tensor


class Equations:
    """A checkpoint's model in float64 that runs one sentence at a time and turns vectors into predictions.

    ``signs``: 2 if memory d_m + i is memory i with its sign changed, else 1.
    ``reading``, ``seed``: ``values.projection``, its seed. With ``random``, layers still use the model's own softmax.
    """

    signs, start = 1, BOS  # the released code takes <s> for what an empty prefix ends in

    def __init__(self, path: str | Path, reading: str = "adaptive", seed: int = 1):
        self.about, weights = checkpoint.read(path)
        self.reading, self.seed = reading, seed
        self.draw_again(weights)

    def draw_again(self, weights: Weights, kind: torch.dtype = torch.float64) -> None:
        """Give the model other weights, under the paper's names: those of an untrained model."""
        self.own = {name: tensor.detach().to(kind) for name, tensor in weights.items()}
        self._tops: dict[tuple[int, tuple[int, ...], float], Tops] = {}
        self._other: Vocabulary | None = None  # how values are read, if it is not the model's own softmax
        if self.reading != "adaptive":
            self._other = Vocabulary(self.about.output_cutoffs, self.own).reading(self.reading, self.seed)

    @property
    def keys(self) -> tuple[int, int]:
        """The numbers of layers and of keys per layer, L and d_m."""
        return self.about.layers, self.about.keys

    def vectors(self, of: str, layer: int) -> torch.Tensor:
        """Return what the memories of layer 1..L have, a row each: (d_m, d).

        ``of``: ``value``, v; or ``added``, what a memory adds to m V per unit: its value, before a norm that stands
        behind it.
        """
        return self.own[f"layers.{layer - 1}.values"]

    def direct(self, here: Activations, layer: int, vector: torch.Tensor) -> torch.Tensor:
        """Return what a vector (..., d) adds to y if it is added to m V at the last token, with a norm between held."""
        return vector

    def changed(self, *changes: Change) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return, of each change, what the last layer and the changed layer's y give at the last token, (d,) each."""
        out = []
        for _, seen, layer, vector in changes:
            ffn = torch.cat([seen[layer - 1].ffn[:-1], seen[layer - 1].ffn[-1:] + vector])
            x = seen[layer - 1].residual + ffn
            for block in range(layer, self.about.layers):
                x = self._layer(x, block).output
            out.append((x[-1], ffn[-1]))
        return out

    def layers(self, tokens: Collection[int], until: int | None = None) -> list[Activations]:
        """Run one sentence (ids without ``</s>``) by itself; return the activations of layers 1 to ``until`` (all)."""
        x = torch.stack([self._input(token, position) for position, token in enumerate([EOS, *map(int, tokens)])])
        activations = []
        for block in range(until or self.about.layers):
            activations.append(self._layer(x, block))
            x = activations[-1].output
        return activations

    def several(self, texts: Sequence[Collection[int]], until: int | None = None) -> list[list[Activations]]:
        """Run several sentences, one by one."""
        return [self.layers(tokens, until) for tokens in texts]

    @contextmanager
    def in_float32(self) -> Iterator[None]:
        """Compute in float32 meanwhile."""
        exact = self.own
        self.draw_again(exact, torch.float32)
        try:
            yield
        finally:
            self.draw_again(exact)

    def _layer(self, x: torch.Tensor, block: int) -> Activations:
        """Run one layer, counted from 0, on its input (rows, d)."""

        def weight(name: str) -> torch.Tensor:
            return self.own[f"layers.{block}.{name}"]

        residual = x + self._attention(self._norm(x, f"layers.{block}.attention_norm"), weight)
        score = self._norm(residual, f"layers.{block}.norm") @ weight("keys").T + weight("key_bias")
        m = score.clamp(min=0)
        ffn = m @ weight("values") + weight("value_bias")
        return Activations(residual, m, (score,), ffn, residual + ffn)

    def _input(self, token: int, place: int) -> torch.Tensor:
        """Return a token's input vector (d,): its embedding, projected if its band is narrower, plus its place."""
        band = next(band for band, end in enumerate(self.about.input_cutoffs) if token < end)
        first = (0, *self.about.input_cutoffs)[band]
        vector = self.own[f"input.{band}.embedding"][token - first]
        if (projection := self.own.get(f"input.{band}.projection")) is not None:
            vector = projection @ vector
        return vector * self.about.embedding_scale + self._place(place + PAD + 1).to(vector)

    def _place(self, number: int) -> torch.Tensor:
        if (learned := self.own.get("positions")) is not None:
            return learned[number]
        half = self.about.model // 2
        # fairseq computes these in float32
        step = torch.tensor(-(math.log(10000) / (half - 1)), dtype=torch.float64).float()
        angles = number * torch.exp(torch.arange(half, dtype=torch.float32) * step)
        both = torch.cat([torch.sin(angles), torch.cos(angles)]).double()
        return torch.cat([both, both.new_zeros(self.about.model - 2 * half)])

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        deviation = (centred.pow(2).mean(-1, keepdim=True) + EPSILON).sqrt()
        return centred / deviation * self.own[f"{name}.weight"] + self.own[f"{name}.bias"]

    def _attention(self, x: torch.Tensor, own: Callable[[str], torch.Tensor]) -> torch.Tensor:
        parts = (x @ own("qkv.weight").T + own("qkv.bias")).chunk(3, -1)
        query, key, value = (part.view(len(x), self.about.heads, -1).transpose(0, 1) for part in parts)
        later = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        scores = query @ key.transpose(1, 2) / math.sqrt(self.about.model // self.about.heads)
        mixed = scores.masked_fill(later, -math.inf).softmax(-1) @ value
        return mixed.transpose(0, 1).flatten(1) @ own("attention_out.weight").T + own("attention_out.bias")

    def final(self, h: torch.Tensor) -> torch.Tensor:
        """Return a layer's output (..., d) as the softmax reads it: behind the model's final norm, if it has one."""
        return self._norm(h, "final_norm") if self.about.final_norm else h

    def held_final(self, change: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """Return what changes (..., d) add behind the final norm, whose deviation is held at that of h (d,)."""
        if not self.about.final_norm:
            return change
        return held(self.own["final_norm.weight"], EPSILON, True, change, h)

    def linear(self, h: torch.Tensor) -> torch.Tensor:
        """Return h (..., d), behind the final norm, times the output matrix: logits (..., vocab) before bias and cap.

        In an adaptive softmax, a tail's word has its class's logit plus its own within the tail.
        """
        return self._joined(h, lambda scores: scores)

    def word(self, token: int) -> torch.Tensor:
        """Return what ``linear`` multiplies by for a token's logit, (d,)."""
        tensors, cutoffs = self.own, self.about.output_cutoffs
        if token < cutoffs[0]:
            vector = tensors["output.head"][token]
            if (projection := tensors.get("output.head_projection")) is not None:
                vector = projection.T @ vector
        else:
            tail = next(tail for tail, end in enumerate(cutoffs[1:]) if token < end)
            inside = tensors[f"output.{tail}.embedding"][token - cutoffs[tail]] @ tensors[f"output.{tail}.projection"]
            vector = tensors["output.classes"][tail] + inside
        return vector if (projection := tensors.get("output.projection")) is None else projection.T @ vector

    def softmax(self, h: torch.Tensor) -> torch.Tensor:
        """Return log p (..., vocab) under the model's own output layer: one softmax, or an adaptive one."""
        return self._joined(h, lambda scores: scores.log_softmax(-1))

    def _joined(self, h: torch.Tensor, normal: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Return numbers of all words (..., vocab), given what is done to the scores of the head and of each tail."""
        if (projection := self.own.get("output.projection")) is not None:
            h = h @ projection.T
        words = h
        if (projection := self.own.get("output.head_projection")) is not None:
            words = h @ projection.T
        first = words @ self.own["output.head"].T
        classes = self.own.get("output.classes")
        if classes is None:
            return normal(first)
        first = normal(torch.cat([first, h @ classes.T], -1))
        size, tails = self.about.output_cutoffs[0], len(self.about.output_cutoffs) - 1
        parts = [first[..., :size]]
        for tail in range(tails):
            inside = h @ self.own[f"output.{tail}.projection"].T @ self.own[f"output.{tail}.embedding"].T
            parts.append(first[..., size + tail, None] + normal(inside))
        return torch.cat(parts, -1)

    def of_value(self, h: torch.Tensor) -> torch.Tensor:
        """Return values' log p (..., vocab) under the config's ``values.projection`` (section 4)."""
        if self._other is None:
            return self.softmax(h)
        return self._other.log_probabilities(h.view(-1, h.shape[-1])).view(*h.shape[:-1], -1)

    def of_memory(self, h: torch.Tensor) -> torch.Tensor:
        """Return a value's log p (vocab,), or those of several (n, d) as (n, vocab), as used in section 5.1."""
        return self.softmax(h) if self.reading == "random" else self.of_value(h)

    def predicting(
        self, layer: int, token: int, left_out: list[int], limit: float, among: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (memories,) whether a layer's values predict a token by ``of_memory``, and whether that is a near-tie.

        ``left_out``: tokens that do not count. ``limit``: how far log p may be off (``slack``). ``among``: (memories,)
        those that are asked about; of the others, neither is said.
        """
        if (asked := (layer, tuple(left_out), limit)) not in self._tops:
            values = self.vectors("value", layer)
            self._tops[asked] = Tops(lambda rows: self.of_memory(values[rows]), len(values), left_out, limit)
        return self._tops[asked].predicting(token, among)

    def of_layer(self, h: torch.Tensor) -> torch.Tensor:
        """Return the log p (..., vocab) of residuals, feed-forward or layer outputs (..., d) (section 5)."""
        return self.of_memory(self.final(h))

    def said(self, h: torch.Tensor) -> torch.Tensor:
        """Return the model's own log p (..., vocab) for the last layer's output (..., d)."""
        return self.softmax(self.final(h))

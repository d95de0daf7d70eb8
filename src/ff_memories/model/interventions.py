"""Run a model with vectors added to feed-forward outputs, and compare what its last layer predicts; beyond the paper.

A change adds a vector to m V of one layer (equation 2) at the last token of a prefix, and the layers above run again.
Changing the coefficient of memory i by c adds c v_i. Logits are as the output matrix gives them, before a bias and a
cap. In an adaptive softmax, a tail's word has its class's logit plus its own within the tail, both before their
softmaxes: what a vector adds to it is then linear, as elsewhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ff_memories.model.decoder import AnyLayer, Batch, LanguageModel
from ff_memories.model.matmul import USUAL, Scoring, linear, matmul, require_finite, widened
from ff_memories.model.vocabulary import Vocabulary

GATHERED = 1 << 24  # numbers of keys, and of values, that are gathered at once
LOGITS = 1 << 22  # log-probabilities held at once, in float64 and several times
TINY = 1e-30
# of a layer's number, the numbers of its changes (n,) and the coefficients (n, d_m) of their prefixes: (n, d)
Vectors = Callable[[int, np.ndarray, torch.Tensor], torch.Tensor]


class Branches:
    """Prefixes as a batch, by length, and branches behind it, changed versions of their last tokens: one row each.

    A change at a prefix's last token reaches nothing but that token in the layers above: earlier tokens never look at
    it. So a branch attends to the keys and values of its prefix's earlier tokens, which run once, and to its own.
    ``base``: (branches,) which prefix each branch is of.
    """

    def __init__(self, batch: Batch, base: torch.Tensor):
        self.batch = batch
        lengths = torch.cat([torch.full((n,), rows) for _, n, rows in batch.groups]).to(base.device)
        again = torch.cat([torch.arange(len(batch.tokens), device=base.device), batch.last[base]])
        self.tokens, self.positions = batch.tokens[again], batch.positions[again]
        before = torch.arange(int(lengths.max()) - 1, device=base.device)
        first = batch.last - lengths + 1
        self._seen = before < (lengths - 1)[base, None]  # (branches, width)
        self._behind = (lengths - 1)[base, None] - before  # how far a token is behind the branch
        self._rows = torch.where(self._seen, first[base, None] + before, 0)

    def attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scoring: Scoring = USUAL) -> torch.Tensor:
        """Return attention's output (rows, heads, d_head) of prefixes and first branches, as ``Batch.attention``."""
        prefix_rows = len(self.batch.tokens)
        prefixes = self.batch.attention(q[:prefix_rows], k[:prefix_rows], v[:prefix_rows], scoring)
        return torch.cat([prefixes, self._branched(q[prefix_rows:], k, v, scoring)])

    def _branched(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scoring: Scoring) -> torch.Tensor:
        """Return attention's output (branches, heads, d_head) for the branches' queries and all keys and values."""
        (scale, cap, window), prefix_rows, kind = scoring, len(self.batch.tokens), q.dtype
        q, k, v = (x.float() if x.dtype == torch.bfloat16 else x for x in (q, k, v))
        shared = q.unflatten(1, (k.shape[1], -1))  # (branches, heads of keys, queries that share one, d_head)
        out = q.new_empty(len(q), q.shape[1], v.shape[2])
        width, factor = self._rows.shape[1] + 1, q.shape[2] ** -0.5 if scale is None else scale
        for part in torch.arange(len(q), device=q.device).split(max(1, GATHERED // (width * k[0].numel()))):
            rows = torch.cat([self._rows[part], prefix_rows + part[:, None]], 1)
            near = self._behind[part] < (window or width)
            visible = torch.cat([self._seen[part] & near, self._seen.new_ones(len(part), 1)], 1)
            scores = matmul(shared[part], k[rows].permute(0, 2, 3, 1)) * factor
            if cap is not None:
                scores = cap * torch.tanh(scores / cap)
            shares = torch.softmax(scores.masked_fill(~visible[:, None, None], -torch.inf), -1)
            out[part] = matmul(shares, v[rows].transpose(1, 2)).flatten(1, 2)
        return out.to(kind)


@dataclass(frozen=True)
class LastLayer:
    """The last layer's outputs o^L (section 5.2), with and without changes."""

    unchanged: torch.Tensor  # (prefixes, d)
    which: torch.Tensor  # (changes,) int64, the prefix of each change
    changed: torch.Tensor  # (changes, d)
    direct: torch.Tensor  # (changes, d), what each change would add to o^L if no layer above reacted


def run_changed(
    decoder: LanguageModel, prefixes: Sequence[np.ndarray], which: np.ndarray, layer: np.ndarray, vector: Vectors
) -> LastLayer:
    """Run prefixes once, and every change of their last token from its layer on.

    Args:
        prefixes: token ids without the start token, by length.
        which, layer: (changes,) which prefix, and which layer from 1; layers ascend.
        vector: what each change adds to m V.
    """
    base = torch.from_numpy(which).to(decoder.device)
    if decoder.forests:
        rows: Any = Branches(decoder.pack(prefixes), base)
        last, changed = rows.batch.last, len(rows.batch.tokens) + torch.arange(len(which), device=decoder.device)
        x = decoder.embed(rows)[: len(rows.batch.tokens)]
    else:
        every = [*prefixes, *(prefixes[i] for i in which)]  # whole copies: the layers take no attention of ours
        rows, first = decoder.pack_unsorted(every)
        ends = torch.from_numpy(first + [len(text) for text in every]).to(decoder.device)
        last, changed = ends[: len(prefixes)], ends[len(prefixes) :]
        x = decoder.embed(rows)
    direct = x.new_zeros(len(which), x.shape[1])
    for number, block in enumerate(decoder.layers, 1):
        layer_output = block(x, rows)
        require_finite(f"layer {number}: outputs of changed prefixes", layer_output.output)
        x, here = layer_output.output, np.arange(*np.searchsorted(layer, [number, number + 1]))
        if len(here):
            at = last[base[here]]
            m = layer_output.coefficients[at]
            added, direct[here] = added_to_output(block, m, vector(number, here, m))
            x = torch.cat([x, x[at] + added]) if decoder.forests else x.index_add(0, changed[here], added)
    return LastLayer(x[last], base, x[changed], direct)


@dataclass(frozen=True)
class Setting:
    """A memory's coefficient as it is set at a text's last token."""

    layer: int  # from 1
    memory: int  # d_m + i is memory i of sign -1
    to: float  # in the memory's sign; with ``times``, as many times the coefficient that it has
    times: bool = False


def with_settings(
    decoder: LanguageModel, tokens: np.ndarray, settings: Sequence[Setting]
) -> tuple[list[tuple[float, float]], torch.Tensor]:
    """Run a text (tokens,) beside itself with coefficients set at its last token, layer after layer.

    A coefficient is read when its layer runs, so it has what settings below made of it. Return what each coefficient
    was when it was set, and what it was set to; and (2, d) the last layer's output at the last token, as it is and with
    all settings.
    """
    coefficients: dict[int, tuple[float, float]] = {}
    with torch.inference_mode():
        batch = decoder.pack([tokens, tokens])
        x = decoder.embed(batch)
        for number, block in enumerate(decoder.layers, 1):
            layer_output = block(x, batch)
            x, indices = layer_output.output, [i for i, setting in enumerate(settings) if setting.layer == number]
            if not indices:
                continue
            m, values = layer_output.coefficients[batch.last[1:]], block.added
            vector = torch.zeros_like(values[:1])
            for i in indices:
                memory, neurons = settings[i].memory, m.shape[1]
                now = float(m[0, memory % neurons]) * (1 if memory < neurons else -1)
                coefficients[i] = now, settings[i].to * now if settings[i].times else settings[i].to
                vector = vector + (coefficients[i][1] - now) * values[memory]
            x = x.index_add(0, batch.last[1:], added_to_output(block, m, widened(vector))[0])
    require_finite("outputs with the coefficients that were set", x[batch.last])
    return [coefficients[i] for i in range(len(settings))], x[batch.last]


def added_to_output(block: AnyLayer, m: torch.Tensor, vector: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what a layer's output gains (n, d) if m V gains a vector (n, d), and the same with its norm held.

    That is the norm behind the feed-forward layer, if there is one; its deviation is that at coefficients m (n, d_m).
    """
    if (behind := block.behind(m)) is None:
        return vector, vector
    norm, at = behind
    return norm(at + vector) - norm(at), HeldNorm(norm, at)(vector, at)


class HeldNorm:
    """A layer norm or RMS norm whose deviation is held: then it is linear. A change still loses its mean.

    The norm is read by its outputs; ``like``: (any, d), of the type and on the device of its inputs.
    """

    def __init__(self, norm: Callable[[torch.Tensor], torch.Tensor], like: torch.Tensor):
        x = like.new_full((3, like.shape[1]), 1000.0)
        x[0, 1::2] *= -1
        x[1] = 0
        out = norm(x)
        self.norm, self.shift = norm, out[1]
        self.centred = bool((out[2] - out[1]).abs().max() < 1e-3 * (out[0] - out[1]).abs().max())
        centre = self._centre(x[:1])
        deviation = centre.square().mean(1, keepdim=True).sqrt()
        self.scale = ((out[:1] - out[1]) * deviation / centre)[0]  # (d,)

    def __call__(self, change: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Return what a change (rows, d) adds to the norm of ``at`` (rows, d), whose deviation is held."""
        return self.scale * self._centre(change) * self._length_after(at) / self._length_before(at)

    def back(self, along: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Return (rows, d) whose product with a change is that of ``along`` (rows, d) with the held norm of it."""
        return self._centre(self.scale * along) * self._length_after(at) / self._length_before(at).clamp(min=TINY)

    def _centre(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(1, keepdim=True) if self.centred else x

    def _length_before(self, at: torch.Tensor) -> torch.Tensor:
        return (self.scale * self._centre(at)).norm(dim=1, keepdim=True)

    def _length_after(self, at: torch.Tensor) -> torch.Tensor:
        return (self.norm(at) - self.shift).norm(dim=1, keepdim=True)


def logit_vectors(vocabulary: Vocabulary, tokens: torch.Tensor) -> torch.Tensor:
    """Return what the output layer multiplies by for each token's logit, (tokens, d); see the module's description."""
    vectors: torch.Tensor | None = None
    for number, cluster in enumerate(vocabulary.clusters):
        here = (tokens >= cluster.first) & (tokens < cluster.first + cluster.size)
        of_cluster = widened(cluster.embedding[tokens[here] - cluster.first])
        if cluster.projection is not None:
            of_cluster = linear(of_cluster, cluster.projection.t())
        if number and vocabulary.classes is not None:
            of_cluster = of_cluster + widened(vocabulary.classes[number - 1])
        if vocabulary.out is not None:
            of_cluster = linear(of_cluster, vocabulary.out.t())
        vectors = of_cluster.new_zeros(len(tokens), of_cluster.shape[1]) if vectors is None else vectors
        vectors[here] = of_cluster
    assert vectors is not None, "a vocabulary has words"
    return vectors


def logit_changes(
    vocabulary: Vocabulary, ends: LastLayer, promoted: torch.Tensor, other: torch.Tensor
) -> dict[str, np.ndarray]:
    """Return what changes of a mean logit, (changes,) float64 each; of tokens' mean ``logit_vectors``, (changes, d).

    ``direct``: what the vector itself adds, through the norms behind it at the deviations that they have: that behind
    the feed-forward layer, where there is one, and the final one. ``total``: how much it changes when the layers above
    run again; ``other_total``: the same of the other tokens. ``total_frozen``: ``total`` with the final norm's
    deviation held. In the last layer this is ``direct``, unless a norm stands behind the feed-forward layer.
    """
    h = ends.unchanged[ends.which]
    held_norm = vocabulary.norm and HeldNorm(vocabulary.norm, h)
    changes = ends.direct, ends.changed - h
    direct, frozen = changes if held_norm is None else (held_norm(change, h) for change in changes)
    free = vocabulary.output(ends.changed) - vocabulary.output(h)
    products = {
        "direct": (direct, promoted),
        "total": (free, promoted),
        "total_frozen": (frozen, promoted),
        "other_total": (free, other),
    }
    return {name: (a.double() * b.double()).sum(1).cpu().numpy() for name, (a, b) in products.items()}


def prediction_changes(vocabulary: Vocabulary, ends: LastLayer, following: np.ndarray) -> dict[str, np.ndarray]:
    """Return how the model's prediction changes, (changes,) each; in nats, but for the last.

    ``top_log_probability``: log p of the token that it predicts without the change. ``loss``: -log p of the true next
    token, ``following``; NaN where that is -1. ``kl``: the divergence from the new prediction to the old one.
    ``top_changed``: whether it predicts another token.
    """

    def log_p(rows: torch.Tensor) -> torch.Tensor:
        said = vocabulary.log_probabilities(vocabulary.output(rows), whole=True).double()
        return said - said.logsumexp(1, keepdim=True)  # a sum in float32 loses the unlikely tokens beside a sure one

    target = torch.from_numpy(following).to(ends.changed.device)
    parts: list[tuple[torch.Tensor, ...]] = []
    for rows in torch.arange(len(target), device=target.device).split(max(1, LOGITS // vocabulary.size)):
        unique, index = ends.which[rows].unique(return_inverse=True)
        before, after = log_p(ends.unchanged[unique])[index], log_p(ends.changed[rows])
        top, targets = before.argmax(1, keepdim=True), target[rows].clamp(min=0)[:, None]
        change = after - before
        lost = torch.where(target[rows] < 0, torch.nan, -change.gather(1, targets).squeeze(1))
        less = torch.where(before > -torch.inf, -change * before.exp(), 0).sum(1).clamp(min=0)
        parts.append((change.gather(1, top).squeeze(1), lost, less, after.argmax(1) != top.squeeze(1)))
    names = ("top_log_probability", "loss", "kl", "top_changed")
    return {name: torch.cat(part).cpu().numpy() for name, part in zip(names, zip(*parts, strict=True), strict=True)}

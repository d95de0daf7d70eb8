"""Projection to the vocabulary (section 4, footnote 4): top token, its probability, ranks; in tiles, nothing kept.

``softmax(h E)`` of the paper stands for the model's own output layer: an adaptive softmax for the paper's model.
Its head holds the frequent words and one class per tail; a tail word's log-probability is its class's plus its own
within the tail. A tail can hold the top word only where its class logit exceeds the best head word's, so tails are
computed for those rows alone.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from ff_memories.model.checkpoint import Description, Weights

TILE = 32_768  # words of a tail projected at once
ROWS = 512  # vectors projected at once


@dataclass
class Prediction:
    """What vectors predict: (rows,) each.

    Attributes:
        top: id of the most probable token, the lowest id among equals.
        probability: its probability.
        target_rank: tokens with strictly higher log-probability than the target (0 = top); -1 without a target.
        target_probability: the target's probability; NaN without a target.
    """

    top: torch.Tensor
    probability: torch.Tensor
    target_rank: torch.Tensor | None = None
    target_probability: torch.Tensor | None = None


@dataclass
class Cluster:
    """Tokens first ... first + size - 1, projected to by ``embedding @ projection``."""

    first: int
    embedding: torch.Tensor  # (size, d_k)
    projection: torch.Tensor | None  # (d_k, d)

    @property
    def size(self) -> int:
        return self.embedding.shape[0]

    def inner(self, h: torch.Tensor) -> torch.Tensor:
        return h if self.projection is None else F.linear(h, self.projection)

    def tiles(self, h: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (first word of the tile within the cluster, logits (rows, tile))."""
        z = self.inner(h)
        for start in range(0, self.size, TILE):
            yield start, F.linear(z, self.embedding[start : start + TILE])


class Vocabulary:
    """The model's output layer; ``kind`` is how vectors are read: adaptive (the model's own), flat or head."""

    def __init__(self, description: Description, weights: Weights, kind: str = "adaptive"):
        self.size = description.vocab
        self.norm = None
        if "final_norm.weight" in weights:
            self.norm = weights["final_norm.weight"], weights["final_norm.bias"]
        self.out = weights.get("output.projection")
        head = Cluster(0, weights["output.head"], weights.get("output.head_projection"))
        tails = [
            Cluster(start, weights[f"output.{k}.embedding"], weights[f"output.{k}.projection"])
            for k, start in enumerate(description.output_cutoffs[:-1])
        ]
        self.clusters, self.classes = [head, *tails], weights.get("output.classes") if tails else None
        self._description, self._weights = description, weights
        self.kind = kind

    def reading(self, kind: str, seed: int = 1) -> "Vocabulary":
        """Return the same vocabulary read another way.

        ``adaptive``: the model's own softmax. ``flat``: the paper's softmax(h E), one softmax over all words, the
        tails' embeddings projected to the model's width. ``head``: the head's words alone. ``random``: the released
        script's adaptive softmax, whose class and tail projections were initialised (Xavier uniform) but never loaded;
        ``seed`` draws them.
        """
        if kind not in ("adaptive", "flat", "head", "random"):
            raise ValueError(kind)
        other = Vocabulary(self._description, self._weights, kind)
        if kind == "head":
            other.clusters, other.classes, other.size = other.clusters[:1], None, other.clusters[0].size
        if kind == "random" and self.classes is not None:
            draw = torch.Generator().manual_seed(seed)
            other.classes = _xavier(self.classes, draw)
            for cluster in other.clusters[1:]:
                cluster.projection = _xavier(cluster.projection, draw)
        return other

    def word_vectors(self) -> torch.Tensor:
        """Return what every word is read by, (vocab, d): h . E of the paper's softmax(h E)."""
        vectors = [c.embedding if c.projection is None else c.embedding @ c.projection for c in self.clusters]
        return torch.cat(vectors)

    def output(self, h: torch.Tensor) -> torch.Tensor:
        """Return layer vectors (rows, d) as the output softmax takes them: through the final norm, if there is one."""
        return h if self.norm is None else F.layer_norm(h, h.shape[1:], *self.norm)

    def log_probabilities(self, h: torch.Tensor) -> torch.Tensor:
        """Return log p (rows, vocab) in full. For small cases; ``predict`` never builds it."""
        h = h if self.out is None else F.linear(h, self.out)
        logits = [torch.cat([t for _, t in c.tiles(h)], 1) for c in self.clusters]
        if self.classes is None or self.kind == "flat":
            return torch.log_softmax(torch.cat(logits, 1), 1)
        head = torch.log_softmax(torch.cat([logits[0], F.linear(h, self.classes)], 1), 1)
        tails = [torch.log_softmax(t, 1) + head[:, logits[0].shape[1] + k, None] for k, t in enumerate(logits[1:])]
        return torch.cat([head[:, : logits[0].shape[1]], *tails], 1)

    def predict(self, h: torch.Tensor, target: torch.Tensor | None = None, rank: bool = True) -> Prediction:
        """Return the prediction of every vector.

        Args:
            h: (rows, d) vectors.
            target: (rows,) token ids whose rank and probability are asked for; -1 for none.
            rank: whether ranks are needed, which costs every tail for every row that has a target.
        """
        parts = [
            self._rows(h[i : i + ROWS], None if target is None else target[i : i + ROWS], rank)
            for i in range(0, max(1, len(h)), ROWS)
        ]
        columns = zip(*((p.top, p.probability, p.target_rank, p.target_probability) for p in parts), strict=True)
        return Prediction(*(None if c[0] is None else torch.cat(c) for c in columns))

    def _rows(self, h: torch.Tensor, target: torch.Tensor | None, rank: bool) -> Prediction:
        h = h if self.out is None else F.linear(h, self.out)
        flat = self.classes is None or self.kind == "flat"
        head = torch.cat([t for _, t in self.clusters[0].tiles(h)], 1)
        top_logit, top = head.max(1)
        if flat:
            prior = [h.new_zeros(len(h))] * len(self.clusters)  # every word competes in one softmax
            norm = torch.logsumexp(head, 1)
        else:
            classes = F.linear(h, self.classes)
            norm = torch.logsumexp(torch.cat([head, classes], 1), 1)
            prior = [h.new_zeros(len(h)), *classes.unbind(1)]
        tails = []
        for k, cluster in enumerate(self.clusters[1:], 1):
            if flat or (rank and target is not None):
                need = torch.ones(len(h), dtype=torch.bool, device=h.device)
            else:
                need = prior[k] > top_logit
                if target is not None:
                    need |= (target >= cluster.first) & (target < cluster.first + cluster.size)
            tails.append(self._tail(cluster, h, prior[k], need, target))
        if flat:
            for tail in tails:
                norm = torch.logaddexp(norm, tail["lse"])
        for k, tail in enumerate(tails, 1):  # the tail's best word, in head logits
            tail["offset"] = prior[k] - (0 if flat else tail["lse"])
            best = torch.where(tail["need"], tail["max"] + tail["offset"], -torch.inf)
            wins = best > top_logit
            top_logit = torch.where(wins, best, top_logit)
            top = torch.where(wins, tail["argmax"] + self.clusters[k].first, top)
        out = Prediction(top, torch.exp(top_logit - norm))
        if target is not None:
            self._targets(out, h, head, tails, norm, target, rank)
        return out

    def _tail(self, cluster, h, prior, need, target):
        """One pass over a tail's tiles: largest logit, its word, log-sum-exp and the target's own logit."""
        full = lambda value: torch.full((len(h),), value, dtype=h.dtype, device=h.device)
        best, lse, own = full(-torch.inf), full(-torch.inf), full(torch.nan)
        arg = torch.zeros(len(h), dtype=torch.long, device=h.device)
        rows = need.nonzero().squeeze(1)
        if len(rows):
            b, a, s, o = best[rows], arg[rows], lse[rows], own[rows]
            for start, tile in cluster.tiles(h[rows]):
                value, word = tile.max(1)
                a = torch.where(value > b, word + start, a)
                b = torch.maximum(b, value)
                s = torch.logaddexp(s, torch.logsumexp(tile, 1))
                if target is not None:
                    at = target[rows] - cluster.first - start
                    inside = (at >= 0) & (at < tile.shape[1])
                    picked = tile.gather(1, at.clamp(0, tile.shape[1] - 1)[:, None]).squeeze(1)
                    o = torch.where(inside, picked, o)
            best[rows], arg[rows], lse[rows], own[rows] = b, a, s, o
        return {"need": need, "max": best, "argmax": arg, "lse": lse, "own": own}

    def _targets(self, out, h, head, tails, norm, target, rank):
        """Fill in the targets' probabilities and ranks. Within its own cluster a target's rank is exact."""
        n = self.clusters[0].size
        in_head = (target >= 0) & (target < n)
        own = head.gather(1, target.clamp(0, n - 1)[:, None]).squeeze(1)
        logit = torch.where(in_head, own, torch.nan)  # in head logits
        for tail in tails:
            logit = torch.where(tail["own"].isnan(), logit, tail["own"] + tail["offset"])
        out.target_probability = torch.exp(logit - norm)
        if not rank:
            return
        count = (head > logit[:, None]).sum(1)
        for tail, cluster in zip(tails, self.clusters[1:], strict=True):
            bar = torch.where(tail["own"].isnan(), logit - tail["offset"], tail["own"])
            for _, tile in cluster.tiles(h):
                count += (tile > bar[:, None]).sum(1)
        out.target_rank = torch.where(logit.isnan(), -1, count)


def _xavier(like: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    """Return a matrix of another's shape as fairseq's adaptive softmax initialises it."""
    bound = math.sqrt(6 / sum(like.shape))
    drawn = torch.rand(like.shape, generator=draw) * (2 * bound) - bound
    return drawn.to(like.device, like.dtype)

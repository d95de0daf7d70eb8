"""Projection to the vocabulary (section 4, footnote 4): top token, its probability, ranks; in tiles, nothing kept.

One softmax over all words takes one matrix product, for vectors with either sign; what is read off the logits is read
a few rows at a time, while they are in the cache.

``softmax(h E)`` of the paper stands for the model's own output layer: an adaptive softmax for the paper's model.
Its head holds the frequent words and one class per tail; a tail word's log-probability is its class's plus its own
within the tail. A tail is projected only for vectors where it can matter: `Tail.reach` bounds what its words attain,
and a vector whose best head word (for ranks: whose target) lies above that bound needs no look at the tail.
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ff_memories.base.arithmetic import ROUNDOFF, Precision
from ff_memories.model.batches.batching import retry_smaller
from ff_memories.model.files.converted import Weights
from ff_memories.model.matmul import linear, widened

TILE = 4096  # words of a tail projected at once: what is done to their logits is done in the cache
MARGIN = 1e-3  # on a tail's reach, for what sums in float32 round away; rounded factors come on top
ROWS = 512  # vectors projected at once
IN_CACHE = 1 << 19  # logits read at once, on a CPU


@dataclass
class Prediction:
    """What vectors predict: (rows,) each.

    A rank is the number of tokens with strictly higher log-probability than the target, 0 = top; -1 without a target,
    or where ranks are not asked for. What is ``trained`` is so among the types that the model is trained to predict,
    all others left out; probabilities are still those of the softmax over all types.
    """

    top: Tensor  # id of the most probable token, the lowest id among equals
    probability: Tensor  # its probability
    target_rank: Tensor
    target_probability: Tensor  # NaN without a target
    trained_top: Tensor
    trained_probability: Tensor
    trained_rank: Tensor

    @classmethod
    def joined(cls, parts: list["Prediction"]) -> "Prediction":
        """Return the predictions of several blocks of vectors, one after the other."""
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return cls(*(torch.cat(column) for column in columns))


@dataclass
class Cluster:
    """Tokens first ... first + size - 1, projected to by ``embedding @ projection``."""

    first: int
    embedding: Tensor  # (size, d_k)
    projection: Tensor | None  # (d_k, d)

    @property
    def size(self) -> int:
        return self.embedding.shape[0]

    def inner(self, h: Tensor) -> Tensor:
        return h if self.projection is None else linear(h, self.projection)

    def logits(self, h: Tensor) -> Tensor:
        """Return the logits (rows, size), projected tile by tile."""
        z = self.inner(h)
        if h.device.type != "cpu" or self.size <= TILE:
            return torch.cat([tile for _, tile in self.tiles(z)], 1)
        out = z.new_empty(len(z), self.size)
        for start in range(0, self.size, TILE):
            part = slice(start, start + TILE)
            linear(z, self.embedding[part], out=out[:, part])
        return out

    def tiles(self, z: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield (first word of the tile within the cluster, logits (rows, tile)) of vectors within its own space."""
        for start in range(0, self.size, TILE):
            yield start, linear(z, self.embedding[start : start + TILE])

    @cached_property
    def extent(self) -> tuple[float, Tensor]:
        """The length of the longest word vector, and the mean of all (d_k,)."""
        words = widened(self.embedding)
        return float(words.norm(dim=1).max()), words.mean(0)


class Tail:
    """One tail of the softmax and a block of vectors, projected for some of them.

    With four words, none longer than 1 and with mean 0, and a vector of length 1 in the tail's space:

        a word's logit at most 1, their log-sum-exp at least log 4 = 1.39   log-probability in the tail at most -0.39
        the tail's class in the head: prior -2                              reach -2.39, and a margin
        best word of the head: -2.1                                         above reach: no need to project the vector

    Attributes:
        reach: (rows,) no word of the tail lies above it, in head logits.
        max, argmax, lse, own: (rows,) largest logit, its word, log-sum-exp, and the target's own logit; NaN for vectors
            that were not projected, ``own`` for targets elsewhere too.
        offset: (rows,) what brings the tail's logits to the head's.
    """

    def __init__(self, cluster: Cluster, h: Tensor, prior: Tensor, flat: bool, roundoff: float):
        self.cluster, self.prior, self.flat = cluster, prior, flat
        self.z = cluster.inner(h)
        if flat:
            self.reach = torch.full_like(prior, torch.inf)
        else:  # logit - lse: a logit is at most |z| |e|, and by Jensen lse at least log(n) + the logits' mean
            longest, mean = cluster.extent
            largest = self.z.norm(dim=1) * longest
            most = largest - math.log(cluster.size) - linear(self.z, mean[None]).squeeze(1)
            self.reach = prior + torch.clamp(most, max=0) + MARGIN + 4 * roundoff * largest
        self.max, self.lse, self.own = (torch.full_like(prior, torch.nan) for _ in range(3))
        self.argmax = torch.zeros(len(h), dtype=torch.long, device=h.device)
        self._done = torch.zeros(len(h), dtype=torch.bool, device=h.device)
        self._kept: list[tuple[Tensor, list[Tensor]]] = []

    @property
    def offset(self) -> Tensor:
        return torch.zeros_like(self.prior) if self.flat else self.prior - self.lse

    def holds(self, target: Tensor) -> Tensor:
        """Return (rows,) bool: whose targets are words of this tail."""
        return (target >= self.cluster.first) & (target < self.cluster.first + self.cluster.size)

    def project(self, need: Tensor, target: Tensor | None, keep: bool) -> None:
        """Project the vectors that need it and were not yet; ``keep`` their logits for ``above``."""
        rows = (need & ~self._done).nonzero().squeeze(1)
        if not len(rows):
            return
        self._done[rows] = True
        z, tiles = self.z[rows], []
        best, lse = (z.new_full((len(z),), -torch.inf) for _ in range(2))
        word, target_logit = rows.new_zeros(len(rows)), z.new_full((len(z),), torch.nan)
        for start, tile in self.cluster.tiles(z):
            value = tile.amax(1)
            rises = (value > best).nonzero().squeeze(1)
            word[rises] = tile[rises].argmax(1) + start
            best = torch.maximum(best, value)
            lse = torch.logaddexp(lse, torch.logsumexp(tile, 1))
            if target is not None:
                at = target[rows] - self.cluster.first - start
                picked = tile.gather(1, at.clamp(0, tile.shape[1] - 1)[:, None]).squeeze(1)
                target_logit = torch.where((at >= 0) & (at < tile.shape[1]), picked, target_logit)
            if keep:
                tiles.append(tile)
        self.max[rows], self.argmax[rows], self.lse[rows], self.own[rows] = best, word, lse, target_logit
        if keep:
            self._kept.append((rows, tiles))

    def logits_of(self, words: Tensor) -> Tensor:
        """Return the logits (rows, words) of a few words, in head logits; NaN for vectors that were not projected."""
        return linear(self.z, self.cluster.embedding[words]) + self.offset[:, None]

    def best_without(self, rows: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return the largest logit, in head logits, and its type, for some vectors and without some words."""
        need = torch.zeros_like(self._done)
        need[rows] = True
        self.project(need, None, keep=False)
        best, word = self.max[rows], self.argmax[rows]
        again = torch.isin(word, words).nonzero().squeeze(1)
        if len(again):
            best[again] = -torch.inf
            for start, tile in self.cluster.tiles(self.z[rows[again]]):
                here = words[(words >= start) & (words < start + tile.shape[1])] - start
                value, at = tile.index_fill_(1, here, -torch.inf).max(1)
                rises = value > best[again]
                best[again] = torch.where(rises, value, best[again])
                word[again] = torch.where(rises, at + start, word[again])
        return best + self.offset[rows], word + self.cluster.first

    def above(self, bar: Tensor) -> Tensor:
        """Return (rows,) how many words' logits exceed a bar; none where the tail was not projected."""
        count = torch.zeros(len(bar), dtype=torch.long, device=bar.device)
        for rows, tiles in self._kept:
            count[rows] = torch.stack([_above(tile, bar[rows], torch.empty_like(tile)) for tile in tiles]).sum(0)
        return count


class Vocabulary:
    """The model's output layer: its clusters end at ``ends``, and ``kind`` is how vectors are read (``reading``)."""

    def __init__(self, ends: Sequence[int], weights: Weights, precision: Precision = "float32"):
        self.size, self.precision = ends[-1], precision
        self.norm: Callable[[Tensor], Tensor] | None = None
        if "final_norm.weight" in weights:
            weight, bias = weights["final_norm.weight"], weights["final_norm.bias"]
            self.norm = partial(F.layer_norm, normalized_shape=weight.shape, weight=weight, bias=bias)
        self.bias: Tensor | None = None  # (vocab,) of the output layer
        self.cap: float | None = None  # logits are cap * tanh(logit / cap)
        self.scale: Tensor | None = None  # (d,) of the final norm, where ``scaled`` can read by it
        self._unscaled: Vocabulary | None = None  # of ``scaled``: what reads layers
        self.out = weights.get("output.projection")
        head = Cluster(0, weights["output.head"], weights.get("output.head_projection"))
        tails = [
            Cluster(start, weights[f"output.{k}.embedding"], weights[f"output.{k}.projection"])
            for k, start in enumerate(ends[:-1])
        ]
        self.clusters, self.classes = [head, *tails], weights.get("output.classes") if tails else None
        self._weights, self.kind = weights, "adaptive"
        self.never = torch.zeros(0, dtype=torch.long, device=head.embedding.device)  # ids of types never trained
        self.generator_state: Tensor | None = None  # of ``random``, after its draws

    def reading(self, kind: str, seed: int = 1) -> "Vocabulary":
        """Return the same vocabulary read another way.

        ``adaptive``: the model's own softmax. ``flat``: the paper's softmax(h E), one softmax over all words, the
        tails' embeddings projected to the model's width. ``head``: the head's words alone. ``random``: the released
        script's adaptive softmax over the input embeddings, whose class and tail projections were drawn but never
        loaded; ``seed`` draws them (``unloaded``). ``raw``: the output layer's matrix alone, without norm, bias and
        cap. ``scaled``: that matrix times the final norm's scale; ``read`` takes the matrix as it is, because the
        norm scales already.
        """
        if kind not in ("adaptive", "flat", "head", "random", "raw", "scaled"):
            raise ValueError(kind)
        other = copy.copy(self)
        other.kind, other.clusters = kind, [replace(cluster) for cluster in self.clusters]
        if kind == "scaled" and self.scale is not None:
            whole = other.clusters[0].embedding
            other.clusters[0].embedding = (whole * self.scale).to(whole.dtype)
            other._unscaled = self
        if kind == "head":
            other.clusters, other.classes, other.size = other.clusters[:1], None, other.clusters[0].size
        if kind == "random" and self.classes is not None:
            for k, cluster in enumerate(other.clusters):  # tied in the paper's model, where this changes nothing
                words = self._weights.get(f"input.{k}.embedding")
                if words is not None and len(words) == cluster.size:
                    cluster.embedding = words.to(cluster.embedding.dtype)
            bands = [(cluster.size, cluster.embedding.shape[1]) for cluster in other.clusters]
            classes, tails, other.generator_state = _unloaded(bands, self.classes.shape[1], seed)
            other.replace_projections(classes, tails)
        return other

    def leave_out(self, never: list[int]) -> None:
        """Say which types the model is never trained to predict (``Dictionary.never_trained``)."""
        self.never = torch.tensor(never, dtype=torch.long, device=self.never.device)

    def replace_projections(self, classes: Tensor, tails: list[Tensor]) -> None:
        """Read classes (tails, d) and words of the tails, (d_k, d) each, by other projections than the model's."""
        like = self.clusters[0].embedding
        self.classes = classes.to(like.device, like.dtype)
        for cluster, projection in zip(self.clusters[1:], tails, strict=True):
            cluster.projection = projection.to(like.device, like.dtype)

    def word_vectors(self) -> Tensor:
        """Return what every word is read by, (vocab, d): h . E of the paper's softmax(h E)."""
        parts = ((cluster.embedding, cluster.projection) for cluster in self.clusters)
        return torch.cat([widened(words) if p is None else linear(words, p.t()) for words, p in parts])

    def output(self, h: Tensor) -> Tensor:
        """Return layer vectors (rows, d) as the output softmax takes them: through the final norm, if there is one."""
        return h if self.norm is None else self.norm(h)

    def read(self, h: Tensor, target: Tensor | None = None, rank: bool = True) -> Prediction:
        """Return what the model's whole output layer predicts from layer vectors (rows, d): final norm, bias and cap.

        ``predict`` takes vectors as they are, as values are read. Arguments as there.
        """
        unscaled = self._unscaled or self
        return unscaled.predict(unscaled.output(h), target, rank, whole=True)

    def _whole(self, logits: Tensor) -> Tensor:
        """Add the output layer's bias to logits (rows, vocab), and cap them."""
        if self.bias is not None:
            logits = logits + self.bias
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)

    def logits(self, h: Tensor) -> Tensor:
        """Return the logits (rows, vocab) of ``read`` in full, of a ``plain`` vocabulary."""
        return self._whole(self.clusters[0].logits(self._projected(self.output(h))))

    def log_probabilities(self, h: Tensor, whole: bool = False) -> Tensor:
        """Return log p (rows, vocab) in full. For small cases; ``predict`` never builds it."""
        h = self._projected(h)
        logits = [c.logits(h) for c in self.clusters]
        if whole:
            logits[0] = self._whole(logits[0])
        if self.classes is None or self.kind == "flat":
            return torch.log_softmax(torch.cat(logits, 1), 1)
        head = torch.log_softmax(torch.cat([logits[0], linear(h, self.classes)], 1), 1)
        tails = [torch.log_softmax(t, 1) + head[:, logits[0].shape[1] + k, None] for k, t in enumerate(logits[1:])]
        return torch.cat([head[:, : logits[0].shape[1]], *tails], 1)

    @property
    def plain(self) -> bool:
        """Whether one matrix has all words: then the logits of a vector's negative are its logits' negatives."""
        return len(self.clusters) == 1

    def logits_of(self, h: Tensor, words: Tensor) -> Tensor:
        """Return the logits (rows, n) of a few words of a ``plain`` vocabulary, for vectors (rows, d)."""
        return linear(self._projected(h), self.clusters[0].embedding[words])

    def predict(self, h: Tensor, target: Tensor | None = None, rank: bool = True, whole: bool = False) -> Prediction:
        """Return the prediction of every vector.

        Args:
            h: (rows, d) vectors.
            target: (rows,) token ids whose rank and probability are asked for; -1 for none.
            rank: whether ranks are needed, which costs every tail for every row that has a target.
            whole: whether the output layer's bias and cap count (``read``).
        """
        return self.predict_signs(h, None if target is None else target[None], 1, rank, whole)[0]

    def predict_signs(
        self, h: Tensor, target: Tensor | None, signs: int, rank: bool = True, whole: bool = False
    ) -> list[Prediction]:
        """Return the prediction of every vector, and for ``signs`` 2 that of its negative, -h, too.

        ``target``: (signs, rows) token ids. Other arguments as of ``predict``.
        """
        blocks: list[list[Prediction]] = []

        def run(rows: slice) -> None:
            targets = None if target is None else target[:, rows]
            if self.plain:
                blocks.append(self._plain(h[rows], targets, signs, rank, whole))
            else:
                wanted = [None] * signs if targets is None else list(targets)
                blocks.append([self._rows(h[rows] if t == 0 else -h[rows], wanted[t], rank) for t in range(signs)])

        _in_blocks(run, len(h))
        return [Prediction.joined(list(parts)) for parts in zip(*blocks, strict=True)]

    def read_tops(self, h: Tensor) -> Tensor:
        """Return the top (rows,) of ``read`` alone."""
        unscaled = self._unscaled or self
        if not unscaled.plain:
            return unscaled.read(h).top
        tops: list[Tensor] = []

        def run(rows: slice) -> None:
            logits = unscaled.clusters[0].logits(unscaled._projected(unscaled.output(h[rows])))
            tops.append(torch.cat([_argmax(unscaled._whole(part)) for part in logits.split(_few(logits))]))

        _in_blocks(run, len(h))
        return torch.cat(tops)

    def _projected(self, h: Tensor) -> Tensor:
        return widened(h) if self.out is None else linear(h, self.out)

    def _plain(self, h: Tensor, target: Tensor | None, signs: int, rank: bool, whole: bool) -> list[Prediction]:
        """Return the predictions of a block of vectors, by sign, from the logits of one product."""
        logits = self.clusters[0].logits(self._projected(h))
        predictions: list[list[Prediction]] = [[] for _ in range(signs)]
        few = _few(logits)
        for start in range(0, max(1, len(logits)), few):
            rows = slice(start, start + few)
            for sign in reversed(range(signs)):  # the positive one last: ranks may take its logits' place
                part = logits[rows] if sign == 0 else -logits[rows]
                part = self._whole(part) if whole else part
                top = _argmax(part)
                top_logit = part.gather(1, top[:, None])
                # torch.logsumexp has the same bits and takes five times as long
                lse = (part - top_logit).exp_().sum(1).log_().add_(top_logit.squeeze(1))
                targets = None if target is None else target[sign, rows]
                predictions[sign].append(self._prediction(part, [], top, top_logit.squeeze(1), lse, targets, rank))
        return [Prediction.joined(parts) for parts in predictions]

    def _rows(self, h: Tensor, target: Tensor | None, rank: bool) -> Prediction:
        """Return the predictions of a block of vectors where words are in a head and tails."""
        h = self._projected(h)
        head = self.clusters[0].logits(h)
        top_logit, top = head.max(1)
        flat = self.kind == "flat"
        if flat or self.classes is None:
            classes = h.new_zeros(len(h), len(self.clusters) - 1)  # every word competes in one softmax
            lse = torch.logsumexp(head, 1)
        else:
            classes = linear(h, self.classes)
            lse = torch.logsumexp(torch.cat([head, classes], 1), 1)
        tails = [
            Tail(c, h, p, flat, ROUNDOFF[self.precision])
            for c, p in zip(self.clusters[1:], classes.unbind(1), strict=True)
        ]
        for tail in tails:
            need = tail.reach > top_logit if target is None else (tail.reach > top_logit) | tail.holds(target)
            tail.project(need, target, keep=rank and target is not None)
            if flat:
                lse = torch.logaddexp(lse, tail.lse)
        for tail in tails:  # the tail's best word, in head logits
            best = tail.max + tail.offset
            wins = best > top_logit  # never where the tail was not projected: NaN
            top_logit = torch.where(wins, best, top_logit)
            top = torch.where(wins, tail.argmax + tail.cluster.first, top)
        return self._prediction(head, tails, top, top_logit, lse, target, rank)

    def _prediction(
        self, head: Tensor, tails: list[Tail], top: Tensor, best: Tensor, lse: Tensor, target: Tensor | None, rank: bool
    ) -> Prediction:
        """Return what is read off a block's logits, given the best word of each row and its logit."""
        probability, none = torch.exp(best - lse), torch.full_like(top, -1)
        out = Prediction(top, probability, none, torch.full_like(probability, torch.nan), top, probability, none)
        logit = None if target is None else self._fill_targets(out, head, tails, lse, target, rank)
        out.trained_rank = out.target_rank
        if len(self.never):
            self._leave_out_untrained(out, head, tails, lse, target if rank else None, logit)
        return out

    def _fill_targets(
        self, out: Prediction, head: Tensor, tails: list[Tail], lse: Tensor, target: Tensor, rank: bool
    ) -> Tensor:
        """Fill in the targets' probabilities and ranks; return their logits (rows,), NaN without a target.

        Within its own cluster a target's rank is exact.
        """
        n = self.clusters[0].size
        in_head = (target >= 0) & (target < n)
        target_logit = head.gather(1, target.clamp(0, n - 1)[:, None]).squeeze(1)
        logit = torch.where(in_head, target_logit, torch.nan)  # in head logits
        for tail in tails:
            logit = torch.where(tail.own.isnan(), logit, tail.own + tail.offset)
        out.target_probability = torch.exp(logit - lse)
        if not rank:
            return logit
        count = _above(head, logit, torch.empty_like(head) if len(self.never) else head)
        for tail in tails:
            tail.project(tail.reach > logit, target, keep=True)
            count += tail.above(torch.where(tail.own.isnan(), logit - tail.offset, tail.own))
        out.target_rank = torch.where(logit.isnan(), -1, count)
        return logit

    def _leave_out_untrained(
        self, out: Prediction, head: Tensor, tails: list[Tail], lse: Tensor, target: Tensor | None, logit: Tensor | None
    ) -> None:
        """Fill in what is predicted without the types that the model is never trained to predict.

        ``target`` and ``logit``, (rows,) each: of those whose rank is known.
        """
        inside = self.never[self.never < head.shape[1]]
        inside_tails = [self.never[tail.holds(self.never)] - tail.cluster.first for tail in tails]
        rows = torch.isin(out.top, self.never).nonzero().squeeze(1)  # whose top is another one without them
        if len(rows):
            best, top = head[rows].index_fill_(1, inside, -torch.inf).max(1)
            for tail, words in zip(tails, inside_tails, strict=True):
                value, word = tail.best_without(rows, words)
                wins = value > best
                best, top = torch.where(wins, value, best), torch.where(wins, word, top)
            out.trained_top = out.top.index_copy(0, rows, top)
            out.trained_probability = out.probability.index_copy(0, rows, torch.exp(best - lse[rows]))
        if target is None or logit is None:
            return
        logits, types = [head[:, inside]], [inside]
        for tail, words in zip(tails, inside_tails, strict=True):
            logits.append(tail.logits_of(words))
            types.append(words + tail.cluster.first)
        above = torch.cat(logits, 1) > logit[:, None]  # never where a tail was not projected: NaN
        above &= torch.cat(types) != target[:, None]  # whose logit, computed again, may differ in its last bits
        out.trained_rank = torch.where(out.target_rank < 0, -1, out.target_rank - above.sum(1))


def _unloaded(bands: list[tuple[int, int]], d: int, seed: int) -> tuple[Tensor, list[Tensor], Tensor]:
    """Draw the class and tail projections that the released agreement script never loads; ``bands``: (words, width).

    The script builds fairseq's adaptive input and softmax, whose head is the first band, after
    ``torch.manual_seed(seed)``: the same numbers come from torch's generator in the same order. Returns those to the
    classes (tails, d) and to each tail (d_k, d), and the generator's state: in training mode, dropout goes on there.
    """
    with torch.random.fork_rng(devices=[]):  # torch's own generator stays as it was
        torch.default_generator.manual_seed(seed)
        for words, width in bands:  # the adaptive input: drawn twice over, then replaced by the checkpoint's
            nn.Embedding(words, width), nn.Linear(width, d, bias=False)
        for words, width in bands:
            nn.init.normal_(torch.empty(words, width)), nn.init.xavier_uniform_(torch.empty(d, width))
        modules = [nn.Linear(d, out, bias=False) for out in (len(bands) - 1, *(width for _, width in bands[1:]))]
        classes, *tails = (nn.init.xavier_uniform_(module.weight.detach()) for module in modules)
        return classes, tails, torch.default_generator.get_state()


def _in_blocks(run: Callable[[slice], None], rows: int) -> None:
    """Run blocks of ``ROWS`` vectors, in halves where memory runs out."""
    for start in range(0, max(1, rows), ROWS):
        block = range(start, min(start + ROWS, rows))
        retry_smaller(lambda part: run(slice(part.start, part.stop)), block, "vector")


def _few(logits: Tensor) -> int:
    """Return how many rows of logits fit into a CPU's cache; on a GPU all."""
    rows, words = logits.shape
    return max(1, IN_CACHE // words if logits.device.type == "cpu" else rows)


def _argmax(logits: Tensor) -> Tensor:
    """Return the first of each row's largest logits, (rows,); numpy finds it in a third of torch's time."""
    if logits.device.type != "cpu":
        return logits.max(1).indices
    return torch.from_numpy(logits.numpy().argmax(1))


def _above(logits: Tensor, bar: Tensor, room: Tensor) -> Tensor:
    """Return how many of each row's logits exceed a bar, (rows,).

    ``room``: of their shape, for each comparison as a float, which torch sums in a third of bools' time; the logits'
    own where these are read no more.
    """
    return torch.gt(logits, bar[:, None], out=room).sum(1).long()

"""E1, section 3.1: the prefixes of the training text with the highest memory coefficients of every key.

One forward pass serves all layers and keys. No vocabulary projection is made, nor the last layer's second matrix.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

from ff_memories import seeding
from ff_memories.corpus.store import Corpus
from ff_memories.errors import UserError
from ff_memories.memories import plan
from ff_memories.memories.topk import MAX_PREFIXES, Entries, TopTriggers
from ff_memories.model.decoder import Batch, Decoder
from ff_memories.progress import Progress

# prefix lengths looked at in a sentence of N tokens: from the first, to N plus the second, inclusive
POSITIONS = {"inner": (1, -1), "released": (0, -1), "full": (1, 0)}
_POWER_TABLE = torch.from_numpy(seeding.generator(0, "prefix hashes").integers(-(2**63), 2**63 - 1, size=1 << 16) | 1)


@dataclass(frozen=True)
class Prefixes:
    """Numbers of all prefixes: sentence s, length j is prefix ``starts[s] + j``, j in 0..N."""

    starts: np.ndarray

    @classmethod
    def of(cls, corpus: Corpus) -> "Prefixes":
        starts = corpus.offsets + np.arange(len(corpus.offsets))
        if starts[-1] > MAX_PREFIXES:
            raise UserError(f"{starts[-1]:,} prefixes are more than {MAX_PREFIXES:,}", "set corpus.train.max_sentences")
        return cls(starts)

    def locate(self, prefixes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (sentence, position) of prefix numbers."""
        sentence = np.searchsorted(self.starts, prefixes, side="right") - 1
        return sentence, prefixes - self.starts[sentence]


def available(corpus: Corpus, positions: str) -> np.ndarray:
    """Return (sentences,) how many prefixes each training sentence has to offer."""
    low, high = POSITIONS[positions]
    return np.maximum(corpus.lengths[: corpus.train] + high - low + 1, 0)


def require_enough(corpus: Corpus, top: int, positions: str, per_sentence: str) -> None:
    """Raise ``UserError`` where the training text has fewer prefixes than a key's list is to hold."""
    prefixes = available(corpus, positions)
    n = int((prefixes > 0).sum() if per_sentence == "best" else prefixes.sum())
    if n < top:
        what = "sentences with a prefix" if per_sentence == "best" else "prefixes"
        raise UserError(
            f"triggers.top is {top}, and the training text has {n} {what}",
            "lower triggers.top (and mutations.top, patterns.top), or give more text",
        )


def prefix_hashes(batch: Batch) -> torch.Tensor:
    """Return (rows,) int64: equal for prefixes with the same tokens, different (to 2**-64) otherwise."""
    device = batch.tokens.device
    powers = _POWER_TABLE[: int(batch.positions.max()) + 1].to(device)
    terms = (batch.tokens + 1) * powers[batch.positions]
    sums = terms.cumsum(0)  # modulo 2**64, as int64 arithmetic is
    first = torch.cat([start + torch.arange(n) * rows for start, n, rows in batch.groups]).to(device)
    rows = torch.cat([torch.full((n,), rows) for _, n, rows in batch.groups]).to(device)
    return sums - torch.repeat_interleave(sums[first] - terms[first], rows)


def trigger_examples(
    decoder: Decoder,
    corpus: Corpus,
    blocks: list[tuple[int, int]],
    *,
    top: int,
    positions: str = "inner",
    per_sentence: str = "best",
    duplicates: str = "keep",
    batch_tokens: int = 16_384,
) -> TopTriggers:
    """Find the ``top`` prefixes of every key in blocks of the training text.

    Args:
        decoder: the model.
        corpus, blocks: the text, and (first, end) of the blocks of sentences to look at.
        top: t.
        positions: prefix lengths, see ``POSITIONS``.
        per_sentence: ``best``, a sentence's best prefix alone (the first of equals), or ``all``.
        duplicates: ``drop`` keeps a prefix text at most once per key.
        batch_tokens: rows of one forward pass.

    Raises:
        UserError: coefficients that are not finite.
    """
    shape, prefixes = decoder.description, Prefixes.of(corpus)
    low, high = POSITIONS[positions]
    best = TopTriggers(shape.layers, shape.keys, top, 1 if duplicates == "drop" else top, decoder.device)
    total = int(sum(corpus.offsets[end] - corpus.offsets[first] for first, end in blocks))
    with torch.inference_mode(), Progress(total, "tokens", "triggers") as progress:
        for first, end in blocks:
            for part in plan.batches(corpus, first, end, batch_tokens, max(1, low - high), high == 0):
                _run(decoder, corpus, prefixes, part, best, low, high, per_sentence)
                progress.step(sum(len(c) * len(corpus.sentence(c[0])) for c in part.copies))
        best.finish()
    return best


def _run(decoder, corpus, prefixes, part: plan.Plan, best: TopTriggers, low: int, high: int, per_sentence: str):
    """One forward pass: offer every coefficient that reaches its key's gate."""
    cut = None if high == 0 else high  # rows are </s>, w_1 ... w_(N+high)
    batch = Batch.pack([corpus.sentence(s)[:cut] for s in part.sentences], decoder.device)
    copies = _Copies(part, prefixes, batch)
    x = decoder.embed(batch)
    for index, layer in enumerate(decoder.layers):
        residual = layer.attend(x, batch)
        coefficients = layer.coefficients(residual)
        _select(index, coefficients, batch, copies, best, low, per_sentence)
        if index + 1 < len(decoder.layers):
            x = residual + layer.combine(coefficients)
    if not torch.isfinite(residual).all():
        raise UserError(
            f"the model's numbers are not finite in sentences {part.sentences[0]} to {part.sentences[-1]}",
            "the weights overflow in float32: use another checkpoint",
        )


class _Copies:
    """From a batch's rows to the prefixes of all sentences with the same text."""

    def __init__(self, part: plan.Plan, prefixes: Prefixes, batch: Batch):
        device = batch.tokens.device
        counts = np.array([len(c) for c in part.copies])
        self.all_single = bool((counts == 1).all())
        self.count = torch.from_numpy(counts).to(device)
        self.first = torch.from_numpy(np.cumsum(counts) - counts).to(device)
        self.start = torch.from_numpy(prefixes.starts[np.concatenate(part.copies)]).to(device)
        self.row = torch.cat([start + torch.arange(n) * rows for start, n, rows in batch.groups]).to(device)
        self.text = prefix_hashes(batch)

    def entries(self, key, coefficient, sentence, position) -> Entries:
        """Return the entries of hits at (sentence within the batch, position)."""
        text = self.text[self.row[sentence] + position]
        if self.all_single:
            return Entries(key, coefficient, self.start[sentence] + position, text)
        count = self.count[sentence]
        each = torch.repeat_interleave(torch.arange(len(key), device=key.device), count)
        inside = torch.arange(len(each), device=key.device) - torch.repeat_interleave(count.cumsum(0) - count, count)
        start = self.start[self.first[sentence][each] + inside]
        return Entries(key[each], coefficient[each], start + position[each], text[each])


def _select(layer: int, coefficients, batch: Batch, copies: _Copies, best: TopTriggers, low: int, per_sentence: str):
    """Offer what reaches the gate: first the best of each sentence is compared, then only the sentences that hit."""
    views, maxima, before = [], [], 0
    for start, sentences, rows in batch.groups:
        view = coefficients[start : start + sentences * rows].view(sentences, rows, -1)[:, low:]
        views.append((before, view))
        maxima.append(view.amax(1))
        before += sentences
    if best.is_new(layer):
        best.raise_gate(layer, torch.cat(maxima))
    gate = best.gate[layer]
    for (before, view), maximum in zip(views, maxima, strict=True):
        sentence, key = (maximum >= gate).nonzero(as_tuple=True)
        if not len(sentence):
            continue
        if per_sentence == "best":
            value = maximum[sentence, key]
            position = view[sentence, :, key].argmax(1)
        else:
            hits = view[sentence, :, key]
            which, position = (hits >= gate[key, None]).nonzero(as_tuple=True)
            value, sentence, key = hits[which, position], sentence[which], key[which]
        best.offer(layer, copies.entries(key, value, before + sentence, position + low))


def table(best: TopTriggers, corpus: Corpus) -> pl.DataFrame:
    """Return the ``triggers`` table: ranks from 1, no row for a place that no prefix fills."""
    prefixes, parts = Prefixes.of(corpus), []
    for layer in range(len(best.lists)):
        entries, rank = best.ranked(layer)
        sentence, position = prefixes.locate(entries.prefix.cpu().numpy())
        inside = position < corpus.lengths[sentence]
        at = np.where(inside, corpus.offsets[sentence] + position, 0)
        parts.append(
            pl.DataFrame(
                {
                    "layer": np.full(len(entries), layer + 1, dtype=np.int64),
                    "key": entries.key.cpu().numpy(),
                    "rank": rank.cpu().numpy(),
                    "coefficient": entries.coefficient.cpu().numpy(),
                    "sentence": sentence,
                    "position": position,
                    "next_token": corpus.tokens[at].astype(np.int64),
                }
            ).with_columns(pl.when(pl.Series(inside, dtype=pl.Boolean)).then(pl.col("next_token")).alias("next_token"))
        )
    return pl.concat(parts)

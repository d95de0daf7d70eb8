"""Attention over the rows of a batch: one call per length, padded bands, and on a GPU one call, against float64."""

import numpy as np
import pytest
import torch

from ff_memories.model.decoder import Batch
from ff_memories.model.matmul import Scoring, attention_along, attention_of_sentences, takes_sentences

LENGTHS = np.sort(np.random.default_rng(1).lognormal(2, 0.8, 60).astype(int).clip(1, 70))
KINDS = {
    "plain": Scoring(),
    "scaled": Scoring(scale=0.3),
    "window": Scoring(window=5),
    "window of all": Scoring(window=500),
    "cap": Scoring(cap=4.0),
    "cap and window": Scoring(cap=4.0, window=9),
}
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


def rows_of(device, heads, shared, dtype=torch.float64):
    batch = Batch.pack([np.full(n, 5) for n in LENGTHS], device)
    made = torch.Generator().manual_seed(2)
    draw = lambda n: torch.randn(len(batch.tokens), n, 8, generator=made, dtype=torch.float64).to(device, dtype)
    return batch, draw(heads), draw(shared), draw(shared)


def by_hand(batch, q, k, v, scoring):
    """Return attention sentence by sentence, head by head, by its equation."""
    (scale, cap, window), out = scoring, torch.empty_like(q)
    for first, n in zip(*batch.sentences(), strict=True):
        part = slice(int(first), int(first + n))
        for head in range(q.shape[1]):
            of = head * k.shape[1] // q.shape[1]
            scores = q[part, head] @ k[part, of].T * (8**-0.5 if scale is None else scale)
            scores = scores if cap is None else cap * torch.tanh(scores / cap)
            behind = torch.arange(n)[:, None] - torch.arange(n)
            seen = (behind >= 0) & (behind < (window or n))
            out[part, head] = torch.softmax(scores.masked_fill(~seen.to(q.device), -torch.inf), -1) @ v[part, of]
    return out


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shared", [4, 2, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_all_ways_are_the_equation(kind, shared, device):
    batch, q, k, v = rows_of(device, 4, shared)
    wanted = by_hand(batch, q, k, v, KINDS[kind])
    found = [batch.attention(q, k, v, KINDS[kind]), attention_along(q, k, v, batch.bands, len(q), KINDS[kind])]
    for way in found:
        torch.testing.assert_close(way, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype, off", [(torch.float32, 2e-6), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("kind", [kind for kind, how in KINDS.items() if how.cap is None])
def test_every_type_is_near_float64(kind, dtype, off, device):
    batch, q, k, v = rows_of(device, 4, 2, dtype)
    wanted = by_hand(batch, q.double(), k.double(), v.double(), KINDS[kind])
    ways = [batch.attention(q, k, v, KINDS[kind]), attention_along(q, k, v, batch.bands, len(q), KINDS[kind])]
    if device == "cuda":
        assert takes_sentences(q, v)
        ways.append(attention_of_sentences(q, k, v, batch.ends, int(LENGTHS[-1]) + 1, KINDS[kind]))
    for way in ways:
        assert way.dtype == dtype and (way.double() - wanted).abs().max() < off * wanted.abs().max()


def test_bands_hold_every_row_once():
    batch, q, *_ = rows_of("cpu", 1, 1)
    assert 1 < len(batch.bands) < 9
    assert torch.cat([row for _, _, row in batch.bands]).sort().values.tolist() == list(range(len(q)))
    padded = sum(paths.numel() for paths, _, _ in batch.bands)
    assert len(q) < padded < 2 * len(q)
    assert batch.ends.tolist() == [0, *np.cumsum(LENGTHS + 1)]


def test_one_sentence_is_one_band():
    batch = Batch.pack([np.array([5])])
    (band,) = batch.bands
    assert [part.tolist() for part in band] == [[[0, 1]], [0, 1], [0, 1]]

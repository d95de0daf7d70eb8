"""Laws of the top-t lists: whatever the order, the batches and the shards, they are the t first of a full sort."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ff_memories.base.arithmetic import SLACK
from ff_memories.paper.keys.topk import MAX_PREFIXES, Entries, TopTriggers, load, save

KEYS = 3
# few distinct coefficients, so that ties abound; a text decides the coefficient up to noise
ENTRY = st.tuples(st.integers(0, KEYS - 1), st.integers(1, 6), st.integers(0, 3))


LISTS: dict[str, Any] = {"precision": "float32"}


@pytest.fixture(scope="module", params=SLACK, autouse=True)
def precision(request):
    """Every law holds in every precision, with noise as large as that one's."""
    LISTS["precision"] = request.param
    return request.param


@st.composite
def offers(draw):
    """Entries of different prefixes: prefixes of one text share their coefficient but for the last bits."""
    drawn = draw(st.lists(ENTRY, max_size=60))
    out = []
    for prefix, (key, text, noise) in enumerate(drawn):
        out.append((key, float(text // 2 + 1) * (1 + noise * SLACK[LISTS["precision"]] / 4), prefix, text))
    return draw(st.permutations(out))


def entries(rows):
    key, coefficient, prefix, text = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Entries(
        torch.tensor(key, dtype=torch.int64), torch.tensor(coefficient, dtype=torch.float32),
        torch.tensor(prefix, dtype=torch.int64), torch.tensor(text, dtype=torch.int64),
    )  # fmt: skip


def lists(best):
    found, rank = best.ranked(0)
    rows = zip(found.key.tolist(), rank.tolist(), found.coefficient.tolist(), found.prefix.tolist(), strict=True)
    return sorted(rows)


def collect(parts, top, copies=None, limit=None):
    best = TopTriggers(1, KEYS, top, copies, **LISTS)
    if limit:
        best._limit = limit
    for part in parts:
        best.offer(0, entries(part))
    return best


def full_sort(rows, top, copies):
    out = []
    for key in range(KEYS):
        own = [r for r in rows if r[0] == key]
        level = {}
        for _, coefficient, _, text in own:
            level[text] = max(level.get(text, 0.0), float(torch.tensor(coefficient, dtype=torch.float32)))
        kept = []
        for text, coefficient in level.items():
            prefixes = sorted(r[2] for r in own if r[3] == text)
            kept += [(-coefficient, prefix) for prefix in prefixes[:copies]]
        kept.sort()
        out += [(key, rank, -c, p) for rank, (c, p) in enumerate(kept[:top], 1)]
    return out


@given(offers(), st.integers(1, 5), st.booleans())
def test_a_list_is_the_head_of_a_full_sort(rows, top, drop):
    copies = 1 if drop else top
    assert lists(collect([rows], top, copies)) == full_sort(rows, top, copies)


@given(offers(), st.integers(1, 5), st.lists(st.integers(0, 60), max_size=4), st.integers(1, 20))
def test_batches_and_compactions_change_nothing(rows, top, cuts, limit):
    cuts = sorted({0, len(rows), *(c for c in cuts if c <= len(rows))})
    parts = [rows[a:b] for a, b in itertools.pairwise(cuts)]
    assert lists(collect(parts, top, limit=limit)) == lists(collect([rows], top))


@given(offers(), st.integers(1, 5))
def test_merging_the_same_part_twice_changes_nothing(rows, top):
    best = collect([rows], top, limit=1)
    before = lists(best)
    best.merge(collect([rows], top))
    assert lists(best) == before


@given(offers(), st.integers(1, 4))
def test_a_gate_lets_everything_through_that_matters(rows, top):
    """Raising the gate by some prefixes' coefficients, and filtering by it, loses nothing."""
    best = TopTriggers(1, KEYS, top, **LISTS)
    dense = torch.zeros(len(rows), KEYS)
    for i, (key, coefficient, _, _) in enumerate(rows):
        dense[i, key] = coefficient
    best.raise_gate(0, dense)
    gate = best.gate[0].tolist()
    best.offer(0, entries([r for r in rows if r[1] >= gate[r[0]]]))
    assert lists(best) == lists(collect([rows], top))


@given(offers(), st.integers(1, 5), st.sampled_from([float("nan"), float("inf")]), st.integers(0, 60))
def test_what_is_not_finite_is_refused(rows, top, wrong, at):
    best = TopTriggers(1, KEYS, top, **LISTS)
    rows = [*rows[:at], (0, wrong, 10**6, 99), *rows[at:]]
    with pytest.raises(ValueError, match="not finite"):
        best.offer(0, entries(rows))
        best.finish()


@given(offers(), st.integers(1, 5), st.integers(2, 5), st.randoms())
def test_disjoint_shards_merge_to_the_same_in_any_order_and_grouping(rows, top, shards, random):
    parts = [collect([rows[i::shards]], top, limit=3) for i in range(shards)]
    while len(parts) > 1:
        random.shuffle(parts)
        first = parts.pop()
        first.merge(parts.pop())
        parts.append(first)
    assert lists(parts[0]) == lists(collect([rows], top)) == full_sort(rows, top, top)


def test_a_gate_rises_to_the_last_of_as_many_as_a_list_holds():
    best, drop = TopTriggers(2, KEYS, 2), TopTriggers(2, KEYS, 2, copies=1)
    before = best.gate.clone()
    seen = torch.tensor([[3.0, 1.0, 0.0], [2.0, 5.0, 0.0], [1.0, 4.0, 0.0]])
    best.raise_gate(1, seen[:1])
    drop.raise_gate(1, seen)  # prefixes of different sentences may have the same text
    assert torch.equal(best.gate, before) and torch.equal(drop.gate, before)
    best.raise_gate(1, seen[:2])
    assert best.gate[1].tolist() == pytest.approx([2, 1, 0], rel=2e-4) and torch.equal(best.gate[0], before[0])
    assert (best.gate[1, :2] < torch.tensor([2.0, 1.0])).all()
    best.raise_gate(1, seen)
    assert best.gate[1].tolist() == pytest.approx([2, 4, 0], rel=2e-4)


def test_a_layer_is_new_until_something_is_offered_to_it():
    best = TopTriggers(2, KEYS, 2)
    assert best.is_new(0) and best.is_new(1)
    best.offer(1, entries([(0, 1.0, 5, 11)]))
    assert best.is_new(0) and not best.is_new(1)
    best.finish()
    assert best.is_new(0) and not best.is_new(1)
    held = best.lists[1]
    best.finish()
    assert best.lists[1] is held  # what is compacted is not compacted again


def test_long_lists_keep_the_order_of_ties():
    rows = [(prefix % KEYS, 1.0 + (prefix * 7919 % 10) / 8, prefix, prefix) for prefix in range(5000)]
    assert lists(collect([rows[i::7] for i in range(7)], 900)) == sorted(full_sort(rows, 900, 900))


def test_the_last_number_that_a_prefix_can_have_sorts_like_any_other():
    last = MAX_PREFIXES
    assert last < 2**32  # they share 64 bits with what they are sorted by
    rows = [(0, 1.0, last, 1), (0, 1.0, 0, 2), (0, 1.0, last - 1, 3), (0, 2.0, last - 2, 4), (0, 0.5, 1, 5)]
    assert [row[3] for row in lists(collect([rows], 5))] == [last - 2, 0, last - 1, last, 1]


@pytest.mark.parametrize("copies", [3, 1])
def test_many_prefixes_of_one_text_are_not_all_held(copies):
    best = TopTriggers(1, KEYS, 3, copies)
    best._limit, best._bound = 10, 40
    for start in range(0, 2000, 10):
        best.offer(0, entries([(0, 1.0, prefix, 7) for prefix in range(start, start + 10)]))
        assert len(best.lists[0]) <= 60 and sum(map(len, best._log[0])) < 10
    assert [row[3] for row in lists(best)] == [0, 1, 2][:copies]


def test_a_full_list_is_cut_and_its_gate_rises_to_its_last():
    best = TopTriggers(1, KEYS, 3)
    best._limit = 8
    best.offer(0, entries([(1, float(n), n, n) for n in range(1, 8)] + [(2, 5.0, 9, 9)]))
    assert sorted(best.lists[0].coefficient.tolist()) == [5.0, 5.0, 6.0, 7.0] and not best._log[0]
    assert best.gate[0, 1].item() == pytest.approx(5, rel=2e-4) and best.gate[0, 1] < 5
    assert torch.equal(best.gate[0, [0, 2]], TopTriggers(1, KEYS, 3).gate[0, [0, 2]])


def test_a_shard_comes_back_from_its_file_as_it_was(tmp_path):
    from ff_memories.base.errors import UserError

    rows = [(0, 2.0, 5, 11), (0, 2.0000002, 3, 11), (2, 1.5, 4, 12), (0, 1.0, 9, 13)]
    best = collect([rows], 2)
    save(best, tmp_path / "shard.safetensors")
    back = load(tmp_path / "shard.safetensors")
    assert lists(back) == lists(best)
    assert torch.equal(back.gate, best.gate)
    (tmp_path / "shard.safetensors").write_bytes(b"xx")
    with pytest.raises(UserError, match="not a readable shard"):
        load(tmp_path / "shard.safetensors")

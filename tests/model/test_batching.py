"""Laws of what is cut, counted and drawn before any number is computed: blocks, batches, prefixes, examples, keys."""

import itertools
from itertools import pairwise
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ff_memories.base.errors import UserError
from ff_memories.base.parameters import share
from ff_memories.config.sections import Composition, Mutations
from ff_memories.corpus.store import POSITIONS, Corpus, available
from ff_memories.model.batches import batching
from ff_memories.model.decoder import Batch
from ff_memories.paper.keys import mutations, trigger_table, triggers
from ff_memories.paper.layers import composition
from ff_memories.paper.values import values

SENTENCES = st.lists(st.lists(st.integers(4, 5), max_size=4), min_size=1, max_size=30)
ADDED = {"inner": -1, "released": -1, "full": 0, "1..N": 0, "0..N": 0, "1..N-1": -1}  # to N: the longest prefix
SHORTEST = {"released": 0, "0..N": 0}  # 1 otherwise


def corpus(sentences, train=None):
    lengths = list(map(len, sentences))
    tokens = np.array([token for sentence in sentences for token in sentence], dtype=np.int32)
    return Corpus(tokens, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), train or len(sentences))


def prefixes(sentences, positions):
    """Every (sentence, length) within the named bounds."""
    return [(s, j) for s, sentence in enumerate(sentences)
            for j in range(SHORTEST.get(positions, 1), len(sentence) + ADDED[positions] + 1)]  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 30), st.integers(1, 5))
def test_blocks_end_where_they_are_full_and_shards_share_them_out(lengths, size, shards):
    lengths = np.array(lengths, dtype=np.int64)
    blocks = batching.blocks(lengths, size)
    shared = [share(blocks, (index + 1, shards)) for index in range(shards)]
    assert [s for first, end in blocks for s in range(first, end)] == list(range(len(lengths)))
    for first, end in blocks[:-1]:
        assert sum(lengths[first : end - 1] + 1) < size <= sum(lengths[first:end] + 1)
    assert not blocks or sum(lengths[slice(blocks[-1][0], blocks[-1][1] - 1)] + 1) < size
    assert list(itertools.chain(*shared)) == blocks
    assert max(map(len, shared)) - min(map(len, shared)) <= 1


def test_blocks_fit_a_small_text_and_stay_as_they_are_for_a_large_one():
    rng = np.random.default_rng(1)
    for sentences in (4_500, 14_000, 360_000):
        lengths = rng.integers(5, 40, sentences)
        assert len(batching.blocks(lengths, batching.fitting(lengths))) >= 64
    assert batching.fitting(np.full(10**6, 22)) == batching.BLOCK_TOKENS
    assert len(batching.blocks(np.full(10, 22), batching.fitting(np.full(10, 22)))) == 1


@settings(deadline=None)
@given(SENTENCES, st.data())
def test_a_batch_takes_what_fits_and_runs_a_text_once_for_all_its_sentences(sentences, data):
    first = data.draw(st.integers(0, len(sentences) - 1))
    end = data.draw(st.integers(first, len(sentences)))
    budget, shortest = data.draw(st.integers(1, 20)), data.draw(st.integers(0, 2))
    run_all = data.draw(st.booleans())
    batches = list(batching.batches(corpus(sentences), first, end, budget, shortest, run_all))
    need = lambda s: len(sentences[s]) + run_all
    seen = [s for batch in batches for copies in batch for s in copies]
    assert sorted(seen) == [s for s in range(first, end) if len(sentences[s]) >= shortest]
    runs = [copies[0] for batch in batches for copies in batch]
    assert [(len(sentences[s]), s) for s in runs] == sorted((len(sentences[s]), s) for s in runs)
    assert len({tuple(sentences[s]) for s in runs}) == len(runs)
    for batch in batches:
        assert len(batch) == 1 or sum(need(copies[0]) for copies in batch) <= budget
        for copies in batch:
            assert copies.tolist() == sorted(copies) and len({tuple(sentences[c]) for c in copies}) == 1
        done = [s for copies in batch for s in copies]
        counted = batching.tokens_and_sentences(batch, corpus(sentences))
        assert counted == (sum(len(sentences[s]) for s in done), len(done))
    for one, other in itertools.pairwise(batches):
        assert sum(need(copies[0]) for copies in one) + need(other[0][0]) > budget


@given(st.lists(st.integers(0, 6), max_size=30), st.integers(1, 20))
def test_sequences_fill_batches_in_their_order(lengths, budget):
    lengths = np.array(lengths, dtype=np.int64)
    order = np.argsort(lengths, kind="stable")
    parts = list(batching.sequences(lengths, order, budget))
    assert [i for part in parts for i in part] == list(order)
    rows = [int((lengths[part] + 1).sum()) for part in parts]
    assert all(n <= budget or len(part) == 1 for n, part in zip(rows, parts, strict=True))
    for n, other in zip(rows, parts[1:], strict=False):
        assert n + lengths[other[0]] + 1 > budget


@settings(deadline=None)
@given(SENTENCES)
def test_prefixes_are_numbered_through_and_their_texts_recognised(sentences):
    held = corpus(sentences)
    every = prefixes(sentences, "0..N")
    starts = trigger_table.prefix_starts(held)
    assert [starts[sentence] + position for sentence, position in every] == list(range(len(every)))
    order = sorted(range(len(sentences)), key=lambda s: len(sentences[s]))  # as batches are packed
    batch = Batch.pack([held.sentence(s) for s in order])
    hashes = triggers.prefix_hashes(batch).tolist()
    texts = [tuple(sentences[s][:j]) for s in order for j in range(len(sentences[s]) + 1)]
    assert len(set(hashes)) == len(set(texts)) == len(set(zip(hashes, texts, strict=True)))


@given(SENTENCES, st.sampled_from(list(POSITIONS)), st.data())
def test_what_sentences_offer_is_counted_and_too_few_are_refused(sentences, positions, data):
    train = data.draw(st.integers(1, len(sentences)))
    held, every = corpus(sentences, train), prefixes(sentences[:train], positions)
    assert available(held, positions).tolist() == [sum(s == own for s, _ in every) for own in range(train)]
    for per_sentence, n in (("all", len(every)), ("best", len({s for s, _ in every}))):
        trigger_table.require_enough(held, n, positions, per_sentence)
        what = "sentences with a prefix" if per_sentence == "best" else "prefixes"
        with pytest.raises(UserError, match=f"triggers.top is {n + 1}, and the training text has {n} {what}"):
            trigger_table.require_enough(held, n + 1, positions, per_sentence)


def test_more_prefixes_than_can_be_numbered_are_refused(monkeypatch):
    of_length = lambda n: Corpus(np.zeros(0, np.int32), np.array([0, n]), train=1)  # n + 1 prefixes, of 32 bits
    assert trigger_table.prefix_starts(of_length(2**32 - 2))[-1] == 2**32 - 1
    with pytest.raises(UserError, match="4,294,967,296 prefixes are more"):
        trigger_table.prefix_starts(of_length(2**32 - 1))
    held = corpus([[4, 5], [4]])  # three and two prefixes
    monkeypatch.setattr(trigger_table, "MAX_PREFIXES", 5)
    assert trigger_table.prefix_starts(held).tolist() == [0, 3, 5]
    monkeypatch.setattr(trigger_table, "MAX_PREFIXES", 4)
    with pytest.raises(UserError, match="5 prefixes are more than 4"):
        trigger_table.prefix_starts(held)


def test_a_value_is_compared_with_the_next_token_or_with_the_prefixs_last():
    held = corpus([[4, 5, 6], [7, 8]])
    frame = pl.DataFrame({"sentence": [0, 0, 1, 1], "position": [0, 3, 0, 1], "next_token": [4, None, 7, 8]})
    assert values.targets(frame, held, "next")["target"].to_list() == [4, None, 7, 8]
    assert values.targets(frame, held, "last")["target"].to_list() == [0, 6, 0, 7]  # 0: <s>


# -- what is drawn -----------------------------------------------------------------------------------------------------


@given(SENTENCES, st.sampled_from(list(composition.POSITIONS)), st.integers(0, 5))
def test_a_uniform_draw_of_all_takes_every_prefix_once(sentences, positions, seed):
    every = prefixes(sentences, positions)
    lengths = np.array(list(map(len, sentences)))
    options = lambda n: Composition(examples=n, sample="uniform", positions=positions)
    draw = lambda n: composition.sample_examples(lengths, 7, options(n), seed)
    if not every:
        with pytest.raises(UserError, match="no validation sentence is long enough"):
            draw(5)
        return
    frame = draw(1000)
    assert frame["example"].to_list() == list(range(len(every)))
    assert sorted(frame.select("sentence", "position").rows()) == [(7 + s, j) for s, j in every]
    some = draw(max(len(every) - 1, 1)).select("sentence", "position").rows()
    assert len(set(some)) == len(some) == max(len(every) - 1, 1) and set(some) <= {(7 + s, j) for s, j in every}


@pytest.mark.parametrize("positions", composition.POSITIONS)
def test_a_draw_per_sentence_takes_each_length_as_often(positions):
    lengths = np.array([0, 1, 4] * 1000)
    draw = lambda n: composition.sample_examples(lengths, 7, Composition(examples=n, positions=positions), 1)
    frame = draw(5000)
    per = {n: list(range(SHORTEST.get(positions, 1), n + ADDED[positions] + 1)) for n in (0, 1, 4)}
    assert len(frame) == frame["sentence"].n_unique() == 1000 * sum(map(bool, per.values()))
    assert frame["sentence"].to_list() != sorted(frame["sentence"])
    for n, choices in per.items():
        drawn = frame.filter(pl.Series(lengths[frame["sentence"].to_numpy() - 7] == n))["position"].to_list()
        assert {j: drawn.count(j) for j in sorted(set(drawn))}.keys() == set(choices)
        assert all(abs(drawn.count(j) / 1000 - 1 / len(choices)) < 0.06 for j in choices)
    assert draw(10)["sentence"].to_list() == frame["sentence"].to_list()[:10]


def listed(positions):
    """A table of triggers from {(layer, key): lengths of its triggers' prefixes}."""
    rows = [(layer, key, rank, 1.0, 9, j) for (layer, key), lengths in positions.items()
            for rank, j in enumerate(lengths, 1)]  # fmt: skip
    return pl.DataFrame(rows, schema=["layer", "key", "rank", "coefficient", "sentence", "position"], orient="row")


TRIGGERS = {(1, 0): [5, 1, 0, 2], (1, 1): [1, 0, 1, 7], (1, 3): [2, 3, 9], (2, 2): [4], (2, 1): [0, 0, 0, 6]}


@pytest.mark.parametrize("random", ["any", "inner"])
@pytest.mark.parametrize("single_token", ["skip", "bos"])
def test_mutated_triggers_are_those_that_can_be_and_the_others_are_counted(single_token, random):
    """Of each key the first three triggers; two keys of layer 1, two of layer 2, five keys to a layer."""
    options = Mutations(keys_per_layer=2, top=3, random=random, single_token=single_token)
    made, counts = mutations.sample(listed(TRIGGERS), 2, 5, options, 3, 10)
    keys = made.select("layer", "key").unique().sort("layer", "key").rows()
    shortest = 2 if single_token == "skip" else 1
    may = {cell for cell, lengths in TRIGGERS.items() if max(lengths[:3]) >= shortest}
    assert set(keys) <= may
    assert [layer for layer, _ in keys] == [1, 1, 2]
    assert counts["keys_without_triggers"] == 5
    assert counts["keys_without_mutable_prefix"] == len(TRIGGERS) - len(may)
    assert counts["keys_missing"] == 1
    shown = [j for cell in keys for j in TRIGGERS[cell][:3]]
    assert counts["prefixes_of_no_token"] == shown.count(0)
    assert counts["prefixes_of_one_token"] == shown.count(1)
    mutated = [j for j in shown if j >= shortest]
    assert counts["prefixes_without_inner_token"] == (sum(j <= 2 for j in mutated) if random == "inner" else 0)
    first, last = (made.filter(mutation=name) for name in ("first", "last"))
    assert first["removed"].to_list() == [1] * len(mutated)
    assert last["removed"].to_list() == last["position"].to_list() == mutated


def test_nothing_to_mutate_gives_no_coefficient():
    options = Mutations(keys_per_layer=1, top=1, random="any", single_token="skip")
    nothing, _ = mutations.sample(listed({(1, 0): [0]}), 1, 1, options, 1, 1)
    assert mutations.table(Mock(forests=True), corpus([[4]]), nothing, options, 9).is_empty()


@pytest.mark.parametrize("random, inner", [("any", 0), ("inner", 1)])
def test_the_random_token_is_any_as_often(random, inner):
    lengths = [2, 3, 6] * 600
    options = Mutations(keys_per_layer=1, top=1800, random=random, single_token="skip")
    made, _ = mutations.sample(listed({(1, 0): lengths}), 1, 1, options, 3, 1)
    rows = made.filter(mutation="random")
    for n in (2, 3, 6):
        drawn, choices = rows.filter(position=n)["removed"].to_list(), range(1 + inner, n + 1 - inner)
        assert set(drawn) == set(choices)
        assert all(abs(drawn.count(u) / 600 - 1 / len(choices)) < 0.07 for u in choices)


def test_keys_are_drawn_from_all_that_fire_and_another_seed_draws_others():
    frame = listed({(layer, key): [3] for layer in (1, 2) for key in range(40) if key % 2})
    draw = lambda seed: mutations.sample_keys(frame, 2, 40, 8, seed).rows()
    seen = {cell for seed in range(60) for cell in draw(seed)}
    assert seen == {(layer, key) for layer in (1, 2) for key in range(1, 40, 2)}
    assert draw(1) == sorted(draw(1)) != draw(2)
    assert [layer for layer, _ in draw(1)] == [1] * 8 + [2] * 8


def test_a_shards_blocks_are_joined_and_hold_the_same_sentences():
    lengths = np.full(5_000, 25)
    for shards in (1, 2, 3):
        parts = [share(batching.blocks(lengths, 1 << 12), (number + 1, shards)) for number in range(shards)]
        joined = [batching.joined(part, lengths) for part in parts]
        assert [(own[0][0], own[-1][1]) for own in joined] == [(own[0][0], own[-1][1]) for own in parts]
        assert all(a[1] == b[0] for own in joined for a, b in pairwise(own)) and max(map(len, joined)) == 1
    assert batching.joined([], lengths) == []

"""Test that the proxy finds what was planted in an invented language, and nothing in random prefixes."""

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from planted_run import TOP

from ff_memories import tables
from ff_memories.annotate import distance, proxy, semantic, shallow, study
from ff_memories.annotate.permutation_test import SETS, Candidate, Correction, distinct, frequent, tail
from ff_memories.annotate.study import SampledKey
from ff_memories.annotate.words import is_content, shape
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.store import Corpus, Sentences

STOP = ["the", "of", ",", "and", "to", "in", "a", "is", "(", ")", "that", "was"]
SHOWN = 25


def invented_words(n, rng):
    """Return n distinct words without plural endings or common beginnings, so that none is a form of another."""
    out = []
    while len(out) < n:
        word = "".join(rng.choice("bdfgklmnprtvz") + rng.choice("aiou") for _ in range(3)) + rng.choice("bkmnt")
        if word not in out:
            out.append(word)
    return out


@dataclass
class Language:
    """Words by decreasing frequency, groups of close words, and a corpus with planted triggers.

    A group's words are close in ``embeddings``, or by standing in the same ``sentences``.
    """

    seed: int
    close: str = "embeddings"
    topics: int = 40
    size: int = 8
    sentences: list = field(default_factory=list)
    planted: list = field(default_factory=list)

    def __post_init__(self):
        self.rng = random.Random(self.seed)
        content = invented_words(1500, self.rng)
        self.dictionary = Dictionary(STOP + content)
        self.first = len(self.dictionary) - len(content)
        ranks = np.arange(1, len(self.dictionary) - 3)
        self.weights = list(1 / (ranks + 2.7))
        places = self.rng.sample(range(self.first + 50, len(self.dictionary)), self.topics * self.size)
        self.groups = [places[i :: self.topics] for i in range(self.topics)]
        draw = np.random.default_rng(self.seed)
        embedding = draw.normal(size=(len(self.dictionary), 32)) + 2 * draw.normal(size=32)
        for group in self.groups if self.close == "embeddings" else ():  # cosines of about 0.7 within a group
            embedding[group] += 1.5 * draw.normal(size=32)
        self.embedding = torch.from_numpy(embedding).float()
        for _ in range(3000):
            self.sentences.append(self.sentence())
        for group in self.groups * 60 if self.close == "sentences" else ():
            sentence = self.sentence()
            for place in self.rng.sample(range(len(sentence)), 4):
                sentence[place] = self.rng.choice(group)
            self.sentences.append(sentence)

    def sentence(self):
        return self.rng.choices(range(4, len(self.dictionary)), self.weights, k=self.rng.randint(6, 24))

    def ngram(self):
        """Return a suffix of one to three tokens with a content word in it."""
        words = [self.rng.randrange(self.first, len(self.dictionary))]
        stops = [self.rng.randrange(4, self.first) for _ in range(self.rng.randint(0, 2))]
        return words + stops if self.rng.random() < 0.4 else stops + words

    def plant(self, suffix=None, group=None, least=6):
        """Add a key of 25 triggers: some end with a suffix, some hold words of a group; the rest is random."""
        with_suffix = set(self.rng.sample(range(SHOWN), self.rng.randint(least, 20))) if suffix else set()
        with_topic = set(self.rng.sample(range(SHOWN), self.rng.randint(least, 20))) if group else set()
        rows = []
        for i in range(SHOWN):
            tokens = self.sentence()
            position = self.rng.randint(min(6, len(tokens) - 1), len(tokens) - 1)
            if i in with_topic:
                # not at the end: a word of the topic that ends three prefixes is a shallow pattern too
                for place in self.rng.sample(range(position - 1), self.rng.randint(1, 3)):
                    tokens[place] = self.rng.choice(group)
            if i in with_suffix:
                tokens[position - len(suffix) : position] = suffix
            rows.append((len(self.sentences), position, tokens[position]))
            self.sentences.append(tokens)
        held = {
            "shallow": {i + 1 for i in with_suffix},
            # a suffix may have been written over the only word of the topic
            "semantic": {i + 1 for i in with_topic if set(self.sentences[rows[i][0]][: rows[i][1]]) & set(group)},
        }
        self.planted.append((rows, suffix, group, held))

    def corpus(self):
        text = Sentences()
        for tokens in self.sentences:
            text.add(tokens, "f", 1, 0)
        offsets = np.frombuffer(text.offsets, dtype=np.int64)
        return Corpus(np.frombuffer(text.tokens, dtype=np.int32), offsets, len(self.sentences))

    def triggers(self):
        rows = [
            (1 + number // 200, number % 200, rank, 2 - rank / 100, *place)
            for number, (places, *_) in enumerate(self.planted)
            for rank, place in enumerate(places, 1)
        ]
        schema = tables.TABLES["triggers"].columns
        return pl.DataFrame(rows, schema=schema, orient="row")


def scores(language):
    """Return patterns' precision and recall per type, the share of foils with a pattern, and the labels' accuracy."""
    triggers, corpus = language.triggers(), language.corpus()
    keys = study.read_keys(triggers, corpus, 200, SHOWN, seed=1)
    annotator = proxy.Annotator(corpus, language.dictionary, language.embedding, triggers, seed=1)
    annotations, labels = proxy.annotate(annotator, keys)
    count = Counter()
    for key in keys:
        _, suffix, group, held = language.planted[(key.layer - 1) * 200 + key.key]
        mine = annotations.filter((pl.col("layer") == key.layer) & (pl.col("key") == key.key))
        count["foils"] += not suffix and not group
        count["foils found"] += not suffix and not group and len(mine) > 0
        for kind, words in (("shallow", suffix), ("semantic", group)):
            right = 0
            for description, ranks in mine.filter(pl.col("type") == kind).select("description", "ranks").iter_rows():
                named = named_words(description)
                assert len(named) <= (3 if '"' in description else 5)
                true = words is not None and len(held[kind] & set(ranks)) >= 0.8 * len(ranks)
                true = true and 2 * sum(language.dictionary.ids[w] in words for w in named) > len(named)
                count[kind, "found"] += 1
                count[kind, "true"] += true
                right = max(right, len(held[kind] & set(ranks)) if true else 0)
            if words is not None:
                count[kind, "planted"] += 1
                count[kind, "recalled"] += right >= 0.5 * len(held[kind])
        is_shown = labels.filter((pl.col("layer") == key.layer) & (pl.col("key") == key.key))
        for rank, label in is_shown.select("rank", "label").iter_rows():
            kinds = [kind for kind in ("shallow", "semantic") if rank in held[kind]]
            expected = "both" if len(kinds) == 2 else kinds[0] if kinds else "none"
            count["labels"] += 1
            count["labels right"] += label == expected
    out: dict[Any, float] = {
        "foils": count["foils found"] / max(1, count["foils"]),
        "labels": count["labels right"] / count["labels"],
    }
    for kind in ("shallow", "semantic"):
        out[kind, "precision"] = count[kind, "true"] / max(1, count[kind, "found"])
        out[kind, "recall"] = count[kind, "recalled"] / max(1, count[kind, "planted"])
    return out


def named_words(description):
    """Return the words that a description names, without its fixed words."""
    if '"' in description:
        return description.split('"')[1].split()
    return description.partition(": ")[2].split(", ")


def planted_language(seed, close, each=50, foils=150, least=6):
    language = Language(seed, close)
    for i in range(each):
        language.plant(suffix=language.ngram(), least=least)
        language.plant(group=language.groups[i % language.topics], least=least)
        language.plant(suffix=language.ngram(), group=language.groups[(i + 7) % language.topics], least=least)
    for _ in range(foils):
        language.plant()
    return language


@pytest.mark.parametrize("close", ["embeddings", "sentences"])
def test_planted_patterns_are_found_and_random_prefixes_have_none(close):
    found = scores(planted_language(seed=1, close=close))
    assert found["shallow", "precision"] >= 0.95
    assert found["shallow", "recall"] >= 0.90
    assert found["semantic", "precision"] >= 0.85
    assert found["semantic", "recall"] >= 0.75
    assert found["foils"] <= 0.02
    assert found["labels"] >= 0.95


def test_words_are_as_close_as_their_tfidf_weights_in_sentences(monkeypatch):
    said = [[4, 5, 4], [4, 5], [5, 6], [6], [7, 8]]  # the words 0..4 of the text; 8 is left out
    text = Sentences()
    for tokens in said:
        text.add(tokens, "f", 1, 0)
    corpus = Corpus(np.frombuffer(text.tokens, dtype=np.int32), np.frombuffer(text.offsets, dtype=np.int64), 5)
    term = np.array([-1, -1, -1, -1, 0, 1, 2, 3, -1])
    weights = np.array([[float(t in tokens) for t in (4, 5, 6, 7)] for tokens in said])
    weights *= np.log(6 / (1 + weights.sum(0))) + 1
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    weights /= np.linalg.norm(weights, axis=0, keepdims=True)
    units = semantic.sentence_vectors(corpus, term, 4, np.random.default_rng(1))
    np.testing.assert_allclose((units @ units.T).toarray(), weights.T @ weights, atol=1e-6)
    monkeypatch.setattr(semantic, "SENTENCES", 3)
    assert semantic.sentence_vectors(corpus, term, 4, np.random.default_rng(1)).shape == (4, 3)


def test_binomial_tail_is_the_sum_of_its_terms():
    from math import comb

    for held in range(1, 8):
        exact = sum(comb(7, k) * 0.3**k * 0.7 ** (7 - k) for k in range(held, 8))
        assert tail(np.array([held]), 7, np.array([0.3]))[0] == pytest.approx(exact)


def test_corrected_p_values_of_random_sets_are_uniform():
    draw = np.random.default_rng(0).random(4000)
    corrected = Correction(lambda indices: float(draw[indices].min()), 4000, lambda n: np.random.default_rng(n))
    fresh = [corrected(float(p), 5) for p in np.random.default_rng(1).random((4000, 5)).min(1)]
    assert np.quantile(fresh, [0.05, 0.5, 0.95]) == pytest.approx([0.05, 0.5, 0.95], abs=0.03)


def test_content_words_and_shapes():
    words = ("the", "The", "graph", "n't", "'s", "@-@", "x", "7", "1998", "<unk>", ",")
    assert [w for w in words if is_content(w)] == ["graph", "7", "1998"]
    assert is_content("ox") and not is_content("o")
    assert [shape(w) for w in ("1998", "3.5", "1,000", "Paris", "A", "paris", "McDonald", "-")] == [
        "number", "number", "number", "capitalised word", None, None, "capitalised word", None,
    ]  # fmt: skip


def triggers_of(keys, rows=None):
    """Return a triggers table from {(layer, key): number of triggers}, each the first two tokens of sentence 0."""
    rows = rows or [(lay, key, r, 1.0, 0, 2, 5) for (lay, key), n in keys.items() for r in range(1, n + 1)]
    return pl.DataFrame(rows, schema=tables.TABLES["triggers"].columns, orient="row").sort("layer", "key", "rank")


def test_keys_are_drawn_layer_by_layer_among_those_with_three_triggers():
    keys = {(layer, key): 2 + (key % 3 > 0) for layer in (1, 2, 3) for key in range(60)}
    drawn = study.sample_keys(triggers_of(keys), 10, seed=1)
    assert drawn.group_by("layer").len().sort("layer").rows() == [(1, 10), (2, 10), (3, 10)]
    assert all(keys[pair] == 3 for pair in drawn.rows())
    without_first = {k: n for k, n in keys.items() if k[0] != 1}
    again = study.sample_keys(triggers_of(without_first), 10, seed=1)
    assert again.rows() == [pair for pair in drawn.rows() if pair[0] != 1]
    assert study.sample_keys(triggers_of(keys), 10, seed=2).rows() != drawn.rows()
    assert study.sample_keys(triggers_of({(1, 4): 2}), 10, seed=1).is_empty()


CORPUS = Corpus(np.arange(4, 14, dtype=np.int32), np.array([0, 4, 5, 10]), train=3)


def test_random_prefixes_have_the_lengths_that_triggers_were_sought_at():
    inner = study.random_prefixes(CORPUS, triggers_of({(1, 1): 3}), 500, 1, "t")
    assert {p[0] for p in inner} == {4, 9}  # the sentence of one token has no inner prefix
    assert {len(p) for p in inner} == {1, 2, 3, 4}
    full = triggers_of({}, [(1, 1, r, 1.0, 1, 1, None) for r in (1, 2, 3)])
    assert {len(p) for p in study.random_prefixes(CORPUS, full, 500, 1, "t") if p[0] == 4} == {1, 2, 3, 4}
    empty = triggers_of({}, [(1, 1, r, 1.0, 1, 0, 8) for r in (1, 2, 3)])
    assert {len(p) for p in study.random_prefixes(CORPUS, empty, 500, 1, "t")} == {0, 1, 2, 3, 4}


def test_one_random_pair_in_twenty_is_close_and_every_planted_one():
    rng = np.random.default_rng(0)
    embedding = rng.normal(size=(2000, 24)) + 3  # one direction common to all
    embedding[1000:1100] = embedding[:100] + 0.5 * rng.normal(size=(100, 24))
    words = invented_words(2000, random.Random(0))
    closer = semantic.WordCloseness(torch.from_numpy(embedding), rng.integers(1, 500, 2000), words, seed=1)
    assert np.mean([closer(i, 1000 + i) for i in range(100)]) == 1
    rate = np.mean([closer(int(a), int(b)) for a, b in rng.integers(100, 1000, (600, 2)) if a != b])
    assert 0.03 <= rate <= 0.07
    assert all(closer(3, b) == closer(b, 3) for b in range(4, 40))


def test_frequent_words_of_other_sorts_are_not_close_though_their_embeddings_are():
    marks, numbers, unknown = [",", "."], ["1998", "3.5"], ["<unk>", "</s>"]
    words = [*STOP[:2], *marks, *numbers, *unknown, *invented_words(300, random.Random(0))]
    embedding = np.random.default_rng(2).normal(size=(len(words), 24))
    embedding[:8] = 5  # the frequent ones, all in one place
    closer = semantic.WordCloseness(torch.from_numpy(embedding), np.repeat([900, 9], [8, 300]), words, seed=1)
    close = {(words[a], words[b]) for a in range(10) for b in range(a) if closer(a, b)}
    assert close == {(".", ","), ("3.5", "1998")}


def refinement_of(kinds, layers=2):
    rows = [
        (example, layer, 5, 6, 7 + example % 9, 8, 0.5, kind if layer == layers else "composition")
        for example, kind in enumerate(kinds)
        for layer in range(1, layers + 1)
    ]
    return pl.DataFrame(rows, schema=tables.TABLES["refinement"].columns, orient="row")


def test_a_hundred_compositions_of_the_last_layer_are_drawn():
    kinds = ["composition", "residual", "ffn"] * 150
    drawn = distance.compositions(refinement_of(kinds), seed=1)
    assert len(drawn) == 100 and drawn["example"].is_sorted() and drawn["example"].n_unique() == 100
    assert drawn["layer"].unique().to_list() == [2] and drawn["kind"].unique().to_list() == ["composition"]
    assert distance.compositions(refinement_of(kinds), seed=2)["example"].to_list() != drawn["example"].to_list()
    assert len(distance.compositions(refinement_of(kinds[:9]), seed=1)) == 3


def test_a_composition_is_related_if_it_goes_with_either_part():
    types = ["earlier", "people", "stomach", "later", "same", "gastric", "Stomachs"]
    cases = pl.DataFrame(
        {"example": [3, 4, 5, 6], "output_top": [4, 3, 2, 2], "residual_top": [1, 0, 6, 1], "ffn_top": [5, 5, 1, 6]}
    )
    labels = distance.label(cases, types, lambda one, other: {one, other} == {0, 3})
    assert labels["label"].to_list() == ["distant", "related", "related", "related"]


def test_the_steps_counts_are_those_of_its_tables(planted_run):
    at = planted_run / "results/planted"
    annotations, labels = (tables.read(at / f"proxy/{name}.parquet") for name in ("annotations", "pattern_labels"))
    triggers = tables.read(at / "tables/triggers.parquet").group_by("layer", "key").len()
    asked, looked_at = 3 * 3, 3 * json.loads((at / "model/info.json").read_text())["keys"]  # of three layers
    sampled, enough = labels.select("layer", "key").n_unique(), triggers.filter(pl.col("len") >= 3).height
    counts = dict(tables.read(at / "counts/proxy.parquet", "counts").select("reason", "n").iter_rows())
    assert counts == {
        "keys_with_too_few_triggers": looked_at - enough, "keys_sampled": sampled,
        "keys_short_of_the_sample": asked - sampled, "prefixes_shown": labels.height,
        "keys_without_pattern": sampled - annotations.select("layer", "key").n_unique(),
        "prefixes_short_of_the_sample": TOP * sampled - labels.height,
    }  # fmt: skip
    assert sampled > 3 and not annotations.is_empty() and set(annotations["annotator"]) == {"proxy"}


# -- how good the proxy is: quality ------------------------------------------------------------------------------------


@dataclass
class Says:
    """An annotator with a fixed answer for every key: {number: [(type, members)]}."""

    answers: dict

    def annotate(self, key):
        return [(kind, "", Candidate(("w",), "end", frozenset(held), 0.001)) for kind, held in self.answers[key.key]]


def test_precision_and_recall_count_patterns_with_much_the_same_prefixes():
    """A found pattern is right if 80 % of its prefixes have the planted one, found if half of its are."""
    prefixes = ((4,),) * 25
    case = lambda sort, n, **planted: proxy.Case(
        sort,
        SampledKey(0, n, tuple(range(1, 26)), prefixes),
        {kind: (frozenset(), frozenset(h)) for kind, h in planted.items()},
    )
    ten, twenty = range(10), range(5, 25)
    planted = [
        case("shallow", 0, shallow=ten), case("shallow", 1, shallow=ten), case("semantic", 2, semantic=twenty),
        case("both", 3, shallow=ten, semantic=twenty), case("passage", 4, passage=ten), case("passage", 5, passage=ten),
        case("none", 6), case("none", 7), case("none", 8),
    ]  # fmt: skip
    says: Any = Says({
        0: [("shallow", [0, 1, 2, 3]), ("shallow", [0, 1, 2, 3, 4])],  # too few of them; just enough
        1: [("shallow", [0, 1, 2, 3, 11]), ("semantic", [3, 4])],  # right, but too few; nothing of that kind is there
        2: [("semantic", [*range(5, 13), 0, 1])],  # 8 of its 10 are right, of 20
        3: [("shallow", [0, 1, 2, 11]), ("semantic", range(5, 15))],  # 3 of 4: not right; just enough
        4: [("semantic", range(10)), ("shallow", range(20))], 5: [("shallow", range(10))],
        6: [], 7: [("shallow", [1, 2, 3]), ("semantic", [1, 2, 3])], 8: [],
    })  # fmt: skip
    scores = proxy.scores(says, planted)
    assert [(name, round(value * n), n) for name, value, _, _, n in scores] == [
        ("foil_rate", 1, 3), ("shallow_precision", 3, 4), ("shallow_recall", 1, 3), ("semantic_precision", 2, 3),
        ("semantic_recall", 1, 2), ("passage_recall", 1, 2),
    ]  # fmt: skip
    name, value, low, high, n = scores[0]
    assert (name, n) == ("foil_rate", 3) and value == pytest.approx(1 / 3) and low < value < high


def test_what_is_planted_is_where_it_is_said_to_be(monkeypatch):
    language = Language(seed=5)
    language.plant()
    found = proxy.Annotator(language.corpus(), language.dictionary, language.embedding, language.triggers(), seed=1)
    monkeypatch.setattr(proxy, "PLANTED", {"shallow": 9, "semantic": 9, "both": 9, "passage": 9, "none": 5})
    cases = proxy.cases(found, language.corpus(), language.triggers(), 25, 1, np.random.default_rng(1))
    assert Counter(case.sort for case in cases) == proxy.PLANTED
    lexicon = found.topics.lexicon
    starts = {tuple(s[:n]) for s in language.sentences for n in range(len(s) + 1)}
    for case in cases:
        prefixes = case.key.prefixes
        assert case.key.ranks == tuple(range(1, 26)) and len(prefixes) == 25
        assert set(case.planted) == {"both": {"shallow", "semantic"}, "none": set()}.get(case.sort, {case.sort})
        changed = {i for i, prefix in enumerate(prefixes) if prefix not in starts}
        assert changed <= set().union(*(members for _, members in case.planted.values()))
        for kind, (tokens, members) in case.planted.items():
            assert len(members) <= 20 and (len(members) >= 6 or case.sort == "both")
            if kind == "shallow":
                assert min(len({prefixes[i][-n:] for i in members}) for n in (1, 2, 3)) == 1
                assert any(lexicon.term[t] >= 0 for t in tokens)
            if kind == "semantic":
                assert len({lexicon.term[t] for t in tokens}) == len(tokens) == proxy.GROUP
                assert all(tokens & set(prefixes[i]) for i in members)
            if kind == "passage":
                assert all(prefixes[i] in starts and len(prefixes[i]) >= 8 for i in members)
    short = Corpus(np.tile(np.arange(4, 11, dtype=np.int32), 9), np.arange(0, 64, 7), train=9)  # nothing is long enough
    cases = proxy.cases(found, short, language.triggers(), 25, 1, np.random.default_rng(1))
    assert {case.sort for case in cases} == {"none"}


# -- closed forms ------------------------------------------------------------------------------------------------------


def shallow_of(types, reference=((4,),), pool=((4,),)):
    return shallow.Shallow(types, list(reference), list(pool), lambda n: np.random.default_rng(n))


def test_features_of_a_prefix_are_its_ends_its_last_word_and_what_stands_near_the_end():
    types = ["<s>", "<pad>", "</s>", "<unk>", "the", "Graphs", "of", "1998", "node"]
    near = lambda *tokens: ("near", tokens)
    one = shallow_of(types)
    assert one.features(()) == [("empty", ())]
    assert one.features((4,)) == [("end", (4,))]
    assert one.features((7,)) == [("end", (7,)), ("form", ("1998",)), ("shape", ("number",)), near(7)]
    assert one.features((4, 6, 4, 5)) == [
        ("end", (5,)), ("end", (4, 5)), ("end", (6, 4, 5)), ("form", ("graph",)), ("shape", ("capitalised word",)),
        near(6, 4, 5), near(4, 5), near(5),
    ]  # fmt: skip
    assert near(8) not in one.features((8, 4, 6, 4, 6, 4)) and near(8) in one.features((8, 4, 6, 4, 6))
    assert [f for f in one.features((8, 6, 8, 6)) if f[0] == "near"] == [
        near(8), near(8, 6), near(8, 6, 8), near(6, 8), near(6, 8, 6),
    ]  # fmt: skip


def test_how_often_a_feature_is_expected_is_pooled_over_lengths():
    """Of 50 references of length 1 ten end in word 4, of 50 of length 2 none."""
    reference = [(4,)] * 10 + [(5,)] * 40 + [(5, 5)] * 50
    one = shallow_of([*"abcd", "the", "of", "to"], reference)
    overall = 11 / 101
    rate = {1: (10 + 100 * overall) / 150, 2: 100 * overall / 150}
    prefixes = [(4,)] * 12 + [(5, 4)] * 10 + [(6,)] * 2
    features, p = one._frequent([one.features(x) for x in prefixes], shallow.length_classes(prefixes))
    chance = 14 / 24 * rate[1] + 10 / 24 * rate[2]
    known = dict(zip(features, p, strict=True))
    assert known["end", (4,)] == pytest.approx(tail(np.array([22]), 24, np.array([chance]))[0])
    unseen = 100 / 101 / 150 * 10 / 24 + 100 / 101 / 150 * 14 / 24
    assert known["end", (5, 4)] == pytest.approx(tail(np.array([10]), 24, np.array([unseen]))[0])
    assert ("end", (6,)) not in known  # two prefixes are not a pattern
    assert [len(part) for part in one._frequent([], np.empty(0, int))] == [0, 0]
    assert one._smallest(np.array([0])) == 1


def test_a_pattern_akin_to_a_kept_one_adds_three_prefixes_and_another_is_none_of_its_twins():
    found = lambda words, members, p: Candidate(tuple(words), "end", frozenset(members), p)
    first = found("ab", range(5), 0.001)
    three, two = found("b", range(8), 0.002), found("b", range(7), 0.002)
    assert distinct([first, three]) == [first, three] and distinct([first, two]) == [first]
    other, twin = found("c", range(7), 0.002), found("c", range(4), 0.002)
    assert distinct([first, other]) == [first, other] and distinct([first, twin]) == [first]


def test_a_pattern_is_three_prefixes_and_three_times_what_is_expected():
    held, chance = np.array([2, 3, 3, 9, 9]), np.array([0.0, 0.0, 0.1, 0.1, 0.101])
    assert frequent(held, 30, chance).tolist() == [False, True, False, True, False]
    shares = Correction(lambda indices: len(indices) / 100, 40, lambda n: np.random.default_rng(n))
    assert shares(0.05, 5) == 1 and shares(0.04, 5) == 1 / (1 + SETS)
    assert shares(0.41, 50) == 1 and shares(0.39, 50) < 1e-3  # no more than there are


def test_a_terms_share_of_the_text_is_that_of_all_its_forms_and_one_more():
    types = ["<s>", "<pad>", "</s>", "<unk>", "the", "graph", "Graphs", "node", "edge"]
    tokens = [4, 5, 4, 6, 7, 7, 4, 7, 4, 4, 5, 5]
    text = Corpus(np.array(tokens, np.int32), np.array([0, 6, 12]), train=2)
    lexicon = semantic.Lexicon(types, text, torch.eye(9), np.random.default_rng(1))
    graph, node, edge = (lexicon.term[t] for t in (5, 7, 8))
    assert lexicon.term.tolist() == [-1] * 5 + [graph, graph, node, edge] and len(lexicon) == 3
    overall = {graph: 5 / 8, node: 4 / 8, edge: 1 / 8}  # of 4 + 3 + 0 occurrences
    opening = {graph: 2, node: 1, edge: 0}  # among the first four tokens of the two sentences
    for term, share in overall.items():
        assert lexicon.chance[0, :, term, 0] == pytest.approx(share)
        assert lexicon.chance[1, :, term, 0] == pytest.approx((opening[term] + 1000 * share) / (3 + 1000))

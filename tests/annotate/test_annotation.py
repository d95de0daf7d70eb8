"""Test the annotation study: items shown, the forms' format, refusals and scores."""

import json
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest

from contrib.annotation_study import judgement_csv, pattern_csv
from contrib.simulated_annotators import simulate
from ff_memories import tables
from ff_memories.annotate import annotation_files, scoring, study
from ff_memories.annotate.annotation_files import Judgement, Pattern, Problems, check, check_judgements
from ff_memories.annotate.study import Item
from ff_memories.base.errors import UserError
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.store import Corpus
from ff_memories.paper.keys.measures import LABELS

ITEMS = [Item("key", 1, n, tuple((f"w{n}", f"v{i}", "</script>&\u2028") for i in range(5))) for n in range(4)]
NAMES = [i.item for i in ITEMS]
SHOWN = {name: 5 for name in NAMES}
alpha_nominal, alpha_masi = (scoring.MEASURES[f"alpha_{metric}"] for metric in ("nominal", "masi"))


def record(item=0, pattern="1", type="shallow", description="ends alike", ranks=(1, 2, 3), annotator="ann"):
    return Pattern("here", "f", annotator, NAMES[item], pattern, type, description, ranks)


STUDY = [
    record(), record(pattern="2", type="semantic", description='=1+1, "x", «y»', ranks=(1, 4, 5)),
    Pattern("here", "f", "ann", NAMES[1]), record(3, ranks=(2, 3, 4, 5)),
]  # fmt: skip


def read(path):
    records, judged = annotation_files.read_all([path], "mine", problems := Problems())
    check(records, SHOWN, problems)
    problems.refuse("correct these rows")
    return records or judged


@pytest.mark.parametrize("change", [
    lambda t: t, lambda t: t.replace("\n", "\r\n"), lambda t: "\ufeff" + t,
    lambda t: t.replace("shallow", "Shallow").replace("semantic", "SEMANTIC").replace("none", "None"),
    lambda t: t.replace("\n", "\n,,,,,,\n"), lambda t: t.replace("1 4 5", " 1  4 5 "),
])  # fmt: skip
def test_what_annotators_say_comes_back_the_same(tmp_path, change):
    (tmp_path / "a.csv").write_bytes(change(pattern_csv("mine", STUDY)).encode())
    said = lambda records: [(r.annotator, r.item, r.type, r.description, r.ranks) for r in records]
    assert said(read(tmp_path / "a.csv")) == said(STUDY)


HEADER = ",".join(annotation_files.PATTERNS)
ROW = f"mine,ann,{NAMES[0]},1,shallow,alike,1 2 3"


@pytest.mark.parametrize("text, row, message", [
    (f"{ROW}\n{ROW}", 3, "already annotated .* at .*row 2"),
    (ROW.removesuffix(" 3"), 2, "in only 2 of the prefixes; a pattern needs at least 3"),
    (ROW.replace("shallow", "shalow"), 2, "'shalow' is not a type of pattern; write shallow or semantic"),
    (ROW.replace("alike", "“so, then”"), 2, "8 cells, but the header has 7"),
    (f"{ROW} 6", 2, "unknown prefix 6; prefixes go from 1 to 5"), (f"{ROW} 2", 2, "listed twice"),
    (f"{ROW} 3-May", 2, "'3-May' is not a prefix number"), (f"{ROW} {'9' * 5000}", 2, "is not a prefix number"),
    (ROW.replace("shallow", "none"), 2, "a pattern of type none"),
    (f"{ROW}\n{ROW.replace('ann', 'Ann').replace(NAMES[0], NAMES[1])}", 3, "'Ann' is spelled 'ann' at .*row 2"),
    (ROW.replace("ann", "Zoë") + "\n" + ROW.replace("ann", "Zoe\u0308").replace(NAMES[0], NAMES[1]), 3, "is spelled"),
    (ROW.replace("ann", "Proxy"), 2, "is a reserved name"),
    (ROW.replace("ann", "Model-x"), 2, "those of no person begin with model- or simulated exactly"),
    (ROW.replace("ann", ""), 2, "the annotator's name is missing"), (ROW.replace("alike", ""), 2, "has no description"),
    (f"mine,ann,{NAMES[0]},0,none,,\n{ROW}", 3, 'patterns and "no pattern"'),
    (ROW.replace("mine", "other"), 2, "for the run 'other'; move the file to annotations/other/"),
])  # fmt: skip
def test_each_fault_is_named_with_file_row_and_a_way_to_mend_it(tmp_path, text, row, message):
    path = tmp_path / "a.csv"
    path.write_text(f"{HEADER}\n{text}", encoding="utf-8")
    with pytest.raises(UserError, match=message) as error:
        read(path)
    assert f"{path}, row {row}: " in str(error.value) and "; " in str(error.value)  # the hint


@pytest.mark.parametrize("name, content, message", [
    ("a.csv", b"", "missing columns: run, annotator"), ("a.csv", b"a,b\n1,2\n", "missing columns: run, annotator"),
    ("a.csv", "é,b".encode("latin-1"), "not UTF-8"), ("a.csv", f'{HEADER}\n"'.encode(), "row 2: not readable as CSV"),
    ("a.json", b"[]", "not an annotation file"), ("a.csv", None, "found a directory"),
])  # fmt: skip
def test_files_that_are_none_are_refused(tmp_path, name, content, message):
    (tmp_path / name).mkdir() if content is None else (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{name}.*{message}"):
        read(tmp_path / name)


def test_labels_follow_their_text_through_a_new_extraction():
    other = Item("key", 1, 0, (("other", "text"),) * 5)
    moved = {name: 5 for name in [other.item, *NAMES[1:]]}
    kept = check([record(), record(1)], moved, problems := Problems())
    assert [r.item for r in kept] == [NAMES[1]] and not problems


def test_judgements_of_compositions_are_checked(tmp_path):
    shown = {study.identity("composition", None, n) + "-x": n for n in range(3)}
    first, second, _ = shown
    judged = [Judgement("here", "f", "ann", first, "distant"), Judgement("here", "f", "ann", second, "related")]
    (tmp_path / "d.csv").write_text(judgement_csv("mine", judged))
    assert [(j.item, j.label) for j in read(tmp_path / "d.csv")] == [(j.item, j.label) for j in judged]
    problems = Problems()
    gone = Judgement("here", "f", "ann", study.identity("composition", None, 8) + "-x", "distant")
    assert check_judgements([*judged, gone], shown, problems) == judged and not problems
    check_judgements([replace(judged[0], label="distnt"), judged[0]], shown, problems)
    assert "write distant or related" in str(problems) and "already judged" in str(problems)


PUBLISHED = """1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 ."""


def test_agreement_of_a_published_example():
    """Krippendorff (2011) and Gwet (2014) work these twelve units of four raters through."""
    counts = np.zeros((12, 5), dtype=int)
    for line in PUBLISHED.splitlines():
        for unit, label in enumerate(line.split()):
            if label != ".":
                counts[unit, int(label) - 1] += 1
    assert alpha_nominal(counts) == pytest.approx(0.743, abs=5e-4)
    assert scoring.gwet_ac1(counts) == pytest.approx(0.77544, abs=5e-6)


SETS = [{"shallow"}, {"shallow", "semantic"}, {"semantic"}, set()]  # of types, as LABELS


def masi(one, other):
    """The distance of two sets from its definition, where they are equal, one holds the other, or they are disjoint."""
    return 1 - (len(one & other) / len(one | other) * (1 if one == other else 2 / 3) if one | other else 1)


def alpha_by_pairs(units, distance):
    """Krippendorff's alpha straight from its definition: 1 - observed / expected disagreement."""
    units = [unit for unit in units if len(unit) > 1]
    everything = [label for unit in units for label in unit]
    mean = lambda labels: sum(distance(a, b) for i, a in enumerate(labels) for j, b in enumerate(labels) if i != j)
    observed = sum(mean(unit) / (len(unit) - 1) for unit in units) / len(everything)
    return 1 - observed / (mean(everything) / (len(everything) * (len(everything) - 1)))


@pytest.mark.parametrize("raters", [2, 5])
def test_alpha_is_what_its_definition_gives(raters):
    rng = np.random.default_rng(raters)
    truth = rng.choice(LABELS, 40, p=[0.4, 0.1, 0.3, 0.2])
    units = [
        [str(label if rng.random() < 0.6 else rng.choice(LABELS)) for _ in range(rng.integers(1, raters + 1))]
        for label in truth
    ]
    sets = dict(zip(LABELS, SETS, strict=True))
    counts = scoring.counted(units)
    assert alpha_nominal(counts) == pytest.approx(alpha_by_pairs(units, lambda a, b: a != b))
    assert alpha_masi(counts) == pytest.approx(alpha_by_pairs(units, lambda a, b: masi(sets[a], sets[b])))


def test_intervals_are_over_keys_since_the_prefixes_of_one_go_together():
    rng = np.random.default_rng(3)
    labels = lambda: ["none", "none" if rng.random() < 0.7 else "shallow"]
    keys = [scoring.counted([labels()] * 25) for _ in range(60)]
    alike = [scoring.counted([labels()]) for _ in range(60 * 25)]
    (_, low, high), (_, narrow, wide) = (scoring.over_keys(drawn, 1, "agreement") for drawn in (keys, alike))
    # half the width for a share of 0.7 over 60 keys, and over 1,500 prefixes if they were independent
    assert (high - low) / 2 == pytest.approx(1.96 * (0.21 / 60) ** 0.5, rel=0.25)
    assert (wide - narrow) / 2 == pytest.approx(1.96 * (0.21 / 1500) ** 0.5, rel=0.25)


def chances(error):
    """Return the probabilities that an annotator sees no pattern, the true one, and one of the other type."""
    return np.array([error.miss, (1 - error.miss) * (1 - error.mistype), (1 - error.miss) * error.mistype])


def simulated_study(errors, keys=600, seed=5):
    """Return a plan of many keys with one pattern each, a tenth repeats and a tenth foils, and simulated annotators."""
    shown = [Item("key", 1, n, ((f"a{n}",),) * 10) for n in range(keys)]
    shown += [Item("repeat", 1, n, ((f"a{n}",),) * 10) for n in range(keys // 2)]
    shown += [Item("foil", None, n, ((f"f{n}",),) * 10) for n in range(keys // 2)]
    asked = study.plan(shown)
    rows = [("proxy", 1, n, 1, "same", "shallow", list(range(1, 9))) for n in range(keys)]
    truth = pl.DataFrame(rows, schema=tables.TABLES["annotations"].columns, orient="row")
    labels = [("proxy", 1, n, r, "shallow" if r < 9 else "none") for n in range(keys) for r in range(1, 11)]
    labels = pl.DataFrame(labels, schema=tables.TABLES["pattern_labels"].columns, orient="row")
    records = [r for i, e in enumerate(errors, 1) for r in simulate.annotate(i, e, asked, truth, seed)]
    found, given = scoring.annotations(records, asked), scoring.item_labels(records, asked)
    rows = scoring.scores(found, given, labels, 1)
    return {(who, measure): rest for who, measure, *rest in rows}


def test_scores_recover_the_rates_at_which_simulated_annotators_err(monkeypatch):
    monkeypatch.setattr(scoring, "RESAMPLES", 20)
    errors = [simulate.Errors(0.0, 0.0, 0.0, 0), simulate.Errors(0.2, 0.1, 0.3, 0), simulate.Errors(0.4, 0.3, 0.6, 0)]
    scores = simulated_study(errors)
    for number, error in enumerate(errors, 1):
        who = f"simulated-{number}"
        seen = 1 - error.miss
        # a repeat is labelled alike where both showings miss the pattern, or both see it with one type
        alike = 0.2 + 0.8 * (error.miss**2 + seen**2 * (error.mistype**2 + (1 - error.mistype) ** 2))
        known = {
            "foil_rate": error.foil, "keys_with_pattern": seen, "coverage": 0.8 * seen, "repeat_agreement": alike,
            "labels_as_proxy": 0.2 + 0.8 * seen * (1 - error.mistype),
        }  # fmt: skip
        for measure, rate in known.items():
            value, low, high, _ = scores[who, measure]
            assert low - 0.01 <= rate <= high + 0.01, (who, measure, rate, value)
    pairs = [0.2 + 0.8 * chances(a) @ chances(b) for a, b in combinations(errors, 2)]
    assert scores["people", "agreement"][0] == pytest.approx(np.mean(pairs), abs=0.02)


def test_nothing_of_the_corpus_can_break_out_of_a_form():
    from ff_memories.steps.annotation_sheets import pattern_form

    html = pattern_form("mine", ITEMS)
    data = html.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    assert json.loads(data)["items"][0]["prefixes"][0] == ["w0 v0", "</script>&\u2028"]
    assert html.count("</script>") == 2 and "http" not in html.replace("http-equiv", "")


def test_what_is_shown_holds_every_key_once_a_tenth_twice_and_as_many_foils():
    rows = [(layer, key, rank, 1.0, key, rank, 5) for layer in (1, 2) for key in range(10) for rank in (1, 2, 3)]
    triggers = pl.DataFrame(rows, schema=tables.TABLES["triggers"].columns, orient="row")
    corpus = Corpus(np.arange(4, 54, dtype=np.int32), np.arange(0, 51, 5), train=10)
    dictionary = Dictionary([f"w{i}" for i in range(60)])
    shown = study.items(triggers, corpus, dictionary, 10, 3, seed=1)
    kinds = [i.kind for i in shown]
    assert [kinds.count(kind) for kind in ("key", "repeat", "foil")] == [20, 2, 2]
    keys = {(i.layer, i.key): i for i in shown if i.kind == "key"}
    assert set(keys) == {(layer, key) for layer in (1, 2) for key in range(10)}
    for i in keys.values():
        assert i.prefixes == tuple(tuple(dictionary[4 + 5 * i.key + at] for at in range(n)) for n in (1, 2, 3))
    for i in shown:  # a repeat is in the other half than its key
        if i.kind == "repeat":
            assert i.prefixes == keys[i.layer, i.key].prefixes and i.item != keys[i.layer, i.key].item
            assert shown.index(keys[i.layer, i.key]) < 11 <= shown.index(i)
    assert sorted(shown.index(i) < 11 for i in shown if i.kind == "foil") == [False, True]
    assert all(i.layer is None and len(i.prefixes) == 3 for i in shown if i.kind == "foil")
    assert len({i.item for i in shown}) == 24 and shown != study.items(triggers, corpus, dictionary, 10, 3, seed=2)
    asked = study.plan(shown)
    assert asked["order"].to_list() == list(range(1, 25)) and set(asked["prefixes"]) == {3}
    assert asked.filter(pl.col("kind") == "foil")["key"].null_count() == 2 == asked["key"].null_count()
    assert study.items(triggers.clear(), corpus, dictionary, 10, 3, seed=1) == []


def test_where_all_labels_are_one_there_is_nothing_to_agree_about():
    same = scoring.counted([["none", "none"]] * 3 + [["both"]])
    assert alpha_nominal(same) is alpha_masi(same) is None
    assert alpha_nominal(scoring.counted([["none"], ["both"]])) is None  # no pairs
    assert scoring.agreement(same) == 1 and scoring.agreement(same[3:]) is None
    assert scoring.gwet_ac1(same[3:]) is None and scoring.gwet_ac1(same) > 0.7
    assert scoring.over_keys([], 1, "agreement") == (None, None, None)
    assert scoring.over_keys([same[3:]], 1, "agreement") == (None, None, None)
    assert scoring.over_keys([same], 1, "agreement") == (1, 1, 1)


def test_judgements_of_distance_are_scored_by_annotator_and_between_them():
    given = {"a": "ddddrr", "b": "dddrrr", "proxy": "rrrrrr", "c": "d"}
    rows = [
        (who, n, {"d": "distant", "r": "related"}[label]) for who, said in given.items() for n, label in enumerate(said)
    ]
    judged = pl.DataFrame(rows, schema=tables.TABLES["distance_labels"].columns, orient="row")
    scores: dict[Any, Any] = {
        (who, what): (value, n) for who, what, value, _, _, n in scoring.distance_scores(judged, 1)
    }
    assert scores["a", "distant"] == (pytest.approx(4 / 6), 6) and scores["proxy", "distant"] == (0, 6)
    assert scores["people", "distance_agreement"] == (pytest.approx((3 + 4) / (3 + 5)), 6)
    units = [list(unit) for unit in ("ddd", "dd", "dd", "dr", "rr", "rr")]
    assert scores["people", "distance_alpha_nominal"][0] == pytest.approx(alpha_by_pairs(units, lambda a, b: a != b))
    alone = judged.filter(pl.col("annotator").is_in(["a", "proxy"]))
    assert {who for who, *_ in scoring.distance_scores(alone, 1)} == {"a", "proxy"}


def test_the_chance_of_gwets_ac1_counts_keys_with_one_annotator_too():
    given = [("a", 1, "none"), ("b", 1, "none"), ("a", 2, "none"), ("b", 2, "both"), ("a", 3, "both")]
    rows = [("key", who, 1, key, 1, label) for who, key, label in given]
    labels = pl.DataFrame(rows, schema=["kind", "annotator", "layer", "key", "rank", "label"], orient="row")
    found = scoring.scores(labels.clear(), labels.with_columns(item="key"), labels.clear(), 1)
    units = scoring.counted([["none", "none"], ["none", "both"], ["both"]])
    assert [row[2] for row in found if row[1] == "gwet_ac1"] == [scoring.gwet_ac1(units)]


def test_tables_hold_patterns_of_keys_and_labels_of_all_that_was_shown():
    prefixes = (("a",), ("b",), ("c",), ("d",))
    shown = [Item("key", 1, 4, prefixes), Item("repeat", 1, 4, prefixes), Item("foil", None, 0, (("x",),) * 4)]
    asked, names = study.plan(shown), [i.item for i in shown]
    records = [
        Pattern("here", "f", "ann", names[0], "7", "semantic", "two", (3, 1, 2)),
        Pattern("here", "f", "ann", names[0], "9", "shallow", "one", (2, 3, 4)),
        Pattern("here", "f", "ann", names[1], "1", "shallow", "one", (1, 2, 3)), Pattern("here", "f", "ann", names[2]),
    ]  # fmt: skip
    assert scoring.annotations(records, asked).rows() == [
        ("ann", 1, 4, 1, "two", "semantic", [1, 2, 3]), ("ann", 1, 4, 2, "one", "shallow", [2, 3, 4]),
    ]  # fmt: skip
    labels = scoring.item_labels(records, asked)
    of = lambda name: labels.filter(pl.col("item") == name).sort("rank")["label"].to_list()
    assert [of(name) for name in names] == [
        ["semantic", "both", "both", "shallow"], ["shallow", "shallow", "shallow", "none"], ["none"] * 4,
    ]  # fmt: skip
    assert scoring.pattern_labels(labels).select("layer", "key", "rank", "label").rows() == [
        (1, 4, 1, "semantic"), (1, 4, 2, "both"), (1, 4, 3, "both"), (1, 4, 4, "shallow"),
    ]  # fmt: skip
    scores = {what: (value, n) for what, value, _, _, n in scoring._noise(labels, 1)}
    assert scores == {"foil_rate": (0, 1), "repeat_agreement": (0, 1)}
    of_key = labels.filter(pl.col("kind") == "key")
    of_annotator = scoring.of_annotator(scoring.annotations(records, asked), of_key, 1)
    found = {what: (value, n) for what, value, _, _, n in of_annotator}
    assert found == {"patterns_per_key": (2, 1), "keys_with_pattern": (1, 1), "coverage": (1, 1)}

"""Test the annotation study: items shown, answers in every format, refusals and scores."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from factories import words, write_dictionary
from pipeline import config

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.claims.measures import LABELS
from ff_memories.cli import main
from ff_memories.corpus import store
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.sentences import Sentences
from ff_memories.corpus.store import Corpus
from ff_memories.patterns import annotation_plan, inter_annotator, scoring, simulate
from ff_memories.patterns.annotation_plan import Item
from ff_memories.patterns.readers import csv_files, study, tools
from ff_memories.patterns.readers.records import Judgement, Pattern, Problems, Shown, check, check_judgements

ITEMS = [Item("key", 1, n, tuple((f"w{n}", f"v{i}", "</script>&\u2028") for i in range(5))) for n in range(4)]
NAMES = [i.item for i in ITEMS]
SHOWN = Shown({name: 5 for name in NAMES}, annotation_plan.identities(2, 10))


def record(item=0, pattern="1", type="shallow", description="ends alike", ranks=(1, 2, 3), annotator="ann", **more):
    return Pattern("here", "f", annotator, NAMES[item], pattern, type, description, ranks, **more)


STUDY = [
    record(), record(pattern="2", type="semantic", description='=1+1, "x", «y»', ranks=(1, 4, 5)),
    Pattern("here", "f", "ann", NAMES[1]), record(3, ranks=(2, 3, 4, 5)),
]  # fmt: skip


def said(records):
    """Return the content of records, without their places and the patterns' names."""
    out = {}
    for r in records:
        out.setdefault((r.annotator, r.item), []).append((r.type, r.description, r.ranks))
    return {key: sorted(value) for key, value in out.items()}


def read(path, run="mine"):
    problems = Problems()
    records, judged = study.read([path], run, problems)
    problems.refuse()
    return records or judged


@pytest.mark.parametrize(
    "name, write",
    [
        ("form.csv", lambda: csv_files.form_csv("mine", STUDY)),
        ("sheet.csv", lambda: csv_files.spreadsheet_csv("mine", ITEMS, STUDY)),
        ("studio.json", lambda: tools.label_studio_tasks("mine", ITEMS, STUDY)),
    ],
)
def test_what_annotators_say_comes_back_the_same_in_every_format(tmp_path, name, write):
    (tmp_path / name).write_text(write(), encoding="utf-8")
    found = read(tmp_path / name)
    assert said(found) == said(STUDY)
    problems = Problems()
    assert check(found, SHOWN, problems) == (found, []) and not problems.found


def test_empty_sheets_of_every_format_hold_no_annotation(tmp_path):
    (tmp_path / "sheet.csv").write_text(csv_files.spreadsheet_csv("mine", ITEMS), encoding="utf-8")
    (tmp_path / "tasks.json").write_text(tools.label_studio_tasks("mine", ITEMS), encoding="utf-8")
    assert all(read(tmp_path / name) == [] for name in ("sheet.csv", "tasks.json"))


@pytest.mark.parametrize("change", [
    lambda t: t.replace("\n", "\r\n"), lambda t: "\ufeff" + t, lambda t: "sep=,\n" + t, lambda t: t.replace("\n", "\r"),
    lambda t: t.replace("shallow", "Shallow").replace("semantic", "SEMANTIC").replace("none", "None"),
    lambda t: t.replace("\n", "\n,,,,,,\n"), lambda t: t.replace(",none,,\n", ",none\n"),
    lambda t: "\n".join(";".join(f'"{c}"' if ";" in c or "," in c else c.replace('"', '""') for c in row)
                        for row in csv.reader(t.splitlines())) + "\n",
])  # fmt: skip
def test_what_spreadsheets_do_to_a_csv_file_changes_nothing(tmp_path, change):
    plain = [replace(r, description=r.description.replace('"', "")) for r in STUDY]
    (tmp_path / "a.csv").write_bytes(change(csv_files.form_csv("mine", plain)).encode())
    assert said(read(tmp_path / "a.csv")) == said(plain)


HEADER = ",".join(csv_files.COLUMNS)
ROW = f"mine,ann,{NAMES[0]},1,shallow,alike,1 2 3"


@pytest.mark.parametrize(
    "text, row, message",
    [
        ("mine,ann,i0000000000-1111111111,1,shallow,alike,1 2 3", 2, "unknown item 'i0000000000-1111111111'"),
        (f"{ROW}\n{ROW}", 3, "already annotated .* at .*row 2"),
        (f"mine,ann,{NAMES[0]},1,shallow,alike,1 2", 2, "in only 2 of the prefixes; a pattern needs at least 3"),
        (f"mine,ann,{NAMES[0]},1,shalow,alike,1 2 3", 2, "'shalow' is not a type of pattern; write shallow"),
        (f"mine,ann,{NAMES[0]},1,“shallow”,alike,1 2 3", 2, "typographic quotes"),
        (f"mine,ann,{NAMES[0]},1,shallow,“so, then”,1 2 3", 2, "8 cells, but the header has 7 .*typographic quotes"),
        (f"mine,ann,{NAMES[0]},1,shallow,alike,1 2 3 6", 2, "unknown prefix 6; prefixes go from 1 to 5"),
        (f"mine,ann,{NAMES[0]},1,shallow,alike,0 1 2 3", 2, "unknown prefix 0"),
        (f"mine,ann,{NAMES[0]},1,shallow,alike,1 2 2 3", 2, "listed twice"),
        (f"mine,ann,{NAMES[0]},1,shallow,alike,3-May", 2, "looks like a date"),
        (f"mine,ann,{NAMES[0]},1,shallow,alike,2026-01-03", 2, "looks like a date"),
        (f"mine,ann,{NAMES[0]},1,shallow,alike,05. Mär", 2, "looks like a date"),
        (f"mine,ann,{NAMES[0]},1,shallow,alike,1:03", 2, "looks like a date"),
        (f"mine,ann,{NAMES[0]},1,shallow,alike,46146", 2, "unknown prefix 46146; .*turned them into a date"),
        (f"mine,ann,{NAMES[0]},1,shallow,alike,1000", 2, "unknown prefix 1000; .*turned them into a date"),
        (f"mine,ann,{NAMES[0]},1,shallow,alike,999", 2, "unknown prefix 999; .*correct the numbers(?!; a spreadsheet)"),
        (f"mine,ann,{NAMES[0]},1,shallow,alike,“1 2 3”", 2, "'“1', '3”' is not a prefix number.*without typographic"),
        (f"mine,ann,{NAMES[0]},1,shallow,#NAME?,1 2 3", 2, "took the description for a formula"),
        (f"mine,ann,{NAMES[0]},1,none,alike,1 2 3", 2, "a pattern of type none"),
        (f"{ROW}\n{ROW.replace('ann', 'Ann').replace(NAMES[0], NAMES[1])}", 3, "'Ann' is spelled 'ann' at .*row 2"),
        (f"mine,Proxy,{NAMES[0]},1,shallow,alike,1 2 3", 2, "is a reserved name"),
        (f"mine,Model-x,{NAMES[0]},1,shallow,alike,1 2 3", 2, "could mean model-….*begin the name with model- exactly"),
        (f"mine,model_x,{NAMES[0]},1,shallow,alike,1 2 3", 2, "could mean model-…"),
        (f"mine,Model x,{NAMES[0]},1,shallow,alike,1 2 3", 2, "could mean model-…"),
        (f"mine,SIMULATED-1,{NAMES[0]},1,shallow,alike,1 2 3", 2, "could mean simulated-…"),
        (f"mine,ann,{NAMES[0]},1,shallow,alike,1 2 x", 2, "'x' is not a prefix number"),
        (f"mine,ann,{NAMES[0]},1,shallow,alike,1²3\n{ROW.replace(NAMES[0], NAMES[1])} ٣", 3, "'1²3' is not a prefix"),
        (f"mine,ann,{NAMES[0]},1,shallow,,1 2 3", 2, "has no description"),
        (f"mine,ann,{NAMES[0]},1,,alike,1 2 3", 2, "is not a type"),
        (f"mine,ann,{NAMES[0]},0,none,,\nmine,ann,{NAMES[0]},1,shallow,alike,1 2 3", 3, 'patterns and "no pattern"'),
        (f"other,ann,{NAMES[0]},1,shallow,alike,1 2 3", 2, "for the run 'other'; move the file to annotations/other/"),
        (f"mine,,{NAMES[0]},1,shallow,alike,1 2 3", 2, "the annotator's name is missing"),
        (f"mine,proxy,{NAMES[0]},1,shallow,alike,1 2 3", 2, "is a reserved name"),
        (f"{ROW}\r\n{ROW.replace(NAMES[0], NAMES[1])}\n", 3, "ends in LF, but earlier rows in CR LF|ends in CR LF"),
        ("", None, "only a header"),
    ],
)  # fmt: skip
def test_each_fault_is_named_with_file_row_and_a_way_to_mend_it(tmp_path, text, row, message):
    path = tmp_path / "a.csv"
    path.write_bytes(f"{HEADER}\n{text}".encode() if "\r" not in text else f"{HEADER}\r\n{text}".encode())
    with pytest.raises(UserError, match=message) as error:
        problems = Problems()
        records, _ = study.read([path], "mine", problems)
        check(records, SHOWN, problems)
        problems.refuse()
    assert str(path) in str(error.value) and (row is None or f"row {row}" in str(error.value))
    assert "; " in str(error.value)  # the mending hint


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.csv", b"", "the file is empty"), ("a.csv", b"\n\n", "the file is empty"), ("a.json", b" ", "empty"),
        ("a.csv", "é,b".encode("latin-1"), "row 1: not UTF-8"),
        ("a.csv", "run".encode("utf-16"), "UTF-16"),
        ("a.csv", "run,annotator".encode("utf-16-le"), "UTF-16"), ("a.csv", b"PK\3\4\0", "a renamed spreadsheet file"),
        ("a.csv", f"{HEADER},Type\n{ROW},\n".encode(), "row 1: two columns are named type"),
        ("a.csv", b"a,b\n1,2\n", "missing columns: annotator"),
        ("a.json", b"[{]", "not readable as JSON"), ("a.json", b"{}", "not a list of Label Studio tasks"),
        ("a.jsonl", b"{}\n", "not an annotation file"), ("a.xlsx", b"PK", "not an annotation file"),
        ("a.json", b'[{"data": 3}]', "not a list of Label Studio tasks"), ("a.json", b"[3]", "not a list of Label"),
        ("a.json", b'[{"data": {"run": "x", "item": "i"}}]', "labels for the run 'x'"),
        ("a.json", b'[{"data": {"run": "mine", "item": [1]}}]', "the item's name is missing"),
        ("a.json", b'[{"data": {"run": "mine", "item": "i"}, "annotations": ["x"]}]', "task 1: a result that our"),
        ("a.json", b'[{"data": {"run": "mine", "item": "i"}, "annotations": [{"result": "x"}]}]', "task 1: a result"),
    ],
)  # fmt: skip
def test_files_that_are_none_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize("name", ["a.csv", "a.json"])
@pytest.mark.parametrize(
    "make, said", [(Path.mkdir, "expected a file, found a directory"), (Path.touch, "empty"), (None, "No such file")]
)
def test_a_file_that_is_none_is_refused_by_name(tmp_path, name, make, said):
    if make:
        make(tmp_path / name)
    with pytest.raises(UserError, match=rf"{name}: .*{said}"):
        read(tmp_path / name)


@pytest.mark.parametrize("row, column, text, said", [
    (4, 6, "no", ["row 4: unknown mark 'no' in pattern 1; tick with x"]),
    (4, 3, "5-Mar", ["row 4: the row's number is '5-Mar'"]),
    (3, 6, "", ["row 3: '.empty.' is not a type"]), (2, 6, "", ["row 2: the pattern has no description"]),
    (3, 3, "", ["row 2: .* lacks its row 'description' or 'type'"]), (2, 7, "none", ["row 2: .* both patterns and"]),
    (4, 6, "", ["row 2: a pattern in only 2 of the prefixes"]), (4, 6, "TRUE", []),
])  # fmt: skip
def test_each_fault_of_a_spreadsheet_is_named_once(tmp_path, row, column, text, said):
    cells = list(csv.reader(csv_files.spreadsheet_csv("mine", ITEMS[:1], [record()]).splitlines()))
    cells[row - 1][column] = text
    with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=";").writerows(cells)
    problems = Problems()
    check(study.read([tmp_path / "a.csv"], "mine", problems)[0], SHOWN, problems)
    assert len(problems.found) == len(said)
    assert all(re.search(what, found) for what, found in zip(said, problems.found, strict=True))


def test_all_faults_are_said_at_once():
    problems = Problems()
    check(
        [record(type="x"), record(1, ranks=(1, 2)), record(2, ranks=(9, 1, 2)), record(3, ranks=(), readable=False)],
        SHOWN,
        problems,
    )
    with pytest.raises(UserError) as error:
        problems.refuse()
    assert all(word in str(error.value) for word in ("3 problems", "'x'", "in only 2 of", "unknown prefix 9"))


def test_faults_are_said_once_and_in_the_order_of_files_and_rows(tmp_path):
    lines = [f"mine,ann,{NAMES[n]},1,shallow,alike,1 2 3" for n in range(4)]
    for name, at in (("b.csv", (1, 3)), ("a.csv", (2,))):
        part = [line.replace("1 2 3", "3-5") if n in at else line.replace("ann", name) for n, line in enumerate(lines)]
        mixed = "\r\n".join(part) + "\n"
        (tmp_path / name).write_bytes(f"{HEADER}\r\n{mixed}".encode())
    problems = Problems()
    records, _ = study.read([tmp_path / "b.csv", tmp_path / "a.csv"], "mine", problems)
    check(records, SHOWN, problems)
    with pytest.raises(UserError) as error:
        problems.refuse()
    said = [line.split(":")[0].strip().removeprefix(f"{tmp_path}/") for line in str(error.value).splitlines()[1:-1]]
    assert said == ["a.csv, row 4", "a.csv, row 5", "b.csv, row 3", "b.csv, row 5", "b.csv, row 5"]


def test_labels_follow_their_text_through_a_new_extraction_and_the_others_are_listed():
    other = Item("key", 1, 0, (("other", "text"),) * 5)
    moved = Shown({name: 5 for name in [other.item, *NAMES[1:]]}, annotation_plan.identities(2, 10))
    kept, stale = check([record(), record(1)], moved, problems := Problems())
    assert [r.item for r in kept] == [NAMES[1]] and [r.item for r in stale] == [NAMES[0]] and not problems.found


def test_judgements_of_compositions_are_checked(tmp_path):
    shown = {annotation_plan.identity("composition", None, n) + "-x": n for n in range(3)}
    known = {annotation_plan.identity("composition", None, n) for n in range(9)}
    first, second, _ = shown
    judged = [Judgement("here", "f", "ann", first, "distant"), Judgement("here", "f", "ann", second, "related")]
    (tmp_path / "d.csv").write_text(csv_files.distance_csv("mine", judged))
    assert [(j.item, j.label) for j in read(tmp_path / "d.csv")] == [(j.item, j.label) for j in judged]
    problems = Problems()
    gone = Judgement("here", "f", "ann", annotation_plan.identity("composition", None, 8) + "-x", "distant")
    kept, stale = check_judgements([*judged, gone], shown, known, ("distant", "related"), problems)
    assert (kept, stale, problems.found) == (judged, [gone], [])
    wrong = [replace(judged[0], label="distnt"), judged[0], replace(judged[1], item="i1-1")]
    check_judgements(wrong, shown, known, ("distant", "related"), problems)
    assert [
        w for w in ("write distant", "already judged", "unknown item") if not any(w in p for p in problems.found)
    ] == []


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
    assert inter_annotator.alpha_nominal(counts) == pytest.approx(0.743, abs=5e-4)
    assert inter_annotator.gwet_ac1(counts) == pytest.approx(0.77544, abs=5e-6)


def test_masi_is_the_distance_of_sets():
    s, m, b, none = frozenset({"shallow"}), frozenset({"semantic"}), frozenset({"shallow", "semantic"}), frozenset()
    assert [inter_annotator.masi(s, x) for x in (s, b, m, none)] == pytest.approx([0, 2 / 3, 1, 1])
    assert inter_annotator.masi(none, none) == 0
    assert inter_annotator.masi(frozenset("abc"), frozenset("bcd")) == pytest.approx(1 - 2 / 4 / 3)
    mild, hard = (inter_annotator.counted([["shallow", x], ["semantic"] * 2, ["none"] * 2]) for x in ("both", "none"))
    assert inter_annotator.alpha_masi(mild) > inter_annotator.alpha_masi(hard)
    assert inter_annotator.alpha_nominal(inter_annotator.counted([["none"], ["both"]])) is None  # no pairs


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
    sets = dict(zip(LABELS, inter_annotator.SETS, strict=True))
    assert sets["both"] == {"shallow", "semantic"} and sets["none"] == set()
    counts = inter_annotator.counted(units)
    assert inter_annotator.alpha_nominal(counts) == pytest.approx(alpha_by_pairs(units, lambda a, b: a != b))
    masi = alpha_by_pairs(units, lambda a, b: inter_annotator.masi(sets[a], sets[b]))
    assert inter_annotator.alpha_masi(counts) == pytest.approx(masi)


def test_intervals_are_over_keys_since_the_prefixes_of_one_go_together():
    rng = np.random.default_rng(3)
    keys = [inter_annotator.counted([["none", "none" if rng.random() < 0.7 else "shallow"]] * 25) for _ in range(60)]
    alike = [inter_annotator.counted([["none", "none" if rng.random() < 0.7 else "shallow"]]) for _ in range(60 * 25)]
    (_, low, high), (_, narrow, wide) = (inter_annotator.over_keys(drawn, 1, "agreement") for drawn in (keys, alike))
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
    asked = annotation_plan.table(shown)
    rows = [("proxy", 1, n, 1, "same", "shallow", list(range(1, 9))) for n in range(keys)]
    truth = pl.DataFrame(rows, schema=tables.TABLES["annotations"].columns, orient="row")
    labels = [("proxy", 1, n, r, "shallow" if r < 9 else "none") for n in range(keys) for r in range(1, 11)]
    labels = pl.DataFrame(labels, schema=tables.TABLES["pattern_labels"].columns, orient="row")
    records = [r for i, e in enumerate(errors, 1) for r in simulate.annotate(i, e, asked, truth, seed)]
    found, given = scoring.annotations(records, asked), scoring.item_labels(records, asked)
    rows = scoring.scores(found, given, truth, labels, 1)
    return {(who, measure): rest for who, measure, *rest in rows}


def test_scores_recover_the_rates_at_which_simulated_annotators_err(monkeypatch):
    monkeypatch.setattr(inter_annotator, "RESAMPLES", 20)
    errors = [simulate.Errors(0.0, 0.0, 0.0, 0), simulate.Errors(0.2, 0.1, 0.3, 0), simulate.Errors(0.4, 0.3, 0.6, 0)]
    scores = simulated_study(errors)
    for number, error in enumerate(errors, 1):
        who = f"simulated-{number}"
        seen = 1 - error.miss
        # a repeat is labelled alike where both showings miss the pattern, or both see it with one type
        alike = 0.2 + 0.8 * (error.miss**2 + seen**2 * (error.mistype**2 + (1 - error.mistype) ** 2))
        known = {
            "foil_rate": error.foil, "proxy_patterns_found": seen, "proxy_types_alike": 1 - error.mistype,
            "keys_with_pattern": seen, "coverage": 0.8 * seen, "repeat_agreement": alike,
            "labels_as_proxy": 0.2 + 0.8 * seen * (1 - error.mistype),
        }  # fmt: skip
        for measure, rate in known.items():
            value, low, high, _ = scores[who, measure]
            assert low - 0.01 <= rate <= high + 0.01, (who, measure, rate, value)
    pairs = []
    for a, b in ((0, 1), (0, 2), (1, 2)):
        pairs.append(0.2 + 0.8 * float(chances(errors[a]) @ chances(errors[b])))
    assert scores["people", "agreement"][0] == pytest.approx(np.mean(pairs), abs=0.02)


def test_people_agree_about_keys_that_two_of_them_labelled():
    never = simulate.Errors(0, 0, 0, 0)
    assert simulated_study([never, never], keys=20)["people", "agreement"] == [1, 1, 1, 20]
    assert simulated_study([never], keys=20)["people", "agreement"] == [None, None, None, 0]


def test_nothing_of_the_corpus_can_break_out_of_a_form():
    from ff_memories.patterns.forms import pages

    html = pages.pattern_form("mine", ITEMS)
    data = html.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    assert json.loads(data)["items"][0]["prefixes"][0] == ["w0 v0", "</script>&\u2028"]
    assert html.count("</script>") == 2 and "http" not in html.replace("http-equiv", "")


def test_patterns_are_the_same_by_what_they_share_of_all_they_cover():
    one = lambda *ranks: pl.DataFrame({"layer": [1], "key": [2], "annotator": ["a"], "pattern": [1], "ranks": [ranks],
                                       "type": ["shallow"]}, schema_overrides={"ranks": pl.List(pl.Int64)})  # fmt: skip
    assert scoring._shared(one(1, 2, 3, 4), one(1, 2, 3, 4)) == ([True], [True])
    assert scoring._shared(one(1, 2, 3, 4), one(3, 4, 5, 6)) == ([False], [])


GAPS = Item("key", 1, 9, (("a", "b"), (), ("c", "d", "e")))
GAPPED = Pattern("here", "f", "ann", GAPS.item, "1", "shallow", "short", (1, 2, 3))


def test_marks_hold_the_lines_of_their_prefixes_the_empty_one_among_them():
    lines = ["a b", "(empty)", "c d e"]
    (task,) = json.loads(tools.label_studio_tasks("mine", [GAPS], [GAPPED]))
    assert task["data"]["text"] == "\n".join(lines)
    (made,) = task["annotations"]
    spans = [result["value"] for result in made["result"] if result["type"] == "labels"]
    assert [task["data"]["text"][s["start"] : s["end"]] for s in spans] == [s["text"] for s in spans] == lines
    assert [s["labels"] for s in spans] == [["pattern 1"]] * 3 and made["completed_by"] == {"email": "ann"}
    assert "annotations" not in json.loads(tools.label_studio_tasks("mine", [GAPS]))[0]


@pytest.mark.parametrize(
    "start, end, ranks", [(0, 3, {1}), (0, 4, {1}), (1, 5, {1, 2}), (4, 4, {2}), (5, 17, {2, 3}), (0, 0, {1})]
)
def test_a_mark_is_in_every_line_that_it_touches(tmp_path, start, end, ranks):
    text = tools.text_of(GAPS)
    task = {"data": {"run": "mine", "item": "i", "text": text}, "annotations": [{"completed_by": 7, "result": [
        {"from_name": "pattern", "value": {"start": start, "end": end, "labels": ["pattern 2"]}},
        {"from_name": "type_2", "value": {"choices": ["semantic"]}},
        {"from_name": "description_2", "value": {"text": [" two", "words "]}},
    ]}]}  # fmt: skip
    (tmp_path / "a.json").write_text(json.dumps([task]))
    (studio,) = read(tmp_path / "a.json")
    assert set(studio.ranks) == ranks
    assert (studio.annotator, studio.pattern, studio.type, studio.description) == (
        "user 7",
        "2",
        "semantic",
        "two words",
    )


def test_label_studios_annotators_have_an_address_or_a_number_and_take_back_what_they_cancel(tmp_path):
    nothing = [{"from_name": "nothing", "value": {"choices": [tools.NOTHING]}}]
    given = [{"email": "a@b", "id": 1}, {"id": 3}, 4]
    made = [{"completed_by": who, "result": nothing} for who in given]
    made.append({"completed_by": 5, "was_cancelled": True, "result": nothing})
    task = {"data": {"run": "mine", "item": "i", "text": "a"}, "annotations": made}
    (tmp_path / "a.json").write_text(json.dumps([task]))
    assert [(r.annotator, r.type, r.item) for r in read(tmp_path / "a.json")] == [
        ("a@b", "", "i"), ("3", "", "i"), ("user 4", "", "i"),
    ]  # fmt: skip


def test_interfaces_offer_as_many_patterns_as_they_have_room_for():
    config = tools.label_studio_config()
    for n, colour in enumerate(tools.COLOURS, 1):
        assert f'<Label value="pattern {n}" background="{colour}" hotkey="{n}"/>' in config
        assert f'name="description_{n}"' in config and f'name="type_{n}"' in config
    assert "pattern 9" not in config and "_9" not in config and "pattern 0" not in config


def test_what_is_shown_holds_every_key_once_a_tenth_twice_and_as_many_foils():
    rows = [(layer, key, rank, 1.0, key, rank, 5) for layer in (1, 2) for key in range(10) for rank in (1, 2, 3)]
    triggers = pl.DataFrame(rows, schema=tables.TABLES["triggers"].columns, orient="row")
    corpus = Corpus(np.arange(4, 54, dtype=np.int32), np.arange(0, 51, 5), train=10)
    dictionary = Dictionary([f"w{i}" for i in range(60)])
    shown = annotation_plan.items(triggers, corpus, dictionary, 10, 3, seed=1)
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
    assert len({i.item for i in shown}) == 24 and shown != annotation_plan.items(
        triggers, corpus, dictionary, 10, 3, seed=2
    )
    known = annotation_plan.identities(2, 10)
    assert len(known) == 60 and all(i.item.partition("-")[0] in known for i in shown)
    asked = annotation_plan.table(shown)
    assert asked["order"].to_list() == list(range(1, 25)) and set(asked["prefixes"]) == {3}
    assert asked.filter(pl.col("kind") == "foil")["key"].null_count() == 2 == asked["key"].null_count()
    assert annotation_plan.items(triggers.clear(), corpus, dictionary, 10, 3, seed=1) == []


def test_where_all_labels_are_one_there_is_nothing_to_agree_about():
    same = inter_annotator.counted([["none", "none"]] * 3 + [["both"]])
    assert inter_annotator.alpha_nominal(same) is inter_annotator.alpha_masi(same) is None
    assert inter_annotator.agreement(same) == 1 and inter_annotator.agreement(same[3:]) is None
    assert inter_annotator.gwet_ac1(same[3:]) is None and inter_annotator.gwet_ac1(same) > 0.7
    assert inter_annotator.over_keys([], 1, "agreement") == (None, None, None)
    assert inter_annotator.over_keys([same[3:]], 1, "agreement") == (None, None, None)
    assert inter_annotator.over_keys([same], 1, "agreement") == (1, 1, 1)


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


def test_tables_hold_patterns_of_keys_and_labels_of_all_that_was_shown():
    prefixes = (("a",), ("b",), ("c",), ("d",))
    shown = [Item("key", 1, 4, prefixes), Item("repeat", 1, 4, prefixes), Item("foil", None, 0, (("x",),) * 4)]
    asked, names = annotation_plan.table(shown), [i.item for i in shown]
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
    found = {
        what: (value, n)
        for what, value, _, _, n in scoring.of_annotator(scoring.annotations(records, asked), of_key, 1)
    }
    assert found == {"patterns_per_key": (2, 1), "keys_with_pattern": (1, 1), "coverage": (1, 1)}


def test_an_annotator_is_compared_with_the_proxy_on_the_keys_that_were_annotated():
    pattern = lambda who, key, ranks, kind: (who, 1, key, 1, "same", kind, ranks)
    columns = tables.TABLES["annotations"].columns
    theirs = pl.DataFrame([pattern("ann", 0, [1, 2, 3], "shallow")], schema=columns, orient="row")
    machine = [pattern("proxy", key, [1, 2, 3, 4], "semantic") for key in (0, 7)]  # nobody was asked about key 7
    label = lambda key, rank, said, **more: {"layer": 1, "key": key, "rank": rank, "label": said, **more}
    mine = [label(0, rank, "shallow" if rank < 4 else "none", kind="key") for rank in range(1, 5)]
    mine += [label(0, rank, "none", kind="repeat") for rank in range(1, 5)]
    labels = [label(key, rank, "shallow") for key in (0, 7) for rank in range(1, 5)]
    found = scoring._against(theirs, pl.DataFrame(mine), pl.DataFrame(machine, schema=columns, orient="row"),
                             pl.DataFrame(labels), 1)  # fmt: skip
    assert {name: (value, n) for name, value, _, _, n in found} == {
        "proxy_patterns_found": (1, 1), "proxy_types_alike": (0, 1), "own_patterns_found_by_proxy": (1, 1),
        "labels_as_proxy": (0.75, 1),
    }  # fmt: skip
    once = scoring._against(theirs, pl.DataFrame(mine[:4]), pl.DataFrame(machine, schema=columns, orient="row"),
                            pl.DataFrame(labels), 1)  # fmt: skip
    assert once == found  # repeats do not count
    nothing = pl.DataFrame([label(0, 1, "none", kind="repeat")])
    assert [n for *_, n in scoring._against(theirs.clear(), nothing, theirs.clear(), pl.DataFrame(labels), 1)] == [
        0
    ] * 4


def test_mixed_line_ends_are_said_once_however_often_they_change(tmp_path):
    lines = [f"mine,ann,{name},1,shallow,alike,1 2 3" for name in NAMES]
    mixed = "".join(line + end for line, end in zip([HEADER, *lines], ["\n", "\r\n", "\n", "\r\n", "\n"], strict=True))
    (tmp_path / "a.csv").write_bytes(mixed.encode())
    study.read([tmp_path / "a.csv"], "mine", problems := Problems())
    assert len(problems.found) == 1 and "row 2" in problems.found[0]


@pytest.fixture
def simulated(tmp_path, monkeypatch):
    """Return a function that simulates annotators of one key with one pattern and writes their files."""
    monkeypatch.chdir(tmp_path)
    Path("my.yaml").write_text(yaml.safe_dump(config()))
    write_dictionary(tmp_path / "dict.txt", words(10))
    store.write(Sentences(), Sentences(), "corpus.safetensors")
    held = {"annotations": [("proxy", 1, 4, 1, "ends alike", "shallow", [1, 2, 3])]}
    for name in ("annotations", "distance_labels", "examples", "refinement"):
        rows = pl.DataFrame(held.get(name, []), schema=tables.TABLES[name].columns, orient="row")
        tables.write(rows, f"{name}.parquet")
    tables.write(annotation_plan.table([Item("key", 1, 4, (("a",), ("b",), ("c",)))]), "annotation_plan.parquet")
    given = {name: f"{name}.parquet" for name in ("annotations", "examples", "refinement")}
    given |= {"plan": "annotation_plan.parquet", "distances": "distance_labels.parquet", "config": "my.yaml"}
    given |= {"corpus": "corpus.safetensors", "dictionary": "dict.txt", "out": "said"}

    def simulate_annotators(*rates):
        with pytest.raises(SystemExit) as end:
            main(["annotate", "simulate", *(w for k, v in given.items() for w in (f"--{k}", v)), *rates])
        return end.value.code, sorted(path.name for path in Path("said").glob("*"))

    return simulate_annotators


def test_one_rate_is_every_simulated_annotators_and_where_nothing_is_judged_no_file_says_so(simulated):
    assert simulated("--miss", "0", "1", "--mistype", "0") == (0, ["simulated-1.csv", "simulated-2.csv"])
    found = [read(f"said/simulated-{n}.csv", "small") for n in (1, 2)]
    assert [[(r.item, r.type, r.ranks) for r in records] for records in found] == [
        [(found[0][0].item, "shallow", (1, 2, 3))], [(found[0][0].item, "", ())],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "rates", [("--miss", "1.5"), ("--foil", "-0.1"), ("--miss", "0", "1", "--foil", "0", "0", "1")]
)
def test_rates_that_are_none_or_that_do_not_pair_are_refused(simulated, capsys, rates):
    assert simulated(*rates) == (2, [])
    assert "expected rates between 0 and 1, and the same number of rates for every option" in capsys.readouterr().err

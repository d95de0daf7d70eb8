"""A language model as an annotator: prompts, answers in any wording, and scores beside people and the proxy."""

import csv
import json
import re
from pathlib import Path

import polars as pl
import pytest
from contributed import use
from pipeline import step

from contrib.language_model import prompts, reading
from ff_memories import tables
from ff_memories.annotate import annotation_files
from ff_memories.annotate.annotation_files import Problems
from ff_memories.annotate.study import FEWEST, Item
from ff_memories.report.page import annotation_section
from ff_memories.tables import annotation as annotators

ITEM = Item("key", 1, 3, (("a", "red", "cat"), ("the", "cat"), ("dog",), (), ("one", "cat")))
ITEMS = {ITEM.item: len(ITEM.prefixes)}


# ----------------------------------------------------------------------------------------------- prompts and answers


def test_a_prompt_shows_the_prefixes_as_the_forms_do_and_no_key():
    text = prompts.prompt(ITEM)
    assert "1. a red [cat]\n2. the [cat]\n3. [dog]\n4. []\n5. one [cat]\n" in text
    assert f"at least {FEWEST} prefixes" in text and "layer" not in text and ITEM.item not in text
    pieces = prompts.prompt(Item("key", 1, 3, (("un", "␣like", "ly"),)))
    assert 'A "␣" is a blank in the text' in pieces and "␣" not in text and "1. un ␣like [ly]\n" in pieces
    assert [json.loads(line) for line in prompts.lines([ITEM]).splitlines()] == [{"item": ITEM.item, "prompt": text}]


def read(folder, answer, items=ITEMS):
    """Read one answer: it, and the problems with it."""
    (folder / f"1-{ITEM.item}.txt").write_text(answer, encoding="utf-8")
    found = reading.read(folder, "m", items, problems := Problems())
    return found, problems


def said(found):
    return [(r.type, r.ranks, r.description) for answer in found for r in answer.records]


def test_the_prompts_own_example_is_no_answer(tmp_path):
    example = prompts.FORM.partition("\n\n")[2]
    found, problems = read(tmp_path, example)
    assert not said(found) and len(problems) == 2 and all("repeats the prompt's example" in p for p in problems)
    assert reading.mended(found, ITEMS) == ([], 2)
    found, problems = read(tmp_path, f"* **shallow** | 1, 4, 7 | ends with “press”.\n| {example}\nnone")
    assert len(problems) == 3
    records, changed = reading.mended(found, ITEMS)
    assert [(r.type, r.item) for r in records] == [("", ITEM.item)] and changed == 3  # the answer after them counts
    found, problems = read(tmp_path, 'shallow | 1 2 4 | ends with "press"')  # others' prefixes: a finding
    assert said(found) == [("shallow", (1, 2, 4), 'ends with "press"')] and not problems


@pytest.mark.parametrize("answer, expected, changed", [
    ("shallow | 1 2 2 9 | two left\nshallow | 1 2 3 7 | three left\nsemantic | 1 2 3 |  \nnone\n",
     [("shallow", (1, 2, 3))], 4),  # every faulty line counts once
    ("shallow | 1-25 | a", [("shallow", (1, 2, 3, 4, 5))], 1), ("none", [("", ())], 0),
    ("shallow | 1 2 | two", [("", ())], 1), ("shallow | some | a\nsemantic | 1 2 | two", [], 2),  # it saw a pattern
    ("semantic pattern | 1 2 3 | a", [], 1), ("shallow | 1 2 3 |  ", [], 1), ("shallow | 11-15 | a", [], 1),
])  # fmt: skip
def test_lenient_answers_break_no_rule_and_none_is_only_what_was_said(tmp_path, answer, expected, changed):
    found, _ = read(tmp_path, answer)
    records, number = reading.mended(found, ITEMS)
    assert [(r.type, r.ranks) for r in records] == expected and number == changed
    assert all(r.item == ITEM.item for r in records) and [r.pattern for r in records if r.type] in ([], ["1"])


# ------------------------------------------------------------------------------------------------------ end to end


@pytest.fixture
def plan(of_small_run):
    """The plan of the small run, in whose folder the tests work."""
    return tables.read("results/small/tables/annotation_plan.parquet").sort("order")


def use_here(command, *words):
    use("language_model", command, "--configfile", "my.yaml", *words)


def answered(folder, name, answer):
    """Answer every prompt as a model would, from the prompt's text alone; return the file of its labels."""
    if not (folder / "prompts").exists():
        use_here("prompts", "--out", folder / "prompts")
    (folder / name).mkdir()
    for path in (folder / "prompts").glob("*.txt"):
        (folder / name / path.name).write_text(answer(path.read_text(encoding="utf-8")), encoding="utf-8")
    out = folder / f"{name}.csv"
    use_here("answers", "--answers", folder / name, "--annotator", name, "--lenient", "--out", out)
    return out


def last_words(prompt):
    """Name the most frequent last word, if three prefixes end with it: a model that sees shallow patterns alone."""
    ends = {int(n): word for n, word in re.findall(r"^ *(\d+)\. .*\[(.*)\]$", prompt, re.MULTILINE)}
    by_word = {}
    for number, word in ends.items():
        by_word.setdefault(word, []).append(number)
    word, ranks = max(by_word.items(), key=lambda pair: len(pair[1]))
    return f"shallow | {' '.join(map(str, ranks))} | ends with {word}" if len(ranks) >= FEWEST else "none"


def test_a_model_stands_beside_people_and_the_proxy(plan, tmp_path, capsys):
    seen = lambda prompt: "semantic | 1 2 3 | about one subject"  # sees a pattern in everything, foils among it
    first, second = answered(tmp_path, "model-a", last_words), answered(tmp_path, "b", seen)
    person = Path("annotations/small/ann.csv")
    person.parent.mkdir(parents=True, exist_ok=True)
    person.write_text(first.read_text(encoding="utf-8").replace("model-a", "ann"), encoding="utf-8")  # says the same
    try:
        use_here("score", "--files", first, second, "--out", tmp_path / "scores.csv")
    finally:
        person.unlink()
    rows = csv.DictReader((tmp_path / "scores.csv").read_text(encoding="utf-8").splitlines())
    found = {(r["who"], r["beside"], r["measure"]): r for r in rows}
    value = lambda *key: float(found[key]["value"])
    keys = plan.filter(kind="key")
    assert value("ann", "model-a", "agreement") == 1 and int(found["ann", "model-a", "agreement"]["n"]) == keys.height
    assert value("ann", "model-b", "agreement") < 0.7
    assert value("model-b", "", "foil_rate") == 1 and value("model-b", "", "repeat_agreement") == 1
    labels = tables.read("results/small/tables/pattern_labels.parquet")
    in_three = pl.when(pl.col("rank") <= 3).then(pl.lit("semantic")).otherwise(pl.lit("none"))
    alike = labels.select((pl.col("label").cast(pl.String) == in_three).mean()).item()
    assert value("model-b", "proxy", "agreement") == pytest.approx(alike)
    assert "ann and model-a: alpha_nominal 1.000" in capsys.readouterr().out


@pytest.mark.parametrize("beside", ["the proxy", "a person"])
def test_a_run_takes_a_model_as_a_third_kind_of_annotator(plan, tmp_path, beside):
    given, person = answered(tmp_path, "a model", last_words), tmp_path / "ann.csv"
    records, judged = annotation_files.read_all([given], "small", problems := Problems())
    assert not problems and not judged and {r.annotator for r in records} == {"model-a model"}
    assert {r.item for r in records} == set(plan["item"])
    person.write_text(given.read_text(encoding="utf-8").replace("model-a model", "ann"), encoding="utf-8")
    with given.open("a", encoding="utf-8") as file:
        file.write("small,model-a model,gone,0,none,,\n")
    others = [person] if beside == "a person" else []
    t = lambda name: f"results/small/tables/{name}.parquet"
    out, names = tmp_path / "merged", ("annotations", "pattern_labels", "annotation_scores", "distance_labels")
    step("patterns", "--config", "my.yaml", "--annotated", given, *others, "--plan", out / "annotation_plan.parquet",
         "--triggers", t("triggers"), "--examples", t("examples"), "--refinement", t("refinement"), "--corpus",
         "results/small/corpus/corpus.safetensors", "--dictionary", "dict.txt", "--proxy",
         *(f"results/small/proxy/{name}.parquet" for name in names),
         "--annotations", out / "annotations.parquet", "--labels", out / "pattern_labels.parquet", "--distances",
         out / "distance_labels.parquet", "--scores", out / "annotation_scores.parquet", "--stale", out / "s.csv",
         "--counts", out / "counts.parquet")  # fmt: skip
    assert (out / "s.csv").read_text() == f"annotator,item,file\nmodel-a model,gone,{given}\n"
    scores = tables.read(out / "annotation_scores.parquet")
    score = lambda who, measure: scores.filter(who=who, measure=measure).row(0, named=True)
    assert set(scores["who"]) >= {"model-a model", "proxy"}
    assert score("people", "agreement")["n"] == 0  # the model is no second person
    labels, section = tables.read(out / "pattern_labels.parquet"), annotation_section(scores)
    assert "Language model a model" in dict(section["groups"]) and section["models"]
    assert section["people"] == bool(others) and "model-a model" in set(labels["annotator"])
    counting, alike = set(annotators.preferred(labels)["annotator"]), score("model-a model", "labels_as_people")
    assert (counting, alike["value"]) == (({"ann"}, 1) if others else ({"proxy"}, None))

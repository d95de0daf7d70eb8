"""A language model as an annotator: prompts, answers in any wording, and scores beside people and the proxy."""

import csv
import json
import re

import pytest
from factories import words
from laid_out import lay_out
from pipeline import config, run_steps, step, write_inputs

from ff_memories import tables
from ff_memories.base import annotators
from ff_memories.patterns.annotation_plan import Item
from ff_memories.patterns.forms import prompts
from ff_memories.patterns.readers import answers, study
from ff_memories.patterns.readers.records import Problems
from ff_memories.patterns.sample import FEWEST
from ff_memories.report.annotation import annotation_section

ITEM = Item("key", 1, 3, (("a", "red", "cat"), ("the", "cat"), ("dog",), (), ("one", "cat")))
RUN = "results/small"


# ----------------------------------------------------------------------------------------------- prompts and answers


def test_a_prompt_shows_the_prefixes_as_the_sheets_do_and_no_key():
    text = prompts.prompt(ITEM)
    assert "1. a red [cat]\n2. the [cat]\n3. [dog]\n4. []\n5. one [cat]\n" in text
    assert f"at least {FEWEST} prefixes" in text and "layer" not in text and ITEM.item not in text
    assert "␣" not in text
    pieces = prompts.prompt(Item("key", 1, 3, (("un", "␣like", "ly"),)))
    assert 'A "␣" is a blank in the text' in pieces and "1. un ␣like [ly]\n" in pieces
    names = [name for name, _ in prompts.file_names([ITEM] * 10)]
    assert names[0] == f"01-{ITEM.item}.txt" and sorted(names) == names
    held = [json.loads(line) for line in prompts.lines([ITEM]).splitlines()]
    assert held == [{"item": ITEM.item, "prompt": text}]


def test_the_prompts_own_example_is_an_answer(tmp_path):
    (tmp_path / f"1-{ITEM.item}.txt").write_text(prompts.FORM.partition("\n\n")[2], encoding="utf-8")
    problems = Problems()
    found = answers.read(tmp_path, "m", problems)
    assert not problems.found and [(r.type, r.ranks, r.description) for r in found] == [
        ("shallow", (1, 4, 7), 'ends with "press"'), ("semantic", (2, 3, 4, 9), "military bases"),
    ]  # fmt: skip


@pytest.mark.parametrize("answer, expected", [
    ("shallow | 1 2 5 | ends with cat", [("shallow", (1, 2, 5), "ends with cat")]),
    ("Let me see.\n\n1. **Shallow** | 1, 2, 5 | ends | with\n", [("shallow", (1, 2, 5), "ends | with")]),
    ("- semantic|1;2;5|animals\n- shallow|1 2 3|words", [("semantic", (1, 2, 5), "animals"),
                                                         ("shallow", (1, 2, 3), "words")]),
    ("none", [("", (), "")]), ("**None.**", [("", (), "")]), ("No pattern", [("", (), "")]),
])  # fmt: skip
def test_answers_are_read_in_any_wording(tmp_path, answer, expected):
    (tmp_path / "a.jsonl").write_text(json.dumps({"item": ITEM.item, "answer": answer}) + "\n\n", encoding="utf-8")
    problems = Problems()
    found = answers.read(tmp_path / "a.jsonl", "m", problems)
    assert not problems.found and [(r.type, r.ranks, r.description) for r in found] == expected


@pytest.mark.parametrize("answer, said", [
    ("I can't help with that.", "neither a pattern nor none"), ("", "neither a pattern nor none"),
    ("shallow | 1-5 | ends alike", "looks like a date"), ("shallow | 1 2 3", "without numbers and description"),
    ("none of these | 1", "neither a pattern nor none"),
])  # fmt: skip
def test_an_answer_that_says_nothing_is_named(tmp_path, answer, said):
    (tmp_path / f"{ITEM.item}.txt").write_text(answer, encoding="utf-8")
    answers.read(tmp_path, "m", problems := Problems())
    assert len(problems.found) == 1 and said in problems.found[0] and ITEM.item in problems.found[0]


def test_files_that_are_no_answers_are_named(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / f"1-{ITEM.item}.txt").write_text("none")
    (tmp_path / f"2-{ITEM.item}.txt").write_text("none")
    other = f"3-{ITEM.item[:-1]}{'0' if ITEM.item[-1] != '0' else '1'}.txt"
    (tmp_path / other).write_bytes(b"\xff")
    answers.read(tmp_path, "m", problems := Problems())
    assert ["not named" in p or "twice" in p or "not UTF-8" in p for p in problems.found] == [True] * 3
    (tmp_path / "a.jsonl").write_text('{"item": 1, "answer": "none"}\n[]\n{"item": "x"}\n{')
    answers.read(tmp_path / "a.jsonl", "m", problems := Problems())
    assert len(problems.found) == 4 and all("not a JSON object" in p for p in problems.found)


def test_lenient_answers_break_no_rule(tmp_path):
    text = "shallow | 1 2 2 9 | two left\nshallow | 1 2 3 7 | three left\nsemantic | 1 2 3 |  \nnone\n"
    (tmp_path / f"{ITEM.item}.txt").write_text(text)
    found, changed = answers.mended(answers.read(tmp_path, "m", Problems()), {ITEM.item: 5})
    assert [(r.type, r.ranks, r.pattern) for r in found] == [("shallow", (1, 2, 3), "1")] and changed == 4
    (tmp_path / f"{ITEM.item}.txt").write_text("shallow | 1 2 | two")
    found, changed = answers.mended(answers.read(tmp_path, "m", Problems()), {ITEM.item: 5})
    assert [(r.type, r.item) for r in found] == [("", ITEM.item)] and changed == 1


# ------------------------------------------------------------------------------------------------------ end to end


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small run with its annotation plan and its proxy."""
    folder = tmp_path_factory.mktemp("model-annotators")
    write_inputs(folder, words(40), seed=8, train=120, decoder_layers=2)
    settings = config(patterns__keys_per_layer=6)
    (folder / "my.yaml").write_text((json.dumps(settings)), encoding="utf-8")
    results = lay_out(folder, run_steps(folder, settings), "small")
    t = lambda name: results / "tables" / f"{name}.parquet"
    shared = ["--config", folder / "my.yaml", "--triggers", t("triggers"), "--corpus",
              results / "corpus" / "corpus.safetensors", "--dictionary", folder / "dict.txt"]  # fmt: skip
    step("annotation-plan", *shared, "--plan", t("annotation_plan"))
    proxy = {"annotations": t("annotations"), "labels": t("pattern_labels"), "scores": t("annotation_scores")}
    model = ["--weights", results / "model" / "model.safetensors", "--description", results / "model" / "model.json"]
    step("proxy", *shared, *model, *(w for k, v in proxy.items() for w in (f"--{k}", v)), "--counts",
         results / "proxy.parquet")  # fmt: skip
    return folder


@pytest.fixture
def here(run, monkeypatch):
    monkeypatch.chdir(run)
    return run


def answered(folder, to, answer):
    """Answer every prompt in a folder as a model would, from the prompt's text alone."""
    to.mkdir()
    for path in sorted(folder.glob("*.txt")):
        (to / path.name).write_text(answer(path.read_text(encoding="utf-8")), encoding="utf-8")


def last_words(prompt):
    """Name the most frequent last word, if three prefixes end with it: a model that sees shallow patterns alone."""
    ends = {int(n): word for n, word in re.findall(r"^ *(\d+)\. .*\[(.*)\]$", prompt, re.MULTILINE)}
    by_word = {}
    for number, word in ends.items():
        by_word.setdefault(word, []).append(number)
    word, ranks = max(by_word.items(), key=lambda pair: len(pair[1]))
    return f"shallow | {' '.join(map(str, ranks))} | ends with {word}" if len(ranks) >= FEWEST else "none"


def test_a_model_stands_beside_people_and_the_proxy(here, tmp_path, capsys):
    step("annotate", "prompts", "--configfile", "my.yaml", "--out", tmp_path / "prompts")
    plan = tables.read(here / RUN / "tables" / "annotation_plan.parquet").sort("order")
    names = [path.name.partition("-")[2][:-4] for path in sorted((tmp_path / "prompts").glob("*.txt"))]
    assert names == plan["item"].to_list()
    seen = lambda prompt: "semantic | 1 2 3 | about one subject"  # sees a pattern in everything, foils among it
    for name, answer in (("model-a", last_words), ("model-b", seen)):
        answered(tmp_path / "prompts", tmp_path / name, answer)
        step("annotate", "answers", "--configfile", "my.yaml", "--answers", tmp_path / name, "--annotator", name,
             "--out", tmp_path / f"{name}.csv")  # fmt: skip
    people = here / "annotations" / "small"
    people.mkdir(parents=True)
    given = (tmp_path / "model-a.csv").read_text(encoding="utf-8")
    (people / "ann.csv").write_text(given.replace("model-a", "ann"), encoding="utf-8")  # a person who says the same
    try:
        capsys.readouterr()
        step("annotate", "score", "--configfile", "my.yaml", "--files", tmp_path / "model-a.csv",
             tmp_path / "model-b.csv", "--out", tmp_path / "scores.csv")  # fmt: skip
    finally:
        (people / "ann.csv").unlink()
    with (tmp_path / "scores.csv").open(encoding="utf-8", newline="") as file:
        found = {(r["who"], r["beside"], r["measure"]): r for r in csv.DictReader(file)}
    value = lambda *key: float(found[key]["value"])
    keys = plan.filter(kind="key").height
    assert value("ann", "model-a", "agreement") == 1 and int(found["ann", "model-a", "agreement"]["n"]) == keys
    assert value("ann", "model-b", "agreement") < 0.7
    assert value("model-b", "", "foil_rate") == 1 and value("model-b", "", "repeat_agreement") == 1
    foils = [last_words((tmp_path / "prompts" / p.name).read_text(encoding="utf-8")) != "none"
             for p in (tmp_path / "prompts").glob("*.txt")
             if p.name.partition("-")[2][:-4] in set(plan.filter(kind="foil")["item"])]  # fmt: skip
    assert value("model-a", "", "foil_rate") == value("ann", "", "foil_rate") == sum(foils) / len(foils)
    assert ("proxy", "", "foil_rate") in found and ("model-a", "proxy", "agreement") in found
    labels = tables.read(here / RUN / "tables" / "pattern_labels.parquet")
    mine = {(r["layer"], r["key"], r["rank"]): r["label"] for r in labels.iter_rows(named=True)}
    ends = dict(plan.filter(kind="key").select("item", "layer", "key").rows_by_key("item", unique=True))
    alike = [
        (mine[(*ends[name], rank)] == ("semantic" if rank <= 3 else "none"))
        for name in ends
        for rank in range(1, plan.filter(item=name)["prefixes"][0] + 1)
    ]
    assert value("model-b", "proxy", "agreement") == pytest.approx(sum(alike) / len(alike))
    told = capsys.readouterr().out
    assert "ann and model-a: alpha_nominal 1.000" in told and "model-b: foil_rate 1.000" in told


@pytest.mark.parametrize("beside", ["the proxy", "a person"])
def test_a_run_takes_a_model_as_a_third_kind_of_annotator(here, tmp_path, beside):
    others = [tmp_path / "ann.csv"] if beside == "a person" else []
    step("annotate", "prompts", "--configfile", "my.yaml", "--out", tmp_path / "prompts")
    answered(tmp_path / "prompts", tmp_path / "answers", last_words)
    step("annotate", "answers", "--configfile", "my.yaml", "--answers", tmp_path / "answers", "--annotator", "a model",
         "--out", tmp_path / "a.csv")  # fmt: skip
    records, judged = study.read([tmp_path / "a.csv"], "small", problems := Problems())
    plan = tables.read(here / RUN / "tables" / "annotation_plan.parquet")
    assert not problems.found and not judged and {r.annotator for r in records} == {"model-a model"}
    assert {r.item for r in records} == set(plan["item"])
    t = lambda name: here / RUN / "tables" / f"{name}.parquet"
    out, model = tmp_path / "merged", here / RUN / "model"
    text = ["--corpus", here / RUN / "corpus" / "corpus.safetensors", "--dictionary", "dict.txt"]
    proxy = [t(name) for name in ("annotations", "pattern_labels", "annotation_scores")]
    distances = tmp_path / "distance_labels.parquet"
    seen = ["--examples", t("examples"), "--refinement", t("refinement")]
    step("distance", "--config", "my.yaml", "--weights", model / "model.safetensors", "--description",
         model / "model.json", *text, *seen, "--distances", distances)  # fmt: skip
    person = tmp_path / "ann.csv"
    said = (tmp_path / "a.csv").read_text(encoding="utf-8")
    person.write_text(said.replace("model-a model", "ann"), encoding="utf-8")
    step("patterns", "--config", "my.yaml", "--annotated", tmp_path / "a.csv", *others, "--plan", t("annotation_plan"),
         "--triggers", t("triggers"), *seen, *text, "--proxy", *proxy, distances,
         "--annotations", out / "annotations.parquet", "--labels", out / "pattern_labels.parquet", "--distances",
         out / "distance_labels.parquet", "--scores", out / "annotation_scores.parquet", "--stale", out / "s.csv",
         "--counts", out / "counts.parquet")  # fmt: skip
    scores = tables.read(out / "annotation_scores.parquet")
    score = lambda who, measure: scores.filter(who=who, measure=measure).row(0, named=True)
    assert set(scores["who"]) >= {"model-a model", "proxy"}
    assert score("people", "agreement")["n"] == 0  # the model is no second person
    labels = tables.read(out / "pattern_labels.parquet")
    counting = set(annotators.preferred(labels)["annotator"])
    section = annotation_section(scores)
    assert "Language model a model" in dict(section["groups"]) and section["models"]
    assert section["people"] == bool(others)
    if others:  # a person who says the same
        assert counting == {"ann"} and score("model-a model", "labels_as_people")["value"] == 1
    else:
        assert counting == {"proxy"} and score("model-a model", "labels_as_people")["value"] is None
    assert "model-a model" in set(labels["annotator"])


def refused(capsys, *arguments):
    with pytest.raises(AssertionError):
        step("annotate", *arguments, "--configfile", "my.yaml")
    return capsys.readouterr().err


def test_faulty_answers_are_listed_and_nothing_is_written(here, capsys, tmp_path):
    step("annotate", "prompts", "--configfile", "my.yaml", "--out", tmp_path / "prompts")
    answered(tmp_path / "prompts", tmp_path / "said", lambda prompt: "shallow | 1 2 | too few")
    (tmp_path / "said" / "1-i0000000000-0000000000.txt").write_text("none")
    options = ("answers", "--answers", tmp_path / "said", "--annotator", "m", "--out", tmp_path / "m.csv")
    told = refused(capsys, *options)
    assert (
        "a pattern in only 2 of the prefixes" in told and "unknown item" in told and not (tmp_path / "m.csv").exists()
    )
    (tmp_path / "said" / "1-i0000000000-0000000000.txt").unlink()
    step("annotate", *options, "--lenient", "--configfile", "my.yaml")
    rows = list(csv.DictReader((tmp_path / "m.csv").read_text(encoding="utf-8").splitlines()))
    assert {row["type"] for row in rows} == {"none"} and f"dropped or changed {len(rows)}" in capsys.readouterr().out


@pytest.mark.parametrize("more, said", [
    (("--annotator", "Proxy", "--out", "x.csv"), "a reserved name"),
    (("--annotator", " ", "--out", "x.csv"), "a reserved name"),
    (("--annotator", "m", "--out", "x.csv"), "no such file or folder"),
])  # fmt: skip
def test_names_and_places_that_would_mislead_are_refused(here, capsys, tmp_path, more, said):
    assert said in refused(capsys, "answers", "--answers", tmp_path / "none", *more)


def test_files_of_no_use_are_refused(here, capsys, tmp_path):
    assert "no such file" in refused(capsys, "score", "--files", tmp_path / "x.csv")
    (tmp_path / "x.csv").write_text("run,annotator,item,pattern,type,description,prefixes\n")
    assert "only a header" in refused(capsys, "score", "--files", tmp_path / "x.csv")
    assert "already exists" in refused(capsys, "prompts", "--out", tmp_path)

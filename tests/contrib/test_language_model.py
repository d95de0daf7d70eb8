"""A language model as an annotator: prompts, answers in any wording, and scores beside people and the proxy."""

import csv
import json
import re

import pytest
from contributed import says, use
from factories import words
from laid_out import label, lay_out
from pipeline import config, run_steps, step, write_inputs

from contrib.language_model import prompts, reading
from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.patterns import annotation_files
from ff_memories.patterns.annotation_plan import Item
from ff_memories.patterns.records import Problems
from ff_memories.patterns.sample import FEWEST
from ff_memories.report.sections.annotation import annotation_section
from ff_memories.tables import annotation as annotators

ITEM = Item("key", 1, 3, (("a", "red", "cat"), ("the", "cat"), ("dog",), (), ("one", "cat")))
ITEMS = {ITEM.item: len(ITEM.prefixes)}
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


def read(folder, answer, items=ITEMS):
    """Read one answer: it, and the problems with it."""
    (folder / f"1-{ITEM.item}.txt").write_text(answer, encoding="utf-8")
    found = reading.read(folder, "m", items, problems := Problems())
    return found, problems.found


def said(found):
    return [(r.type, r.ranks, r.description) for answer in found for r in answer.records]


def test_the_prompts_own_example_is_no_answer(tmp_path):
    example = prompts.FORM.partition("\n\n")[2]
    assert example.count("\n") == 2
    found, problems = read(tmp_path, example)
    assert not said(found) and len(problems) == 2 and all("repeats the prompt's example" in p for p in problems)
    assert reading.mended(found, ITEMS) == ([], 2)
    found, problems = read(tmp_path, f"* **shallow** | 1, 4, 7 | ends with “press”.\n| {example}\nnone")
    assert len(problems) == 3
    records, changed = reading.mended(found, ITEMS)
    assert [(r.type, r.item) for r in records] == [("", ITEM.item)] and changed == 3  # the answer after them counts
    found, problems = read(tmp_path, 'shallow | 1 2 4 | ends with "press"')  # others' prefixes: a finding
    assert said(found) == [("shallow", (1, 2, 4), 'ends with "press"')] and not problems


@pytest.mark.parametrize("answer, expected", [
    ("shallow | 1 2 5 | ends with cat", [("shallow", (1, 2, 5), "ends with cat")]),
    ("Let me see.\n\n1. **Shallow** | 1, 2, 5 | ends | with\n", [("shallow", (1, 2, 5), "ends | with")]),
    ("- semantic|1;2;5|animals\n- shallow|1 2 3|words", [("semantic", (1, 2, 5), "animals"),
                                                         ("shallow", (1, 2, 3), "words")]),
    ("| type | numbers | description |\n|---|---|---|\n| **semantic** | 1 2 5 | animals |\n",
     [("semantic", (1, 2, 5), "animals")]),
    ("• semantic | 1 2 5 | animals", [("semantic", (1, 2, 5), "animals")]),
    ("– semantic | 1 2 5 | animals", [("semantic", (1, 2, 5), "animals")]),
    ("shallow | 1-3, 5 | a", [("shallow", (1, 2, 3, 5), "a")]),
    ("shallow | 1–2 and 4 – 5 | a", [("shallow", (1, 2, 4, 5), "a")]),
    ("shallow | [1, 2, and 5] | a", [("shallow", (1, 2, 5), "a")]),
    ("shallow | (1) (2) & `5` | a", [("shallow", (1, 2, 5), "a")]),
    ("none", [("", (), "")]), ("**None.**", [("", (), "")]), ("No pattern", [("", (), "")]),
])  # fmt: skip
def test_answers_are_read_in_any_wording(tmp_path, answer, expected):
    (tmp_path / "a.jsonl").write_text(json.dumps({"item": ITEM.item, "answer": answer}) + "\n\n", encoding="utf-8")
    found = reading.read(tmp_path / "a.jsonl", "m", ITEMS, problems := Problems())
    assert not problems.found and said(found) == expected


@pytest.mark.parametrize("answer, reason", [
    ("I can't help with that.", "neither a pattern nor none"), ("", "neither a pattern nor none"),
    ("shallow | 1 2 3", "without numbers and description"), ("| shallow | 1 2 3 |", "without numbers and description"),
    ("none of these | 1", "neither a pattern nor none"),
    ("shallow | 5-1 | a", "cannot read the numbers '5-1'"), ("shallow | 2024-01-05 | a", "cannot read the numbers"),
    ("shallow | 1 -3 | a", "cannot read the numbers"), ("shallow | 1-99999999 | a", "cannot read the numbers"),
    ("shallow | all | a", "cannot read the numbers 'all'"), ("shallow | | a", "cannot read the numbers ''"),
    ("shallow | 1²3 | a", "cannot read the numbers"), ("semantic pattern | 1 2 3 | a", "looks like a pattern"),
    ("shallow | 1 2 5 | cats\n**Pattern 2 (semantic)** | 1 2 3 | a", "row 2 of the answer: looks like a pattern"),
])  # fmt: skip
def test_what_cannot_be_read_is_named(tmp_path, answer, reason):
    _, problems = read(tmp_path, answer)
    assert (
        len(problems) == 1 and reason in problems[0] and ITEM.item in problems[0] and "spreadsheet" not in problems[0]
    )


def test_files_that_are_no_answers_are_named(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / f"1-{ITEM.item}.txt").write_text("none")
    (tmp_path / f"2-{ITEM.item}.txt").write_text("none")
    other = f"3-{ITEM.item[:-1]}{'0' if ITEM.item[-1] != '0' else '1'}.txt"
    (tmp_path / other).write_bytes(b"\xff")
    (tmp_path / f"4-{ITEM.item}.md").write_text("none")
    (tmp_path / "README.md").write_text("what this folder is")
    reading.read(tmp_path, "m", ITEMS, problems := Problems())
    said = ("not named", "twice", "not UTF-8", "4-.*not a .txt file")
    assert len(problems.found) == 4 and all(any(re.search(s, p) for p in problems.found) for s in said)
    found, problems = read(tmp_path, "none", items={"another": 5})
    assert not found and any("unknown item" in p and "this run's prompts" in p for p in problems)
    (tmp_path / "a.jsonl").write_text('{"item": 1, "answer": "none"}\n[]\n{"item": "x"}\n{')
    reading.read(tmp_path / "a.jsonl", "m", ITEMS, problems := Problems())
    assert len(problems.found) == 4 and sum("not a JSON object with the texts" in p for p in problems.found) == 3
    assert "line 4: not readable as JSON (" in problems.found[-1]
    (tmp_path / "b.csv").write_text("item,answer\nx,none\n")
    with pytest.raises(UserError, match=r"b\.csv: not JSON lines"):
        reading.read(tmp_path / "b.csv", "m", ITEMS, Problems())


@pytest.mark.parametrize("answer, expected, changed", [
    ("shallow | 1 2 2 9 | two left\nshallow | 1 2 3 7 | three left\nsemantic | 1 2 3 |  \nnone\n",
     [("shallow", (1, 2, 3))], 4),  # every faulty line counts once
    ("shallow | 1 2 3 | a\nnone", [("shallow", (1, 2, 3))], 1),
    ("shallow | 1 2 3 | a\nshallow | some | b", [("shallow", (1, 2, 3))], 1),
    ("shallow | 1-25 | a", [("shallow", (1, 2, 3, 4, 5))], 1),
    ("none", [("", ())], 0),
    ("shallow | 1 2 | two", [("", ())], 1), ("shallow | 1 2 | two\nnone", [("", ())], 1),
    ("shallow | some | a", [], 1), ("shallow | some | a\nsemantic | 1 2 | two", [], 2),  # it saw a pattern
    ("shallow | some | a\nnone", [], 1), ("semantic pattern | 1 2 3 | a", [], 1), ("shallow | | a", [], 1),
    ("shallow | 1 2 3 |  ", [], 1), ("shallow | 11-15 | a", [], 1),
])  # fmt: skip
def test_lenient_answers_break_no_rule_and_none_is_only_what_was_said(tmp_path, answer, expected, changed):
    found, _ = read(tmp_path, answer)
    records, number = reading.mended(found, ITEMS)
    assert [(r.type, r.ranks) for r in records] == expected and number == changed
    assert all(r.item == ITEM.item for r in records) and [r.pattern for r in records if r.type] in ([], ["1"])


# ------------------------------------------------------------------------------------------------------ end to end


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small run with its annotation plan and its proxy."""
    folder = tmp_path_factory.mktemp("model-annotators")
    write_inputs(folder, words(40), seed=8, train=120, decoder_layers=2)
    settings = config(patterns__keys_per_layer=6)
    (folder / "my.yaml").write_text((json.dumps(settings)), encoding="utf-8")
    results = lay_out(folder, run_steps(folder, settings), "small")
    label(folder / "my.yaml", results, folder / "dict.txt")
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


@pytest.mark.slow
def test_a_model_stands_beside_people_and_the_proxy(here, tmp_path, capsys):
    use("language_model", "prompts", "--configfile", "my.yaml", "--out", tmp_path / "prompts")
    plan = tables.read(here / RUN / "tables" / "annotation_plan.parquet").sort("order")
    names = [path.name.partition("-")[2][:-4] for path in sorted((tmp_path / "prompts").glob("*.txt"))]
    assert names == plan["item"].to_list()
    seen = lambda prompt: "semantic | 1 2 3 | about one subject"  # sees a pattern in everything, foils among it
    for name, answer in (("model-a", last_words), ("model-b", seen)):
        answered(tmp_path / "prompts", tmp_path / name, answer)
        use("language_model", "answers", "--configfile", "my.yaml", "--answers", tmp_path / name, "--annotator", name,
            "--out", tmp_path / f"{name}.csv")  # fmt: skip
    people = here / "annotations" / "small"
    people.mkdir(parents=True)
    given = (tmp_path / "model-a.csv").read_text(encoding="utf-8")
    (people / "ann.csv").write_text(given.replace("model-a", "ann"), encoding="utf-8")  # a person who says the same
    try:
        capsys.readouterr()
        use("language_model", "score", "--configfile", "my.yaml", "--files", tmp_path / "model-a.csv",
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


@pytest.mark.slow
@pytest.mark.parametrize("beside", ["the proxy", "a person"])
def test_a_run_takes_a_model_as_a_third_kind_of_annotator(here, tmp_path, beside):
    others = [tmp_path / "ann.csv"] if beside == "a person" else []
    use("language_model", "prompts", "--configfile", "my.yaml", "--out", tmp_path / "prompts")
    answered(tmp_path / "prompts", tmp_path / "answers", last_words)
    use("language_model", "answers", "--configfile", "my.yaml", "--answers", tmp_path / "answers", "--annotator",
        "a model", "--out", tmp_path / "a.csv")  # fmt: skip
    records, judged = annotation_files.read_all([tmp_path / "a.csv"], "small", problems := Problems())
    plan = tables.read(here / RUN / "tables" / "annotation_plan.parquet")
    assert not problems.found and not judged and {r.annotator for r in records} == {"model-a model"}
    assert {r.item for r in records} == set(plan["item"])
    t = lambda name: here / RUN / "tables" / f"{name}.parquet"
    out = tmp_path / "merged"
    text = ["--corpus", here / RUN / "corpus" / "corpus.safetensors", "--dictionary", "dict.txt"]
    names = ("annotations", "pattern_labels", "annotation_scores", "distance_labels")
    proxy = [here / RUN / "proxy" / f"{name}.parquet" for name in names]
    seen = ["--examples", t("examples"), "--refinement", t("refinement")]
    person = tmp_path / "ann.csv"
    said = (tmp_path / "a.csv").read_text(encoding="utf-8")
    person.write_text(said.replace("model-a model", "ann"), encoding="utf-8")
    step("patterns", "--config", "my.yaml", "--annotated", tmp_path / "a.csv", *others,
         "--plan", out / "annotation_plan.parquet", "--triggers", t("triggers"), *seen, *text, "--proxy", *proxy,
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


def refused(capsys, *words):
    return says(capsys, "language_model", *words, "--configfile", "my.yaml")


def rows(path):
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_faulty_answers_are_listed_and_nothing_is_written(here, capsys, tmp_path):
    use("language_model", "prompts", "--configfile", "my.yaml", "--out", tmp_path / "prompts")
    answered(tmp_path / "prompts", tmp_path / "said", lambda prompt: "shallow | 1 2 | too few")
    (tmp_path / "said" / "1-i0000000000-0000000000.txt").write_text("none")
    options = ("answers", "--answers", tmp_path / "said", "--annotator", "m", "--out", tmp_path / "m.csv")
    told = refused(capsys, *options)
    assert (
        "a pattern in only 2 of the prefixes" in told and "unknown item" in told and not (tmp_path / "m.csv").exists()
    )
    use("language_model", *options, "--lenient", "--configfile", "my.yaml")
    held, out = rows(tmp_path / "m.csv"), capsys.readouterr().out
    assert {row["type"] for row in held} == {"none"}
    assert f"lines dropped or changed: {len(held)}; answers left out: 1\n" in out
    first, second, third, *_ = sorted((tmp_path / "said").glob("*-*.txt"))[1:]
    first.write_text("shallow | some of them | unreadable")
    second.write_text("Sorry.")
    third.write_bytes(b"\xff")
    use("language_model", *options, "--lenient", "--configfile", "my.yaml")
    assert len(rows(tmp_path / "m.csv")) == len(held) - 3
    assert f"lines dropped or changed: {len(held) - 2}; answers left out: 4\n" in capsys.readouterr().out


def test_nothing_is_written_if_no_answer_is_left(here, capsys, tmp_path):
    (tmp_path / "said").mkdir()
    (tmp_path / "said" / "1-i0000000000-0000000000.txt").write_text("none")
    options = ("answers", "--answers", tmp_path / "said", "--annotator", "m", "--out", tmp_path / "m.csv")
    told = refused(capsys, *options, "--lenient")
    assert "no answer is left" in told and not (tmp_path / "m.csv").exists() and "drop them" not in told


def test_answers_replace_only_the_same_models_file(here, capsys, tmp_path):
    use("language_model", "prompts", "--configfile", "my.yaml", "--out", tmp_path / "prompts")
    answered(tmp_path / "prompts", tmp_path / "said", last_words)
    file = tmp_path / "m.csv"
    options = ("answers", "--answers", tmp_path / "said", "--annotator", "m", "--out", file)
    for _ in range(2):
        use("language_model", *options, "--configfile", "my.yaml")  # its own file again
    own = file.read_text(encoding="utf-8")
    joined = own + own.partition("\n")[2].replace("model-m", "ann")
    others = [own.replace("model-m", name) for name in ("ann", "model-n")] + [own.replace("small", "another"), joined]
    for content in [*others, own.partition("\n")[0], "", "notes\n", "PK\3\4", '"']:
        file.write_text(content, encoding="utf-8")
        told = refused(capsys, *options)
        assert "already exists" in told and "fix: choose another file" in told
        assert file.read_text(encoding="utf-8") == content
    (tmp_path / "taken.csv").mkdir()
    assert "already exists" in refused(capsys, *options[:-1], tmp_path / "taken.csv")
    assert "not a CSV file" in refused(capsys, *options[:-1], tmp_path / "m.txt")


@pytest.mark.parametrize("more, reason", [
    (("--annotator", "Proxy", "--out", "x.csv"), "a reserved name"),
    (("--annotator", "model-proxy", "--out", "x.csv"), "a reserved name"),
    (("--annotator", " ", "--out", "x.csv"), "lacks a name"),
    (("--annotator", "model-", "--out", "x.csv"), "lacks a name"),
    (("--annotator", " model- ", "--out", "x.csv"), "lacks a name"),
    (("--annotator", "m", "--out", "x.csv"), "no such file or folder"),
])  # fmt: skip
def test_names_and_places_that_would_mislead_are_refused(here, capsys, tmp_path, more, reason):
    assert reason in refused(capsys, "answers", "--answers", tmp_path / "none", *more)


def test_a_file_that_was_copied_into_the_run_is_scored_once(here, capsys, tmp_path):
    use("language_model", "prompts", "--configfile", "my.yaml", "--out", tmp_path / "prompts")
    answered(tmp_path / "prompts", tmp_path / "said", last_words)
    use("language_model", "answers", "--configfile", "my.yaml", "--answers", tmp_path / "said", "--annotator", "m",
         "--out", tmp_path / "m.csv")  # fmt: skip
    own = (tmp_path / "m.csv").read_bytes()
    score = ("score", "--files", tmp_path / "m.csv")
    capsys.readouterr()
    use("language_model", *score, "--configfile", "my.yaml")
    alone = capsys.readouterr().out
    copy = here / "annotations" / "small" / "m.csv"
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(own)
    try:
        for files in ((), (copy,)):
            use("language_model", *score, *files, "--configfile", "my.yaml")
            assert capsys.readouterr().out == alone
        for out in (copy, tmp_path / "m.csv"):  # scores would replace the labels
            assert "choose another file" in refused(capsys, *score, "--out", out) and copy.read_bytes() == own
        copy.write_bytes(own.replace(b"ends with", b"ends in"))
        told = refused(capsys, *score)
    finally:
        copy.unlink()
    assert "already annotated" in told and "score again" in told and "snakemake" not in told


def test_files_of_no_use_are_refused(here, capsys, tmp_path):
    assert "no such file" in refused(capsys, "score", "--files", tmp_path / "x.csv")
    (tmp_path / "x.csv").write_text("run,annotator,item,pattern,type,description,prefixes\n")
    assert "label no item of this run" in refused(capsys, "score", "--files", tmp_path / "x.csv")
    (tmp_path / "x.txt").write_text("notes")
    assert "x.txt: not an annotation file" in refused(capsys, "score", "--files", tmp_path / "x.txt")
    assert "already exists" in refused(capsys, "prompts", "--out", tmp_path)

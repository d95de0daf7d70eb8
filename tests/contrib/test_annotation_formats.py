"""Converters of annotations: what people say comes back the same in the forms' format, and faults are named."""

import csv

import pytest
from contributed import says, use

from contrib.label_studio import labelling
from contrib.spreadsheet import sheet
from ff_memories import tables
from ff_memories.annotate import annotation_files
from ff_memories.annotate.annotation_files import Pattern, Problems
from ff_memories.annotate.study import Item

ITEMS = [Item("key", 1, n, tuple((f"w{n}", f"v{i}", "</script>&\u2028") for i in range(5))) for n in range(4)]
NAMES = [item.item for item in ITEMS]
SHOWN = {name: 5 for name in NAMES}
SHALLOW = Pattern("here", "f", "ann", NAMES[0], "1", "shallow", "ends alike", (1, 2, 3))
STUDY = [
    SHALLOW, Pattern("here", "f", "ann", NAMES[0], "2", "semantic", '=1+1, "x", «y»', (1, 4, 5)),
    Pattern("here", "f", "ann", NAMES[1]), Pattern("here", "f", "ann", NAMES[3], "1", "shallow", "no", (2, 3, 4, 5)),
]  # fmt: skip


def said(found):
    """Return the content of records, without their places and the patterns' names."""
    return sorted((r.annotator, r.item, r.type, r.description, r.ranks) for r in found)


@pytest.mark.parametrize("change", [
    lambda t: t, lambda t: "sep=,\n" + t, lambda t: t.replace("\n", "\r"), lambda t: t.replace(",x", ",TRUE"),
])  # fmt: skip
def test_a_sheet_gives_back_what_was_entered_whatever_spreadsheet_wrote_it(tmp_path, change):
    (tmp_path / "a.csv").write_bytes(change(sheet.patterns("mine", ITEMS, STUDY)).encode())
    found, judged = sheet.read(tmp_path / "a.csv", "mine", problems := Problems())
    assert said(found) == said(STUDY) and not judged and not problems
    assert annotation_files.check(found, SHOWN, problems) == found and not problems


def test_tasks_give_back_what_was_marked(tmp_path):
    (tmp_path / "a.json").write_text(labelling.tasks("mine", ITEMS, STUDY), encoding="utf-8")
    found = labelling.read(tmp_path / "a.json", "mine", problems := Problems())
    assert said(found) == said(STUDY) and not problems
    (tmp_path / "a.json").write_text(labelling.tasks("mine", ITEMS), encoding="utf-8")
    assert labelling.read(tmp_path / "a.json", "mine", problems) == [] and not problems


# ------------------------------------------------------------------------------------------------------ of a run


def test_a_sheet_becomes_a_file_of_the_run(of_small_run, tmp_path, capsys):
    use("spreadsheet", "write", *of_small_run, "--out", tmp_path / "sheets")
    plan = tables.read("results/small/tables/annotation_plan.parquet").sort("order")
    text = (tmp_path / "sheets/patterns.csv").read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    assert list(dict.fromkeys(row[2] for row in rows)) == plan["item"].to_list()
    done = [[*row[:6], "none", *row[7:]] if row[3] == "description" else row for row in rows]
    done[0][1] = "ann"  # once; it counts for the rows below
    with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *done])
    use("spreadsheet", "read", *of_small_run, tmp_path / "a.csv", "--out", tmp_path / "ann.csv")
    found, _ = annotation_files.read_all([tmp_path / "ann.csv"], "small", problems := Problems())
    assert not problems and [r.item for r in found] == plan["item"].to_list()
    assert {(r.annotator, r.type) for r in found} == {("ann", "")}
    assert "already exists" in says(capsys, "spreadsheet", "write", *of_small_run, "--out", tmp_path / "sheets")


def test_simulated_annotators_say_what_the_proxy_says_but_for_errors(of_small_run, tmp_path, capsys):
    rates = ("--miss", "0", "1", "--mistype", "0", "--foil", "0", "--misjudge", "0")
    use("simulated_annotators", *of_small_run, *rates, "--out", tmp_path)
    paths = [tmp_path / f"simulated-{n}.csv" for n in (1, 2)]
    found, blind = (annotation_files.read_all([path], "small", Problems())[0] for path in paths)
    proxy = tables.read("results/small/tables/annotations.parquet")
    plan = tables.read("results/small/tables/annotation_plan.parquet")
    of_keys = set(plan.filter(kind="key")["item"])
    assert len([r for r in found if r.item in of_keys and r.type]) == proxy.height
    assert not [r for r in blind if r.type]
    _, judged = annotation_files.read_all([tmp_path / "simulated-1-distance.csv"], "small", Problems())
    assert len(judged) == tables.read("results/small/tables/distance_labels.parquet").height
    told = says(capsys, "simulated_annotators", *of_small_run, "--miss", "1.5", "--out", tmp_path)
    assert "expected rates between 0 and 1, and the same number of rates" in told

"""The atlas: its numbers are those of the tables, and runs that do not compare are refused or marked."""

import csv
import json
import re
import shutil
from functools import partial

import polars as pl
import pytest
import refusing
from atlases import finished, frames, write_config
from reports import SVG, Tags

from ff_memories import tables
from ff_memories.atlas import panels
from ff_memories.atlas.runs import OTHER, RELATED, SAME, RunText, differences, members, relation, relations
from ff_memories.judge.register import register

OTHER_TEXT = {"source": None, "train": {"files": ["t.txt"]}, "validation": {"files": ["v.txt"]}, "sha256": "a" * 64}
HOSTILE = '<b onclick="x">\u202e&'
ended = partial(refusing.ended, "atlas")


@pytest.fixture
def pair(tmp_path):
    return finished(tmp_path, "one"), finished(tmp_path, "two", agreeing=3)


@pytest.fixture(scope="module")
def atlas(tmp_path_factory):
    """An atlas of three runs: of another depth, with another setting, and with a hostile label."""
    project = tmp_path_factory.mktemp("atlas")
    finished(project, "one", untrained=(2, 0, 4), baselines={"models": 2})  # the third is left of an earlier config
    finished(project, "deep", layers=3, triggers={"top": 60})
    finished(project, "old", agreeing=2, transformer=False, untrained=())
    assert ended(*arguments(project)) == 0
    return project / "out"


def arguments(project):
    folders = [project / "results" / name for name in ("one", "deep", "old")]
    return (*folders, "--out", project / "out", "--label", f"deep={HOSTILE}")


def rows(atlas, panel, run="one"):
    with (atlas / "numbers.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["panel"] == panel and row["run"] == run]


@pytest.mark.parametrize(
    ("panel", "first", "second"),
    [
        ("shallow-keys", 0.5, 0.5),  # keys 0 and 1 of 4
        ("semantic-keys", 0.5, 0.5),  # keys 1 and 2
        ("last-token", -0.3, -0.3),  # the median of −0.6, −0.2 and −0.3
        ("agreement", 1.0, 0.0),  # a quarter, as of random pairs, and nothing
        ("rank", 3 / 8, 0.5 / 8),
        ("effective", 0.5, 0.5),  # 2 of 4, each with both signs
        ("residual", 0.75, 0.75),
        ("kind-residual", 0.5, 0.5),
        ("kind-agreement", 0.25, 0.25),
        ("kind-composition", 0.0, 0.0),
        ("kind-ffn", 0.25, 0.25),
        ("effect-left", 0.4, None),  # 1.2 of 3; no layer runs above the last one
        ("stays", 0.75, 0.75),
    ],
)
def test_a_panel_has_the_tables_numbers(atlas, panel, first, second):
    found = rows(atlas, panel)
    expected = {depth: value for depth, value in ((0.5, first), (1.0, second)) if value is not None}
    assert {float(row["depth"]): float(row["value"]) for row in found} == pytest.approx(expected)
    assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in found)


def test_untrained_models_are_a_mean_with_its_extremes(atlas):
    first, second = rows(atlas, "agreement")
    names = ("untrained", "untrained_low", "untrained_high", "untrained_seeds")
    # 2 and 0 of 4 values agree, 1 of random pairs
    assert [float(first[name]) for name in names] == [1.0, 0.0, 2.0, 2.0]
    assert [float(second[name]) for name in names] == [0.0, 0.0, 0.0, 2.0]
    assert {row["untrained"] for row in rows(atlas, "agreement", "old")} == {""}


def test_changes_are_averaged_as_the_run_does(tmp_path):
    folders = [finished(tmp_path, "one", mutations={"mean": "of_sums"}), finished(tmp_path, "two", agreeing=3)]
    for folder in folders:  # key 0: coefficients 1 and 3 become 0.5 and 0: −0.75 by ratios, −0.875 by sums
        path = folder / "tables" / "mutations.parquet"
        own = tables.read(path).filter((pl.col("key") == 0) & (pl.col("mutation") == "last"))
        coefficient = pl.Series([1.0, 3.0, 1.0, 3.0], dtype=pl.Float32)
        mutated = pl.Series([0.5, 0.0, 0.5, 0.0], dtype=pl.Float32)
        tables.write(own.with_columns(coefficient=coefficient, mutated=mutated, change=mutated / coefficient - 1), path)
    panel = next(panel for panel in panels.PANELS if panel.name == "last-token")
    three = finished(tmp_path, "three")
    found = lambda folder: panels.numbers(panel, members([folder, three]))
    assert found(folders[0]).filter(run="one")["value"].to_list() == [-0.875, -0.875]
    assert found(folders[1]).filter(run="two")["value"].to_list() == [-0.75, -0.75]


def test_people_do_not_stand_in_for_the_proxy(pair):
    one, two = pair
    people = frames(annotator="Ann")["pattern_labels"].with_columns(
        label=pl.lit("none", tables.TABLES["pattern_labels"].columns["label"])
    )
    tables.write(pl.concat([people, frames()["pattern_labels"]]), one / "tables" / "pattern_labels.parquet")
    tables.write(people, two / "tables" / "pattern_labels.parquet")
    found = panels.numbers(panels.PANELS[0], members(pair))
    assert found.filter(run="one")["value"].to_list() == [0.5, 0.5]
    assert found.filter(run="two").is_empty()


def test_runs_need_no_tables_of_what_goes_beyond_the_paper(pair, tmp_path):
    for folder in pair:
        (folder / "tables" / "removals.parquet").unlink()
    (pair[1] / "tables" / "causal.parquet").unlink()
    assert ended(*pair, "--out", tmp_path / "out") == 0
    html = (tmp_path / "out" / "atlas.html").read_text()
    assert '<figure id="stays">' not in html
    assert "Not measured for “two”." in re.search(r'<figure id="effect-left">.*?</figure>', html, re.DOTALL)[0]


def test_the_page_shows_the_group_of_every_claim_in_words(atlas):
    html = (atlas / "atlas.html").read_text()
    table = re.search(r'<table class="matrix">.*?</table>', html, re.DOTALL)[0]
    said = {"K1": "✓</span>&nbsp;here, not in random networks<", "K4": "=</span>&nbsp;here, and in random networks<",
            "K12": "✗</span>&nbsp;not here, or less<", "K13": "?</span>&nbsp;cannot tell<",
            "K29": "≡</span>&nbsp;holds by construction<"}  # fmt: skip
    for claim in register():
        row = re.search(rf'<tr id="{claim.id}">.*?</tr>', table, re.DOTALL)[0]
        cells = re.findall(r"<td data-label.*?</td>", row, re.DOTALL)
        assert len(cells) == 3 and all(said.get(claim.id, "measured<") in cell for cell in cells)
    tally = "1 here and not in random networks, 1 also in random networks, 1 not here or less, 1 cannot tell"
    assert html.count(f"<small>{tally}</small>") == 3
    assert html.count("1.25&nbsp;×") + html.count("1.25 ×") == 3


def test_the_page_is_whole_and_quotes_labels_as_text(atlas):
    html = (atlas / "atlas.html").read_text()
    tags = Tags(html)
    assert not tags.open
    assert not [tag for tag, a in tags.found if tag == "script" or "onclick" in a]
    assert "\u202e" not in html and "&lt;b onclick=" in html and "[U+202E]" in html
    assert not [a for tag, a in tags.found if tag in ("link", "img", "script", "iframe", "object")]
    assert not re.search(r'(?:src|href)="https?:', html.replace("http://www.w3.org", ""))


def test_every_panel_has_a_figure_with_a_text_and_its_numbers(atlas):
    html = (atlas / "atlas.html").read_text()
    labels = [a["aria-label"] for tag, a in Tags(html).found if tag == "svg"]
    assert len(labels) == len(panels.PANELS)
    for panel in panels.PANELS:
        figure = re.search(rf'<figure id="{panel.name}">.*?</figure>', html, re.DOTALL)[0]
        assert figure.count('<tr><th scope="row">one</th>') == len(rows(atlas, panel.name)) > 0
    for suffix in (".svg", ".png", ".pdf", ".csv", ".vl.json"):
        assert len([*(atlas / "figures").glob(f"*{suffix}")]) == len(panels.PANELS), suffix


def test_a_differing_setting_is_marked_where_it_matters(atlas):
    html = (atlas / "atlas.html").read_text()
    for panel in panels.PANELS:
        figure = re.search(rf'<figure id="{panel.name}">.*?</figcaption>', html, re.DOTALL)[0]
        drawing = (atlas / "figures" / f"{panel.name}.svg").read_text()
        assert ("triggers.top" in figure) == ("triggers.top" in drawing) == ("triggers" in panel.sections)
    row = re.search(r"<tr><th scope=\"row\"><code>triggers.top.*?</tr>", html, re.DOTALL)[0]
    assert re.findall(r"<td>(.*?)</td>", row) == ["50", "60", "50"]


def test_an_old_atlas_is_replaced_and_comes_out_the_same(atlas):
    first = {path.relative_to(atlas): path.read_bytes() for path in atlas.rglob("*") if path.is_file()}
    (atlas / "atlas.html").write_text("old")
    assert ended(*arguments(atlas.parent)) == 0
    assert first == {path.relative_to(atlas): path.read_bytes() for path in atlas.rglob("*") if path.is_file()}
    (atlas / "mine.txt").write_text("of the user")
    assert ended(*arguments(atlas.parent)) == 2
    assert (atlas / "mine.txt").exists()
    (atlas / "mine.txt").unlink()


def test_what_is_no_finished_run_is_refused(pair, tmp_path, capsys):
    one, two = pair
    empty, bare = tmp_path / "empty", tmp_path / "results" / "bare"
    empty.mkdir()
    shutil.copytree(two, bare)
    (bare / "tables" / "values.parquet").unlink()
    (bare / "tables" / "mutations.parquet").unlink()
    out = ("--out", tmp_path / "out")
    for arguments, said in [
        ((one,), "only one was given"),
        ((one, tmp_path / "nowhere"), "nowhere: no such folder"),
        ((one, empty), "empty: this run has no tables/mutations.parquet"),
        ((one, bare), "bare: this run has no tables/mutations.parquet, tables/values.parquet"),
        ((one, two, "--label", "tow=x"), "names none of the runs (did you mean two?)"),
        ((one, two, "--label", "two="), "expected RUN=TEXT"),
        ((one, two, "--label", "two=one"), f"two runs are called 'one': {one} and {two}"),
        ((one, two, "--over", "updates", "--label", "one=inf"), "'inf' is not a number"),
    ]:
        assert ended(*arguments, *out) == 2, said
        assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.partial").exists()


def test_runs_on_unrelated_texts_are_refused_unless_told(tmp_path, capsys):
    one = finished(tmp_path, "one")
    two = finished(tmp_path, "two", agreeing=3, corpus=OTHER_TEXT)
    assert ended(one, two, "--out", tmp_path / "out") == 2
    assert "two: read another text than" in capsys.readouterr().err
    assert ended(one, two, "--out", tmp_path / "out", "--any-text") == 0
    assert "“two”: another text. The text may cause" in (tmp_path / "out" / "atlas.html").read_text()


def test_a_run_whose_text_is_unknown_needs_its_config(tmp_path, capsys):
    one, two = finished(tmp_path, "one"), finished(tmp_path, "two", agreeing=3, config=False)
    assert ended(one, two, "--out", tmp_path / "out") == 2
    assert "the text of this run is not recorded (no config here has its name and model)" in capsys.readouterr().err
    write_config(tmp_path, "two", triggers={"top": 60})
    found = members([one, two])
    assert relations(found, any_text=False)[1] == (SAME, "")
    assert differences(found) == {"triggers.top": [50, 60]}


@pytest.mark.parametrize(
    ("one", "other", "how"),
    [
        (RunText("docstrings", "raw", "a"), RunText("docstrings", "raw", "a"), SAME),
        (RunText(None, "raw", "a"), RunText("wiki", "raw", "a"), SAME),
        (RunText(sentences="s"), RunText("wiki", "raw", "a", sentences="s"), SAME),
        (RunText("docstrings", "tokenised", "a"), RunText("docstrings", "raw", "b"), RELATED),
        (RunText("docstrings", "raw", "a"), RunText("docstrings", "raw", "b"), RELATED),
        (RunText("docstrings", "raw"), RunText("docstrings", "raw", "b"), RELATED),
        (RunText(files=("t", "v"), sha256="a"), RunText(files=("t", "v"), sha256="b"), OTHER),
        (RunText(files=("t", "v")), RunText(files=("t", "w")), OTHER),
        (RunText("docstrings", "raw", "a"), RunText("wiki", "raw", "b"), OTHER),
        (RunText(), RunText(), OTHER),
    ],
)
def test_texts_are_matched(one, other, how):
    assert relation(one, other)[0] == how
    assert relation(other, one)[0] == how


def test_a_config_of_another_model_is_not_the_runs(pair, tmp_path):
    card = pair[1] / "model" / "info.json"
    card.write_text(json.dumps(json.loads(card.read_text()) | {"model_sha256": {"config.json": "1" * 64}}))
    assert members(pair)[1].resolved is not None
    write_config(tmp_path, "two", model={"files": {"config.json": "2" * 64}})
    found = members(pair)[1]
    assert found.resolved is None and found.unknown == "no config here has its name and model"


def test_a_run_on_text_of_its_model_says_so_in_its_label(pair):
    tables.counts("corpus", {tables.SAMPLED: 5}).write_parquet(pair[0] / "tables/counts.parquet")
    assert [member.label for member in members(pair)] == ["one (text sampled from the model)", "two"]


def test_an_atlas_says_no_path_of_its_machine(tmp_path):
    private = {"composition": {"sample_file": "/home/somebody/sample.csv"}}
    runs = [finished(tmp_path, "here"), finished(tmp_path, "there", agreeing=2, **private)]
    assert ended(*runs, "--out", tmp_path / "out") == 0
    said = (tmp_path / "out" / "atlas.html").read_text()
    assert "sample.csv" in said and str(tmp_path) not in said and "/home/somebody" not in said


def test_the_runs_own_figures_stand_side_by_side_and_their_numbers_in_one_table(tmp_path):
    folders = [finished(tmp_path, name) for name in ("one", "two")]
    for folder, share in zip(folders, (0.25, 0.5), strict=True):
        (folder / "figures").mkdir()
        (folder / "figures" / "figure4.svg").write_text(SVG.replace('"x"', '"figure4-clip0"'))
        (folder / "figures" / "figure4.csv").write_text(f"layer,mean\n1,{share}\n")
    (folders[1] / "figures" / "figure8.csv").write_text("layer,kind\n2,zero\n")
    assert ended(*folders, "--out", tmp_path / "out") == 0
    page = (tmp_path / "out" / "side-by-side.html").read_text()
    assert len(set(re.findall(r'id="([^"]*clip0)"', page))) == 2 and "Figure 8" not in page
    assert pl.read_parquet(tmp_path / "out" / "plotted.parquet").rows() == [
        ("one", "figure4", 1, 0.25, None),
        ("two", "figure4", 1, 0.5, None),
        ("two", "figure8", 2, None, "zero"),
    ]

"""The pictures and sentences of the page on atlases are those of the atlases that they are made from."""

import csv
import re
import xml.etree.ElementTree as ET

import atlas_pictures
import polars as pl
import pytest
from atlases import finished, frames
from pages import END
from pipeline import step
from running import ROOT

from ff_memories import tables

KNOWN = {"steps": [1, 1000, 2000], "layers": 2, "agreement": [2.0, 40.0, 30.4], "untrained agreement": 1.25,
         "rank": [0.4, 0.05, 0.1], "untrained rank": 0.5, "residual": [1.0, 0.6, 0.4],
         "untrained residual": 0.7}  # fmt: skip


@pytest.fixture(scope="module")
def atlas(tmp_path_factory):
    """An atlas of two checkpoints: in layer 1, one value in four and then three agree."""
    project = tmp_path_factory.mktemp("pictures")
    folders = [finished(project, "step1"), finished(project, "step2000", agreeing=3)]
    later = frames()["refinement"].with_columns(residual_top=pl.lit(1, pl.UInt32))
    tables.write(later.cast(tables.TABLES["refinement"].columns), folders[1] / "tables" / "refinement.parquet")
    step("atlas", *folders, "--over", "updates", "--out", project / "out")
    return project / "out"


@pytest.mark.slow
def test_facts_are_means_over_the_layers(atlas):
    with (atlas / "numbers.csv").open(newline="") as file:
        found = atlas_pictures.facts([*csv.DictReader(file)])
    assert found["steps"] == [1, 2000] and found["layers"] == 2
    assert found["agreement"] == [0.5, 1.5]  # a quarter as of random pairs and nothing, then three times that
    assert found["residual"] == [0.75, 1.0]
    assert found["untrained agreement"] == 0.5


def test_sentences_have_the_numbers():
    text = atlas_pictures.said(KNOWN).replace("\n", " ")
    assert "After 1 update, values agree with the next token 2 times as often as chance, after 1,000 updates 40" in text
    assert "at the end 30 times; untrained ones 1.2 times" in text
    assert "falls from 50 % of the token types without training to 5.0 % after 1,000 updates, and then rises" in text
    assert "in 70 % of examples without training, in 100 % after 1 update, and in 40 % at the end." in text
    falling = atlas_pictures.said(KNOWN | {"rank": [0.4, 0.2, 0.1]})
    assert "rises" not in falling
    assert all(len(line) <= 120 for line in atlas_pictures.said(KNOWN).splitlines())


def test_a_page_without_its_atlas_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="cannot draw its pictures"):
        atlas_pictures.main(["--out", str(tmp_path / "atlas.md"), "--training", str(tmp_path)])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_picture_has_every_line_and_no_hidden_text(atlas, tmp_path):
    page = tmp_path / "atlas.md"
    page.write_text(f"{atlas_pictures.BEGIN}\n{END}\n", encoding="utf-8")
    atlas_pictures.main(["--out", str(page), "--training", str(atlas)])
    assert "values agree with the next token 0 times" in page.read_text(encoding="utf-8")
    drawn = (tmp_path / "pictures" / "training-steps.svg").read_text(encoding="utf-8")
    panels = [part for part in ET.fromstring(drawn) if part.tag.endswith("svg")]
    assert len(panels) == len(atlas_pictures.SHOWN["training"])
    assert "aria-" not in drawn and "@font-face" not in drawn
    lines = re.findall(r'<path d="M[^"]*" stroke="(?:rgb\([^)]*\)|#\w+)" stroke-width="1.2"', drawn)
    assert len(lines) == 2 * len(panels)
    atlas_pictures.main(["--out", str(page), "--check"])


def test_small_drawings_keep_their_words():
    svg = '<svg class="x"><text aria-label="0.25" transform="translate(1.234,0.5)">0.25</text></svg>'
    assert atlas_pictures.small(svg) == '<svg><text transform="translate(1.2,0.5)">0.25</text></svg>'


@pytest.mark.parametrize("path", atlas_pictures.PICTURES.values(), ids=str)
def test_the_pages_pictures_are_small_and_shown(path):
    picture = ROOT / "docs" / path
    assert picture.stat().st_size <= atlas_pictures.LARGEST
    assert ET.parse(picture).getroot().tag.endswith("svg")
    assert f"]({path.as_posix()})" in (ROOT / "docs" / "atlas.md").read_text(encoding="utf-8")


def test_panels_stand_side_by_side():
    one = '<?xml version="1.0"?><svg class="marks" width="20" height="30"><g id="a"/></svg>'
    other = '<svg class="marks" width="40" height="10"><g id="b"/></svg>'
    made = ET.fromstring(atlas_pictures.side_by_side([one, other]))
    assert (made.get("width"), made.get("height")) == ("60.0", "30.0")
    assert [found.get("x") for found in made.iter() if found.tag.endswith("svg")] == [None, "0.0", "20.0"]

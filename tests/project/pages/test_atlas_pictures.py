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


@pytest.mark.parametrize("path", atlas_pictures.PICTURES.values(), ids=str)
def test_the_pages_pictures_are_small_and_shown(path):
    picture = ROOT / "docs" / path
    assert picture.stat().st_size <= atlas_pictures.LARGEST
    assert ET.parse(picture).getroot().tag.endswith("svg")
    assert f"]({path.as_posix()})" in (ROOT / "docs" / "atlas.md").read_text(encoding="utf-8")

"""The pictures and sentences of the page on atlases are those of the atlases that they are made from."""

import csv

import atlas_pictures
import polars as pl
from atlases import finished, frames
from pipeline import step

from ff_memories import tables


def test_facts_are_means_over_the_layers(tmp_path):
    """Of an atlas of two checkpoints: in layer 1, one value in four and then three agree."""
    folders = [finished(tmp_path, "step1"), finished(tmp_path, "step2000", agreeing=3)]
    later = frames()["refinement"].with_columns(residual_top=pl.lit(1, pl.UInt32))
    tables.write(later.cast(tables.TABLES["refinement"].columns), folders[1] / "tables" / "refinement.parquet")
    step("atlas", *folders, "--over", "updates", "--out", tmp_path / "out")
    with (tmp_path / "out" / "numbers.csv").open(newline="") as file:
        found = atlas_pictures.facts([*csv.DictReader(file)])
    assert found["steps"] == [1, 2000] and found["layers"] == 2
    assert found["agreement"] == [0.5, 1.5]  # a quarter as of random pairs and nothing, then three times that
    assert found["residual"] == [0.75, 1.0]
    assert found["untrained agreement"] == 0.5

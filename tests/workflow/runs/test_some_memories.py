"""A whole run that looks at some memories: every page says so, and nothing counts the others."""

import polars as pl
import pytest
import yaml
from running import change, snakemake
from transformers_run import prepare

from ff_memories import tables
from ff_memories.report.gallery import parts

pytestmark = pytest.mark.more


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    folder = tmp_path_factory.mktemp("some")
    prepare(folder, "llama", triggers__keys=12, mutations__keys_per_layer=50, patterns__keys_per_layer=50)
    change(folder, "gallery.keys", 5)
    snakemake(folder)
    return folder, folder / "results" / "small"


def test_tables_have_the_sampled_memories_alone_and_section_5_has_all(some):
    _, results = some
    read = lambda name: tables.read(results / "tables" / f"{name}.parquet")
    looked = read("values").select("layer", "key")
    assert looked.group_by("layer").len()["len"].to_list() == [24] * 3  # 12 memories of both signs
    for name in ("triggers", "mutations", "annotations", "pattern_labels", "promoted", "shading"):
        assert read(name).height
        assert not read(name).join(looked, on=["layer", "key"], how="anti").height
    assert read("mutations").select("layer", "key").n_unique() <= len(looked)  # all of them, where more are asked for
    counts = dict(read("counts").filter(pl.col("step") == "triggers").select("reason", "n").iter_rows())
    assert counts["keys"] == 72
    assert max(read("composition")["active"].to_list()) > 24
    ranks = next(row for row in read("claims").iter_rows(named=True) if row["claim"] == "K13")
    assert ranks["n"] is None or ranks["n"] <= 72


def test_the_report_and_the_gallery_say_how_many_memories_were_looked_at(some):
    _, results = some
    says = "12 of 160 memories per layer, drawn with seed 3"
    for name in ("report/report.html", "summary.md"):
        assert says in (results / name).read_text(encoding="utf-8")
    manifest = parts.read(results / "gallery", "manifest")
    removed = tables.read(results / "tables" / "causal.parquet").select("layer", "key").unique()
    for layer, keys in enumerate(manifest["shown"], start=1):
        also = {key % 160 for key in removed.filter(pl.col("layer") == layer)["key"]}
        pairs = {key % 160 for key in keys}  # five drawn memories, and those that are removed; both signs of each
        assert also <= pairs and len(pairs) <= 5 + len(also) and len(keys) == 2 * len(pairs) >= 10
    drawn = (results / "figures" / "figure4.csv").read_text(encoding="utf-8").splitlines()
    at = drawn[0].split(",").index("n")
    assert 0 < max(int(row.split(",")[at]) for row in drawn[1:]) <= 24


def test_a_finished_run_is_complete_and_another_sample_reruns_what_depends_on_it(some):
    folder, _ = some
    assert "Nothing to be done" in "".join(str(part) for part in vars(snakemake(folder, "-n")).values())
    change(folder, "triggers.keys", {1: [3, 5], 3: [7]})
    change(folder, "gallery.keys", None)
    planned = "".join(str(part) for part in vars(snakemake(folder, "-n", "--quiet", "rules")).values())
    settings = yaml.safe_load((folder / "my.yaml").read_text())
    assert settings["triggers"]["keys"] == {1: [3, 5], 3: [7]}
    assert "Nothing to be done" not in planned
    snakemake(folder, "results/small/tables/values.parquet")
    looked = tables.read(folder / "results/small/tables/values.parquet").select("layer", "key").rows()
    assert looked == [(1, 3), (1, 5), (1, 163), (1, 165), (3, 7), (3, 167)]

"""A whole run that looks at some memories: every page says so, and nothing counts the others."""

import polars as pl
import pytest
from running import change, snakemake
from transformers_run import prepare

from ff_memories import tables
from ff_memories.report.gallery import parts

pytestmark = pytest.mark.more


def test_the_report_and_the_gallery_say_how_many_memories_were_looked_at(tmp_path):
    prepare(tmp_path, "llama", triggers__keys=12, mutations__keys_per_layer=50, patterns__keys_per_layer=50)
    change(tmp_path, "gallery.keys", 5)
    snakemake(tmp_path)
    some = tmp_path / "results" / "small"
    says = "12 of 160 memories per layer, drawn with seed 3"
    for name in ("report/report.html", "summary.md"):
        assert says in (some / name).read_text(encoding="utf-8")
    manifest = parts.read(some / "gallery", "manifest")
    removed = tables.read(some / "tables" / "causal.parquet").select("layer", "key").unique()
    for layer, keys in enumerate(manifest["shown"], start=1):
        also = {key % 160 for key in removed.filter(pl.col("layer") == layer)["key"]}
        pairs = {key % 160 for key in keys}  # five drawn memories, and those that are removed; both signs of each
        assert also <= pairs and len(pairs) <= 5 + len(also) and len(keys) == 2 * len(pairs) >= 10
    drawn = (some / "figures" / "figure4.csv").read_text(encoding="utf-8").splitlines()
    at = drawn[0].split(",").index("n")
    assert 0 < max(int(row.split(",")[at]) for row in drawn[1:]) <= 24

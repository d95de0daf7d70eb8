"""The benchmark measures every row once, and what it compares with finds what the engine finds."""

import polars as pl
import pytest
import torch

from tools.benchmarks import methods, page
from tools.benchmarks.__main__ import main
from tools.benchmarks.measures import plans
from tools.benchmarks.models import SIZES, random_corpus, random_decoder

pytestmark = pytest.mark.more

SIZE = SIZES["quick"]


def test_the_plain_way_finds_the_coefficients_that_the_engine_finds():
    decoder, corpus = random_decoder(SIZE), random_corpus(1500, SIZE.cutoffs[-1])
    best, running = methods.lists(decoder, SIZE.top), methods.RunningLists(decoder, SIZE.top)
    ways = (methods.engine(decoder, corpus, "all", best), methods.hook_and_cache(decoder, corpus, running))
    with torch.inference_mode():
        for part in plans(corpus, 256):
            for way in ways:
                way(part)
    best.finish()
    for layer in range(SIZE.layers):
        entries, rank = best.ranked(layer)
        ours = torch.zeros(SIZE.top, SIZE.keys)
        ours[rank - 1, entries.key] = entries.coefficient
        assert (ours > 0).any()
        assert (running.value[layer] >= ours - 1e-5).all()  # it looks at </s> too, which is no prefix: never below ours


def test_the_command_measures_and_prints_the_page(tmp_path, capsys):
    path = tmp_path / "benchmark.csv"
    main(["--size", "quick", "--rounds", "1", "--tokens", "3000", "--device", "cpu", "--threads", "1",
          "--only", "trigger_pass", "long_pass", "--csv", str(path)])  # fmt: skip
    table = pl.read_csv(path, schema=page.COLUMNS)
    assert len(table) == 14
    assert table.filter(pl.col("target").is_not_null())["met"].null_count() == 0
    assert table.filter(pl.col("measure") == "per sentence / forward, whole")["tokens"].item() == 3000
    printed = capsys.readouterr().out
    assert all(f"| {measure} | " in printed for measure in table["measure"])

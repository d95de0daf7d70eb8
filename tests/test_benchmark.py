"""The benchmark measures every row once, and its baselines find what the engine finds."""

import polars as pl
import pytest
import torch
from pipeline import step

from ff_memories import tables
from ff_memories.benchmark import methods
from ff_memories.benchmark.measures import plans
from ff_memories.benchmark.subjects import SIZES, random_corpus, random_decoder
from ff_memories.memories.topk import TopTriggers

SIZE = SIZES["quick"]


@pytest.fixture(scope="module")
def subject():
    return random_decoder(SIZE), random_corpus(1500, SIZE.cutoffs[-1])


def test_the_plain_ways_find_the_coefficients_that_the_engine_finds(subject):
    decoder, corpus = subject
    best = TopTriggers(SIZE.layers, SIZE.keys, SIZE.top)
    ways = [methods.engine(decoder, corpus, SIZE.top, "all", best)]
    kept = []
    for way in (methods.concatenate, methods.hook_and_cache):
        ways.append(way(decoder, corpus, SIZE.top))
        kept.append(ways[-1].__closure__)
    with torch.inference_mode():
        for part in plans(corpus, 256):
            for way in ways:
                way(part)
    best.finish()
    running = [next(c.cell_contents for c in cells if isinstance(c.cell_contents, methods.Running)) for cells in kept]
    for layer in range(SIZE.layers):
        entries, rank = best.ranked(layer)
        ours = torch.zeros(SIZE.top, SIZE.keys)
        ours[rank - 1, entries.key] = entries.coefficient
        for plain in running:  # they look at </s> too, which is no prefix: never below ours
            assert (plain.value[layer] >= ours - 1e-5).all()
    torch.testing.assert_close(running[0].value[0], running[1].value[0])


def test_fairseqs_forward_takes_the_same_sentences(subject):
    decoder, corpus = subject
    with torch.inference_mode():
        rows = methods.fairseq_forward(decoder, corpus, 256)()
    assert rows == sum(corpus.lengths)  # </s> in front, the last token left out


def test_sentences_are_as_long_as_asked_for_and_the_same_each_time():
    one, two = random_corpus(5000, 500), random_corpus(5000, 500)
    assert 5000 <= one.offsets[-1] < 5500
    assert (one.tokens == two.tokens).all()
    assert 15 < one.lengths.mean() < 35


def test_the_command_writes_table_figure_and_page(tmp_path):
    out = tmp_path / "benchmark.parquet"
    step("benchmark", "--size", "quick", "--rounds", 1, "--device", "cpu", "--threads", 1, "--benchmark", out,
         "--figure", tmp_path / "b.svg", "--page", tmp_path / "b.md")  # fmt: skip
    table = tables.read(out)
    assert len(table) == 26
    assert table.filter(pl.col("target").is_not_null())["met"].null_count() == 0
    exact = table.filter(pl.col("measure") == "mutations: rows run / distinct rows")
    assert exact["reached"].item() == 1
    page = (tmp_path / "b.md").read_text()
    assert all(measure in page for measure in table["measure"])
    assert "<svg" in (tmp_path / "b.svg").read_text()
    again = tmp_path / "again" / "benchmark.parquet"
    step("benchmark", "--from", out, "--benchmark", again, "--page", tmp_path / "again.md")
    assert (tmp_path / "again.md").read_text() == page
    (tmp_path / "logs").mkdir()
    (tmp_path / "tables").mkdir()
    out.rename(tmp_path / "tables" / "benchmark.parquet")
    step("cost", "--logs", tmp_path / "logs", "--out", tmp_path / "cost.html")
    assert "hook and cache / ours" in (tmp_path / "cost.html").read_text()

"""The benchmark measures every row once, and what it compares with finds what the engine finds."""

import polars as pl
import pytest
import torch

from tools.benchmarks import methods, page
from tools.benchmarks.__main__ import main
from tools.benchmarks.measures import plans
from tools.benchmarks.models import SIZES, random_corpus, random_decoder
from tools.benchmarks.timing import peak_memory

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


def test_sentences_are_as_long_as_asked_for_and_the_same_each_time():
    one, two = random_corpus(5000, 500), random_corpus(5000, 500)
    assert 5000 <= one.offsets[-1] < 5500
    assert (one.tokens == two.tokens).all()
    assert 15 < one.lengths.mean() < 35


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


def rows(machine, reached):
    every = {"low": reached, "high": reached, "rounds": 1, "threads": 2, "machine": machine, "model": "a model",
             "reached": reached, "tokens": 10, "unit": "ratio"}  # fmt: skip
    targets = {"hook and cache / ours": ("≥", 1.7), "per sentence / forward, whole": ("≤", 1.05)}
    return pl.DataFrame(
        [
            every | {"measure": m, "sign": s, "target": t, "met": reached >= t if s == "≥" else reached <= t}
            for m, (s, t) in targets.items()
        ],
        schema=page.COLUMNS,
    )


def test_what_is_kept_has_a_column_for_each_machine_and_its_last_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "KEPT", tmp_path / "benchmark.csv")
    for machine, reached in (
        ("one (AVX2), torch 2", 1.25),
        ("other (AVX-512), torch 2", 1.5),
        ("one (AVX2), torch 2", 1.2),
    ):
        page.keep(rows(machine, reached))
    text = page.markdown(page.read())
    assert "| measure | over | target | other (AVX-512) | one (AVX2) |" in text and "1.25" not in text
    assert "| hook and cache / ours | 10 | ≥ 1.7 | **1.5** | **1.2** |" in text
    assert "On one (AVX2), the trigger pass over a long text takes 1.20 times" in text and "0 of 2 targets" in text


def test_memory_that_was_used_and_freed_before_counts_again():
    filled = [torch.ones(2000) for _ in range(10_000)]  # small ones, which stay with the process when they are freed
    del filled
    with peak_memory(torch.device("cpu")) as used:
        again = [torch.ones(2000) for _ in range(10_000)]
    assert len(again) == 10_000
    assert 80e6 < used[0] < 200e6

"""The benchmark measures every row once, and its baselines find what the engine finds."""

import time
from typing import Any

import polars as pl
import pytest
import torch
from pipeline import step

from benchmarks import methods, page
from benchmarks.__main__ import main
from benchmarks.measures import OURS, SHARE, plans
from benchmarks.subjects import SIZES, random_corpus, random_decoder, random_transformer
from benchmarks.timing import Profile, peak_memory
from ff_memories import tables
from ff_memories.memories.search.topk import TopTriggers

pytestmark = pytest.mark.more

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


def test_fairseqs_forward_takes_the_same_sentences_and_its_hooks_find_the_top_of_each_key(subject):
    decoder, corpus = subject
    theirs = methods.fairseq(decoder, corpus, 256)
    assert theirs.rows == sum(corpus.lengths)  # </s> in front, the last token left out
    run, kept = theirs.hook_and_cache(decoder, SIZE.top)
    seen = [[] for _ in theirs.decoder.layers]
    with torch.inference_mode():
        for tokens in theirs.batches:
            run(tokens)
        hooks = [
            layer.fc1.register_forward_hook(lambda _, inputs, out, to=to: to.append(torch.relu(out[:, 0])))
            for layer, to in zip(theirs.decoder.layers, seen, strict=True)
        ]
        for sentence in range(len(corpus)):  # one by one, so that nothing is padded
            tokens = torch.tensor([2, *corpus.sentence(sentence)[:-1]])
            theirs.forward(tokens[None])
        for hook in hooks:
            hook.remove()
    for layer, rows in enumerate(seen):
        every = torch.cat(rows)
        assert len(every) == theirs.rows
        torch.testing.assert_close(kept.value[layer], every.topk(SIZE.top, dim=0).values)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_transformers_padded_and_hooked_finds_what_the_engine_finds(subject, kind):
    model: Any = random_transformer(kind, SIZE)
    corpus = subject[1]
    best = TopTriggers(SIZE.layers, SIZE.keys, SIZE.top)
    padded, kept = methods.padded_transformers(model, corpus, SIZE.top)
    ways = [methods.engine(model, corpus, SIZE.top, "all", best), padded, methods.plain_transformers(model, corpus)]
    with torch.inference_mode():
        for part in plans(corpus, 256):
            for way in ways:
                way(part)
    best.finish()
    seen = []
    with torch.inference_mode():
        for part in plans(corpus, 256):
            methods.forward(model, methods.pack(model, corpus, part), lambda _, m: seen.append(m))
    for layer in range(SIZE.layers):
        every = torch.cat(seen[layer :: SIZE.layers]).clamp(min=0)  # <s> too, which is no prefix
        torch.testing.assert_close(kept.value[layer], every.topk(SIZE.top, dim=0).values)
        entries, rank = best.ranked(layer)
        ours = torch.zeros(SIZE.top, SIZE.keys)
        ours[rank - 1, entries.key] = entries.coefficient
        assert (kept.value[layer] >= ours - 1e-5).all() and (ours > 0).any()


def test_a_profile_counts_what_is_called_within_for_the_part_that_does_it():
    class Work:
        def outer(self):
            self.inner()
            self.inner()

        def inner(self):
            time.sleep(0.02)

    before = Work.outer
    with Profile({"outer": [(Work, "outer")], "inner": [(Work, "inner")]}) as profile:
        profile.under("a", Work().outer)()
        profile.under("b", Work().inner)()
    assert set(profile.seconds) == {("a", "outer"), ("a", "inner"), ("b", "inner")}
    assert profile.seconds["a", "inner"] > 0.04 > 0.02 > profile.seconds["a", "outer"]
    assert profile.seconds["b", "inner"] > 0.02
    assert Work.outer is before


def test_sentences_are_as_long_as_asked_for_and_the_same_each_time():
    one, two = random_corpus(5000, 500), random_corpus(5000, 500)
    assert 5000 <= one.offsets[-1] < 5500
    assert (one.tokens == two.tokens).all()
    assert 15 < one.lengths.mean() < 35


def test_the_command_writes_table_figure_and_page(tmp_path):
    out = tmp_path / "benchmark.parquet"
    main(["--size", "quick", "--rounds", "1", "--tokens", "3000", "--device", "cpu", "--threads", "1",
          "--benchmark", str(out), "--figure", str(tmp_path / "b.svg"), "--page", str(tmp_path / "b.md")])  # fmt: skip
    table = tables.read(out)
    assert len(table.filter(~pl.col("unit").str.starts_with("%"))) == 30
    assert table.filter(pl.col("target").is_not_null())["met"].null_count() == 0
    assert table.filter(pl.col("measure") == "per sentence / forward, whole")["tokens"].item() == 3000
    exact = table.filter(pl.col("measure") == "mutations: rows run / distinct rows")
    assert exact["reached"].item() == 1
    said = (tmp_path / "b.md").read_text()
    assert all(name in said for measure in table.filter(pl.col("unit") != OURS)["measure"]
               for name in measure.split(": "))  # fmt: skip
    assert "<svg" in (tmp_path / "b.svg").read_text()
    missed = table.filter(~pl.col("met"))["measure"].to_list()
    assert all(f", {measure}, " in said for measure in missed) and said.count("**") >= 2 * len(missed)
    again = tmp_path / "again" / "benchmark.parquet"
    main(["--from", str(out), "--benchmark", str(again), "--page", str(tmp_path / "again.md")])
    assert (tmp_path / "again.md").read_text() == said
    (tmp_path / "logs").mkdir()
    (tmp_path / "tables").mkdir()
    out.rename(tmp_path / "tables" / "benchmark.parquet")
    step("cost", "--logs", tmp_path / "logs", "--out", tmp_path / "cost.html")
    assert "hook and cache / ours" in (tmp_path / "cost.html").read_text()


def rows(machine, reached, model="a model"):
    every = {"low": reached, "high": reached, "rounds": 1, "threads": 2, "machine": machine, "model": model,
             "reached": reached, "tokens": 10}  # fmt: skip
    measures = [("hook and cache / ours", "ratio", "≥", 1.7), ("per sentence / forward, whole", "ratio", "≤", 1.05),
                ("hook and cache / forward", "ratio", None, None),
                ("matrix products alone / forward", "ratio", None, None),
                ("fairseq's forward / ours", "ratio", "≥", 1.3), ("every prefix / forward, cold", "ratio", "≤", 1.15),
                ("per sentence, whole: sorting", SHARE, None, None)]  # fmt: skip
    made = [every | {"measure": m, "unit": u, "sign": s, "target": t,
                     "met": None if t is None else (reached >= t if s == "≥" else reached <= t)}
            for m, u, s, t in measures]  # fmt: skip
    return tables.conform(
        pl.DataFrame(made, infer_schema_length=None).with_row_index("row"), tables.TABLES["benchmark"]
    )


def test_what_is_kept_has_a_column_for_each_machine_and_its_last_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "KEPT", tmp_path / "benchmark.csv")
    monkeypatch.setattr(page, "PAGE", tmp_path / "benchmark.md")
    for machine, reached in (
        ("one (AVX2), torch 2", 1.25),
        ("other (AVX-512), torch 2", 1.5),
        ("one (AVX2), torch 2", 1.2),
    ):
        page.keep(rows(machine, reached))
    text = page.PAGE.read_text()
    assert "| measure | over | target | other (AVX-512) | one (AVX2) |" in text and "1.25" not in text
    assert "| hook and cache / ours | 10 | ≥ 1.7 | **1.5** | **1.2** |" in text
    assert "| fairseq's forward / ours | 10 | ≥ 1.3 | 1.5 | **1.2** |" in text
    assert (
        "- one (AVX2), hook and cache / ours, 1.2: both methods run the forward pass, which is 83 % of its time" in text
    )
    assert "- one (AVX2), fairseq's forward / ours, 1.2: both run the products with weights, which are 120 %" in text
    assert "- other (AVX-512), per sentence / forward, whole, 1.5: sorting 1.5 % of the forward pass." in text
    assert "On one (AVX2), the trigger pass over a long text takes 1.20 times" in text and "0 of 4 targets" in text
    assert page.markdown(page.read()) == text


def test_the_page_of_the_docs_follows_from_what_is_kept():
    assert page.PAGE.read_text(encoding="utf-8") == page.markdown(page.read())


def test_memory_that_was_used_and_freed_before_counts_again():
    filled = [torch.ones(2000) for _ in range(10_000)]  # small ones, which stay with the process when they are freed
    del filled
    with peak_memory(torch.device("cpu")) as used:
        again = [torch.ones(2000) for _ in range(10_000)]
    assert len(again) == 10_000
    assert 80e6 < used[0] < 200e6


@pytest.mark.parametrize(
    "more, said",
    [
        (["--only", "nothing"], "--only: there is no nothing"),
        (["--tokens", "999"], "--tokens: 999 are too few"),
    ],
)
def test_what_cannot_be_measured_is_refused(tmp_path, capsys, more, said):
    with pytest.raises(SystemExit) as end:
        main(["--device", "cpu", "--benchmark", str(tmp_path / "benchmark.parquet"), *more])
    assert end.value.code == 2 and said in capsys.readouterr().err


def test_a_table_of_another_name_is_refused_before_anything_is_measured(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["--benchmark", str(tmp_path / "mine.parquet")])
    assert end.value.code == 2
    assert "named after what it holds: benchmark.parquet" in capsys.readouterr().err

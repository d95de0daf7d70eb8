"""Every cell of every table equals a float64 brute force that shares no code with the package."""

import math

import polars as pl
import pytest
import torch
from brute_force import check_composition, check_sentences, check_values
from factories import words
from pipeline import config, run_steps, write_inputs
from reference import Reference, rule_sentences, triggers

from ff_memories import tables
from ff_memories.paper.layers import measures as layers_measures

TYPES = words(44)


RUNS = {
    "paper": ({}, {}),
    "released positions, every prefix": (
        {"triggers__positions": "released", "triggers__per_sentence": "all", "composition__positions": "0..N"}, {}
    ),
    "full positions, no duplicates": (
        {"triggers__positions": "full", "triggers__duplicates": "drop", "composition__positions": "1..N-1",
         "values__target": "last", "mutations__random": "inner"}, {"seed": 5}
    ),
    "every prefix, no duplicates": (
        {"triggers__per_sentence": "all", "triggers__duplicates": "drop", "composition__memories": "all",
         "composition__layer_prediction": "output", "mutations__single_token": "bos"}, {"seed": 7}
    ),
    "flat reading, last token, empty prefixes": (
        {"values__projection": "flat", "values__target": "last", "triggers__positions": "released"}, {"seed": 11}
    ),
    "plain softmax, learned positions, final norm": (
        {"mutations__random": "earlier", "values__length": "mean"},
        {"adaptive": False, "decoder_learned_pos": True, "no_decoder_final_norm": False, "seed": 2}
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=RUNS, ids=str)
def run(request, tmp_path_factory):
    changes, options = RUNS[request.param]
    folder = tmp_path_factory.mktemp("run")
    settings = config(**changes)
    model = write_inputs(folder, TYPES, **options)
    out = run_steps(folder, settings)
    reference = Reference(model, TYPES, flat=settings["values"]["projection"] == "flat")
    sentences = {s: [reference.encode(w) for w in rule_sentences(folder / f"{s}.txt")] for s in ("train", "validation")}
    frames = {p.stem: tables.read(p) for p in out.glob("*.parquet")}
    frames["counts_triggers"] = pl.read_parquet(out / "counts" / "triggers.parquet")
    return settings, reference, sentences, frames


def test_triggers(run):
    settings, reference, sentences, frames = run
    option = dict(settings["triggers"])
    option["positions"] = "inner" if option["positions"] == "auto" else option["positions"]
    expected = triggers(reference, sentences["train"], **option)
    got = {}
    for row in frames["triggers"].iter_rows(named=True):
        got.setdefault((row["layer"], row["key"]), []).append(row)
        tokens = sentences["train"][row["sentence"]]
        assert row["next_token"] == (tokens[row["position"]] if row["position"] < len(tokens) else None)
    assert set(got) == {cell for cell, entries in expected.items() if entries}
    for cell, rows in got.items():
        assert [r["rank"] for r in rows] == list(range(1, len(rows) + 1))
        assert [(r["sentence"], r["position"]) for r in rows] == [(s, p) for _, s, p in expected[cell]], cell
        for row, (coefficient, _, _) in zip(rows, expected[cell], strict=True):
            assert math.isclose(row["coefficient"], coefficient, rel_tol=1e-4)


def test_mutations(run):
    settings, reference, sentences, frames = run
    option, rows = settings["mutations"], frames["mutations"]
    chosen = rows.select("layer", "key").unique()
    per_layer = chosen.group_by("layer").len()["len"].to_list()  # a key all of whose prefixes are skipped has no row
    assert len(per_layer) == 3
    assert max(per_layer) <= option["keys_per_layer"] < 2 * min(per_layer)
    found = {}
    joined = rows.join(frames["triggers"].drop("coefficient"), on=["layer", "key", "rank"])
    assert len(joined) == len(rows)
    for row in joined.iter_rows(named=True):
        prefix = sentences["train"][row["sentence"]][: row["position"]]
        at = {"first": 1, "last": len(prefix)}.get(row["mutation"], row["removed"])
        assert row["removed"] == at
        if row["mutation"] == "random":
            assert 1 <= at <= len(prefix)
            if option["random"] != "any":
                assert 1 < at < len(prefix)
        cut = option["random"] == "earlier" and row["mutation"] == "random"
        assert row.get("removed_tokens", 1) == (len(prefix) - at + 1 if cut else 1)
        rest = tuple(prefix[: at - 1] if cut else prefix[: at - 1] + prefix[at:])
        if rest not in found:
            found[rest] = [m[-1] for _, m, _ in reference.layers(rest)]
        mutated = float(found[rest][row["layer"] - 1][row["key"]])
        assert math.isclose(row["mutated"], mutated, rel_tol=1e-4, abs_tol=1e-5)
        assert math.isclose(row["change"], mutated / row["coefficient"] - 1, rel_tol=1e-4, abs_tol=1e-4)
    expected = frames["triggers"].join(chosen, on=["layer", "key"]).filter(pl.col("rank") <= option["top"])
    shortest = 2 if option["single_token"] == "skip" else 1
    expected = expected.filter(pl.col("position") >= shortest)
    for mutation in ("first", "last"):
        assert rows.filter(pl.col("mutation") == mutation).height == expected.height
    inner = expected if option["random"] == "any" else expected.filter(pl.col("position") > 2)
    assert rows.filter(pl.col("mutation") == "random").height == inner.height


def test_examples_are_drawn_as_the_config_says(run):
    settings, _, sentences, frames = run
    low, high = {"0..N": (0, 0), "1..N-1": (1, -1)}.get(settings["composition"]["positions"], (1, 0))
    examples = frames["examples"]
    assert examples.height == 40
    assert examples["sentence"].n_unique() == 40
    assert examples["sentence"].to_list() != sorted(examples["sentence"])
    first = len(sentences["train"])
    for row in examples.iter_rows(named=True):
        tokens = sentences["validation"][row["sentence"] - first]
        assert low <= row["position"] <= len(tokens) + high
        assert row["next_token"] == (tokens[row["position"]] if row["position"] < len(tokens) else None)


def test_triggers_that_repeat_anothers_text_are_counted(run):
    settings, _, sentences, frames = run
    seen, repeated = set(), 0
    for row in frames["triggers"].iter_rows(named=True):
        text = tuple(sentences["train"][row["sentence"]][: row["position"]])
        repeated += (row["layer"], row["key"], text) in seen
        seen.add((row["layer"], row["key"], text))
    counts = dict(frames["counts_triggers"].select("reason", "n").iter_rows())
    assert counts["triggers_with_the_text_of_a_better_one"] == repeated
    assert (repeated > 0) == (settings["triggers"]["duplicates"] == "keep")
    assert counts["triggers"] == len(frames["triggers"])


def test_agreeing_cases_by_layer(run):
    """E10, row by row: a layer's pairs with an agreeing memory, stop words and short prefixes among them."""
    _, _, _, frames = run
    stop, examples = {4, 6, 9}, {e["example"]: e for e in frames["examples"].iter_rows(named=True)}
    cases = layers_measures.agreeing_cases(frames["composition"], frames["examples"], frozenset(stop))
    share = lambda hits: sum(hits) / len(hits) if hits else None
    made = layers_measures.agreeing_by_layer(cases, 5)
    for row in made.iter_rows(named=True):
        pairs = [r for r in frames["composition"].iter_rows(named=True) if r["layer"] == row["layer"]]
        some = [r for r in pairs if r["agreeing_memories"]]
        assert (row["pairs"], row["agreeing"]) == (len(pairs), len(some))
        for name, part in (("agreeing", some), ("every", pairs)):
            following = [examples[r["example"]]["next_token"] for r in part]
            assert row[f"{name}_stop_word"] == share([r["ffn_top"] in stop for r in part])
            assert row[f"{name}_next_stop_word"] == share([t in stop for t in following if t is not None])
            assert row[f"{name}_short"] == share([examples[r["example"]]["position"] < 5 for r in part])
    assert made["agreeing"].sum()


def test_the_reference_is_in_float64(run):
    assert run[1].blocks[0].fc1.weight.dtype == torch.float64


def test_sentences_are_all_there_in_order(run):
    check_sentences(run)


def test_values(run):
    check_values(run)


def test_composition_and_refinement(run):
    check_composition(run)

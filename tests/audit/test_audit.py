"""The audit finds what differs, by name, and says no more than its sample allows."""

import copy
import dataclasses
import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import psutil
import pytest
from audited import TYPES, audit, basis
from pipeline import config

from ff_memories import tables
from ff_memories.annotate import proxy
from ff_memories.audit import baselines
from ff_memories.audit.audit import LEFT_OUT, Finding, contradictions, draw, statement
from ff_memories.audit.near_equal import DIFFERS, MATCH, NEAR_TIE, Result, tolerances
from ff_memories.audit.recompute import ROWS, faults, recomputed
from ff_memories.audit.sampling import Aim
from ff_memories.base.arithmetic import Precision
from ff_memories.base.errors import UserError
from ff_memories.paper.values import audit as values_audit
from ff_memories.workflow.run import Run

RUNS = {
    "paper": ({}, {}),
    "released": ({"fidelity": "released"}, {"style": "current", "seed": 4}),
    "every prefix, no duplicates": (
        {"triggers__positions": "full", "triggers__per_sentence": "all", "triggers__duplicates": "drop",
         "composition__memories": "all", "composition__layer_prediction": "output", "mutations__single_token": "bos",
         "values__projection": "flat", "values__target": "last"}, {"seed": 7}
    ),
    "controls": ({"composition__memories": "share:0.9", "mutations__random": "earlier", "values__length": "mean"}, {}),
    "some memories": ({"triggers__keys": {1: [3, 0, 20], 3: [7]}, "gallery": {"keys": {1: [20], 3: [7]}}}, {}),
    "plain softmax, learned positions, final norm": (
        {"composition__sample": "uniform"},
        {"adaptive": False, "decoder_learned_pos": True, "no_decoder_final_norm": False, "seed": 2, "style": "fused"},
    ),
}  # fmt: skip
ALL = Aim(0.95, 0.0005)  # more rows than these tables have


def tables_of(said):
    """Return the tables that contradictions are of, each once."""
    return list(dict.fromkeys(fault.partition(":")[0] for fault in said))


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == "paper" else [pytest.mark.more]) for n in RUNS])
def test_all_rows_of_sound_tables_match_whatever_the_config(name, tmp_path):
    found = audit(given := basis(tmp_path, *RUNS[name]), ALL)
    assert faults(given) == []
    assert [(f.what, f.differ) for f in found] == [(name, []) for name in [*ROWS, LEFT_OUT]]
    for finding in (f for f in found if f.what != LEFT_OUT):
        assert finding.recomputed == finding.rows == len(given.tables[finding.what]) > 0
        assert finding.near_ties == 0
        assert finding.largest_difference < 2e-5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sound")


@pytest.fixture(scope="module")
def sound(folder):
    return basis(folder, {}, {})


def files_of(folder, **other):
    """Return where the files of a small run lie; ``other``: those of some tables."""

    def at(path):
        if not path.startswith("results/"):
            return folder / path
        if "/tables/" in path and Path(path).stem in other:
            return other[Path(path).stem]
        return folder / "out" / ("counts" if "/counts/" in path else "") / Path(path).name

    return at


def with_tables(sound, other):
    """The same basis with some tables changed."""
    return dataclasses.replace(sound, tables=sound.tables | other)


def tampered(sound, table, change, row=5):
    """The same basis with one row of one table changed."""
    frame = sound.tables[table]
    rows = frame.to_dicts()
    rows[row] |= change(rows[row])
    return with_tables(sound, {table: pl.DataFrame(rows, schema=frame.schema)})


def other(value, kind):
    """Return another value of a type, as near as a number that is wrong may be."""
    if kind == pl.Boolean:
        return not value
    if kind == pl.Enum:
        return next(each for each in kind.categories if each != value)
    return (value or 0) + 1 if kind.is_integer() else value * 1.005 + 0.0005


@pytest.mark.parametrize("table", ROWS)
def test_every_column_is_looked_at(sound, table):
    kinds = sound.tables[table].schema
    for column in kinds.keys() - tables.TABLES[table].key:
        changed = tampered(sound, table, lambda row, column=column: {column: other(row[column], kinds[column])})
        assert recomputed(table, changed, changed.tables[table].row(5, named=True)).state == DIFFERS or faults(changed)


@pytest.mark.parametrize("table, column", [("values", "top_probability"), ("causal", "direct"), ("removals", "share")])
def test_a_changed_number_is_found_with_its_row_and_column(sound, table, column):
    changed = tampered(sound, table, lambda row: {column: row[column] * 1.001 + 0.001 * (row[column] < 0.5)})
    row = changed.tables[table].row(5, named=True)
    (finding,) = [f for f in audit(changed, ALL, [table]) if f.differ]
    place = f"{table}, " + " ".join(f"{name} {row[name]}" for name in tables.TABLES[table].key)
    (said,) = finding.differ
    assert said.startswith(f"{place}: ") and column in said


def test_a_trigger_left_out_is_found_in_its_sentence(sound):
    first = sound.tables["triggers"].row(0, named=True)
    its = ((pl.col("layer") == first["layer"]) & (pl.col("key") == first["key"])).cast(pl.UInt16)
    rest = sound.tables["triggers"].with_columns(pl.col("rank") - its).filter(pl.col("rank") > 0)
    (finding,) = [f for f in audit(with_tables(sound, {"triggers": rest}), ALL, ["sentences"]) if f.differ]
    assert any(said.startswith(f"sentence {first['sentence']}: ") for said in finding.differ)
    assert f"layer {first['layer']} key {first['key']}" in finding.differ[0]


def test_rows_that_name_nothing_are_found(sound):
    for table, change in (("triggers", {"sentence": 10**6}), ("removals", {"layer": 0})):
        lost = tampered(sound, table, lambda r, change=change: change)
        assert "does not exist" in next(f for f in audit(lost, ALL, [table])).differ[0]
    lost = tampered(sound, "triggers", lambda r: {"key": 5000}, row=0)
    said = [line for found in audit(lost, ALL, ["sentences"]) for line in found.differ]
    assert any("cannot be recomputed from what the tables say" in line for line in said)


def test_numbers_that_cannot_be_end_in_a_row_that_differs(sound):
    nothing = tampered(sound, "mutations", lambda r: {"coefficient": 0.0})
    (said,) = next(f for f in audit(nothing, ALL, ["mutations"])).differ
    assert "cannot be recomputed from what it says (float division by zero)" in said
    for changed in ({"position": -1}, {"sentence": None}):
        assert recomputed("triggers", sound, sound.tables["triggers"].row(0, named=True) | changed).state == DIFFERS


@pytest.fixture(scope="module")
def baseline(sound, folder):
    """The small run's model on the sample of its text."""
    return baselines.Baseline(Run(config()), "same_sample", files_of(folder))


def states(baseline, frames):
    return {t: [r.state for n, _, r in baselines.labelled(baseline, frames) if n == t] for t in baselines.LABELS}


class Odd:
    """An annotator to whom the triggers that end in an odd token are a pattern."""

    def annotate(self, key):
        members = frozenset(i for i, prefix in enumerate(key.prefixes) if prefix[-1] % 2)
        return [("shallow", "ends in an odd token", SimpleNamespace(members=members))]


def test_only_labels_of_another_order_of_tied_triggers_are_excused(baseline, sound, monkeypatch):
    monkeypatch.setattr(proxy, "Annotator", lambda *_: Odd())
    refinement = {"refinement": sound.tables["refinement"]}
    made = baseline.label(refinement["refinement"])
    assert {state for of in states(baseline, made | refinement).values() for state in of} == {MATCH}
    unlike = lambda key, i: key.prefixes[i][-1] % 2 != key.prefixes[i + 1][-1] % 2
    key = next(key for key in baseline.keys.values() if unlike(key, 0))
    text = list(key.prefixes)
    text[:2] = text[1], text[0]
    keys = [dataclasses.replace(key, prefixes=tuple(text)) if one == key else one for one in baseline.keys.values()]
    swapped = made | baseline._of(keys) | refinement
    # the two triggers are no near-tie
    assert states(baseline, swapped)["pattern_labels"].count(DIFFERS) == 2
    # they are one
    own = (pl.col("layer") == key.layer) & (pl.col("key") == key.key) & (pl.col("rank") <= 2)
    alike = pl.when(own).then(pl.col("coefficient").first().over("layer", "key")).otherwise("coefficient")
    near = copy.copy(baseline)
    near.listed = baseline.listed.with_columns(coefficient=alike)
    found = states(near, swapped)
    assert found["pattern_labels"].count(NEAR_TIE) == 2 and DIFFERS not in found["pattern_labels"]
    # no order gives these labels
    labels = swapped["pattern_labels"]
    at = (pl.col("layer") == key.layer) & (pl.col("key") == key.key) & (pl.col("rank") == 3)
    wrong = pl.when(at).then(pl.lit("semantic")).otherwise(pl.col("label").cast(pl.String)).cast(labels.schema["label"])
    found = states(near, swapped | {"pattern_labels": labels.with_columns(label=wrong)})
    assert found["pattern_labels"].count(DIFFERS) == 3 and NEAR_TIE not in found["pattern_labels"]
    # near-ties excuse no more than a few keys
    monkeypatch.setattr(baselines, "FEW", -1)
    assert NEAR_TIE not in states(near, swapped)["pattern_labels"]


def test_only_near_ties_change_places_in_an_order():
    texts = [(token,) for token in range(4)]
    said = lambda numbers, n=4: ["".join("abcd"[x] for (x,) in one) for one in baselines.orders(numbers, texts, n, 0.1)]
    assert said([4.0, 3.0, 2.0, 1.0]) == ["abcd"]
    assert said([4.0, 3.9, 2.0, 1.0]) == ["abcd", "bacd"]
    assert said([4.0, 3.9, 2.0, 1.99], 3) == ["abc", "abd", "bac", "bad"]
    assert said([1.0, 0.95, 0.88, 0.1]) == ["abcd", "acbd", "bacd"]  # the first and the third are no near-tie
    assert [*baselines.orders([0.2, 0.1], texts[:2], 2, 0.1, 0.1)] == [((0,), (1,)), ((1,), (0,))]  # next to zero
    assert [*baselines.orders([1.0] * 4, [(0,)] * 4, 4, 0.1)] == [((0,),) * 4]


def test_a_small_coefficient_of_a_baseline_may_be_off_by_its_layers_noise(sound):
    """The record and the lists found here were measured on unlike CPUs; the run's own lists are in the record."""
    most = sound.tables["triggers"].group_by("layer").agg(most=pl.col("coefficient").max())
    rows = sound.tables["mutations"].join(most, on="layer").with_columns(share=pl.col("coefficient") / pl.col("most"))
    row = rows.sort("share").drop("most", "share").row(0, named=True)
    off = sound.near.limits.noise / 2 * sound.largest[row["layer"]]

    def state(by, **given):
        coefficient = row["coefficient"] + by
        other = {**row, "coefficient": coefficient, "change": row["mutated"] / coefficient - 1}
        return ROWS["mutations"].row(dataclasses.replace(sound, **given), other).state

    assert off > row["coefficient"] * sound.near.limits.coefficient
    assert state(off, found_here=True) == MATCH and state(off) == DIFFERS
    assert state(30 * off, found_here=True) == DIFFERS


def test_rows_drawn_otherwise_than_by_the_seed_are_found(sound):
    examples = sound.tables["examples"].with_columns(pl.col("position").reverse())
    other = with_tables(sound, {"examples": examples, "mutations": sound.tables["mutations"].head(-1)})
    assert tables_of(faults(other)) == ["mutations", "examples"]


@pytest.mark.parametrize(
    "left_out, said",
    [
        (lambda t: pl.int_range(pl.len()) == len(t) - 1, "lacks a prefix, an intervention or a control"),
        (lambda t: pl.col("prefix") == t["prefix"][0], "lacks a prefix, an intervention or a control"),
        (lambda t: (pl.col("layer") == 2) & (pl.col("key") == t.filter(layer=2)["key"][0]), "not the memories"),
    ],
)
def test_changed_coefficients_that_are_left_out_are_found(sound, left_out, said):
    table = sound.tables["causal"]
    assert faults(sound) == []
    (found,) = faults(with_tables(sound, {"causal": table.filter(~left_out(table))}))
    assert found.startswith("causal: ") and said in found


def test_prefixes_that_a_forger_likes_better_are_found(sound):
    table, seen = sound.tables["causal"], sound.surveyed()
    numbers = sound.corpus.offsets[seen.sentence] + seen.position - 1
    layer, key = table["layer"][0], table["key"][0]
    this = (pl.col("layer") == layer) & (pl.col("key") == key)
    own, m = table.filter(this)["prefix"].unique().to_list(), seen.of(layer, key)
    (taken,) = [number for number in numbers[np.argsort(m)] if number not in own][-1:]
    moved = pl.when(this & (pl.col("prefix") == max(own))).then(int(taken)).otherwise("prefix").cast(pl.UInt32)
    says = f"causal: layer {layer} key {key}: not the prefixes that the seed draws where it is active"
    assert faults(with_tables(sound, {"causal": table.with_columns(moved.alias("prefix"))})) == [says]


def test_a_file_that_no_step_writes_so_contradicts_its_order_or_its_precision(sound, folder, tmp_path):
    run, table = Run(config()), sound.tables["mutations"]
    assert contradictions(sound, run, files_of(folder)) == []
    swapped = [1, 0, *range(2, len(table))]
    for name, made, precision, says in (
        ("swapped", table[swapped], "float32", "its rows are not in the order of their key"),
        ("twice", pl.concat([table[:1], table]), "float32", "or one has several rows"),
        ("rounded", table, "bfloat16", "its file states that it was measured in bfloat16, but the config says float32"),
    ):
        said = {} if precision == "float32" else {tables.PRECISION: precision}
        made.write_parquet(tmp_path / f"{name}.parquet", metadata=said or None)
        faults_ = contradictions(sound, run, files_of(folder, mutations=tmp_path / f"{name}.parquet"))
        assert len(faults_) == 1 and faults_[0].startswith("mutations: ") and says in faults_[0]


@pytest.mark.parametrize(
    "changes, never", [({}, TYPES[:20]), ({"values__projection": "head"}, ())], ids=["never", "head"]
)
def test_a_rank_is_recomputed_though_its_target_is_never_trained_or_not_in_the_head(changes, never, tmp_path):
    given = basis(tmp_path, changes, {}, never)
    without = pl.col("next_token").is_not_null() & pl.col("next_token_rank").is_null()
    rows = given.tables["values"].filter(pl.col("next_token").is_in(given.never) | without)
    assert 0 < len(rows) < len(given.tables["values"])
    for row in given.tables["values"].to_dicts():
        assert recomputed("values", given, row).state == MATCH
    for row in rows.to_dicts():
        for column in ("next_token_rank", "next_token_rank_trained"):
            others = (row[column] + 1, row[column] - 1, None) if row[column] is not None else (0, 40)
            for rank in others:
                assert recomputed("values", given, row | {column: rank}).state == DIFFERS


def test_keys_drawn_otherwise_than_by_the_seed_are_found(tmp_path):
    given = basis(tmp_path, {"triggers__keys": 7, "gallery": {"keys": 3}}, {})
    assert faults(given) == []
    first = given.tables["values"].row(0, named=True)
    others = (pl.col("layer") != first["layer"]) | (pl.col("key") != first["key"])
    given.tables["values"] = given.tables["values"].filter(others)
    assert tables_of(faults(given)) == ["values"]
    rest = given.tables["triggers"].filter((pl.col("layer") != 2) | (pl.col("rank") < 3))
    (finding,) = audit(with_tables(given, {"triggers": rest}), ALL, ["sentences"])
    assert finding.differ  # a list that is too short is found among the keys that the run looked at
    keys = {int(said.split(" key ")[1].split()[0]) for said in finding.differ if "layer 2 key" in said}
    assert keys <= set(rest.filter(pl.col("layer") == 2)["key"])


def test_examples_are_compared_with_a_given_sample(tmp_path):
    given = basis(tmp_path, {"composition__sample_file": "sample.jsonl", "corpus__segmenter": "line"}, {})
    assert faults(given) == []
    given.tables["examples"] = given.tables["examples"].with_columns(pl.col("position").reverse())
    assert faults(given)[0] == "examples: position does not follow from the seed, the text or other tables"


@pytest.mark.parametrize("table, column", [
    ("composition", "effective"), ("values", "top_probability_trained"), ("composition", "agreeing_memories_trained"),
])  # fmt: skip
def test_a_column_that_is_left_out_or_that_this_run_has_not_is_found(sound, table, column):
    lacks = {table: sound.tables[table].drop(column)}
    assert f"{table}: lacks the column {column}" in faults(with_tables(sound, lacks))
    further = {"values": sound.tables["values"].with_columns(top_token_all=pl.col("top_token"))}
    assert "values: has the column top_token_all, as no run of this config" in faults(with_tables(sound, further))


def test_all_passes_look_at_the_position_that_the_exact_one_chose(sound):
    best, looked_at = iter([4, 7, 5]), []

    def check(inputs):
        looked_at.append(inputs.chosen.setdefault("best", next(best)))
        return Result()

    sound.by_its_own_error(check)
    assert looked_at == [4, 4, 4]


def test_a_key_of_a_perplexity_that_is_left_out_or_that_no_step_writes_is_found(tmp_path):
    read, file = {"perplexity": None, "tokens": 9, "context": "each by itself"}, tmp_path / "perplexity.json"
    whole = read | {"sentences": 2, "in_windows": read | {"windows": 1, "window": 9}}
    says = ["perplexity: further: Extra inputs are not permitted", "perplexity: in_windows.window: Field required"]
    for change, faults_ in (({}, []), ({"further": 1}, says[:1]), ({"in_windows": read | {"windows": 1}}, says[1:])):
        file.write_text(json.dumps(whole | change))
        assert list(baselines.odd_perplexity(file)) == faults_


def test_the_sample_is_as_large_as_the_statement_needs():
    aim = Aim(0.95, 0.0075)
    assert aim.rows == 398
    assert 0.9925**398 <= 0.05 < 0.9925**397
    said = lambda population, rows: statement([Finding("values", population, recomputed=rows)], aim)
    shown = "398 of 398 rows of values match: with 95 % confidence, fewer than 0.75 % of 1,000,000 differ"
    assert said(10**6, 398) == shown
    assert aim.bound(398, 0) <= 0.0075
    assert said(40, 40) == "40 of 40 rows of values match: these are all rows"
    near = statement([Finding(LEFT_OUT, 40, recomputed=40, near_ties=39)], aim)
    assert "(39 near-ties, which hold none that scores clearly higher): these are all rows" in near
    assert aim.bound(398, 2) > 2 / 398
    first, same, other = (Aim(seed=seed).draw("rows", 10_000).tolist() for seed in (1, 1, 2))
    assert first == same == sorted(set(first)) != other
    with pytest.raises(UserError, match="between 0 and 1"):
        Aim(0.95, 2)


def test_wrong_rows_are_found_as_often_as_is_said():
    population, wrong, times = 4000, 30, 600
    bad = set(range(0, population, population // wrong))
    found = sum(bool(bad & set(Aim(0.9, 0.01, seed).draw("rows", population).tolist())) for seed in range(times))
    n = Aim(0.9, 0.01).rows
    expected = 1 - math.comb(population - len(bad), n) / math.comb(population, n)
    assert abs(found / times - expected) < 4 * math.sqrt(expected * (1 - expected) / times)


def test_more_models_dilute_nothing():
    assert [Aim(0.95, 0.0075).of_each(models).rows for models in (1, 2, 4, 41)] == [398, 199, 99, 99]


def test_tables_of_examples_are_looked_at_in_rows_of_the_same_prefixes():
    examples = pl.DataFrame({"example": range(500)})
    rows = examples.join(pl.DataFrame({"layer": range(1, 17)}), how="cross").sort("example", "layer")
    frames = {"examples": examples, "composition": rows, "refinement": rows, "triggers": rows}
    for rounds in (1, 8):
        works, found = draw("own", frames, Aim(seed=2), rounds)
        for number in range(rounds):
            text = [row for work in works if work.round == number for row in work.rows if row[0] != "triggers"]
            seen = {name: [i if name == "examples" else i // 16 for of, i in text if of == name] for name in frames}
            assert seen["examples"] == seen["composition"] == seen["refinement"] and len(seen["examples"]) > 48
        assert found["composition"].rows == 8000 and sum(len(work.rows) for work in works) == 4 * 398
        assert len({row for work in works for row in work.rows}) == 4 * 398


def test_with_a_limit_of_time_the_same_rows_are_looked_at_in_rounds():
    frames = {"triggers": pl.DataFrame({"layer": [1] * 5000, "key": range(5000)})}
    once, rounds = (draw("own", frames, Aim(seed=2), n)[0] for n in (1, 8))
    drawn = lambda works: sorted(row for work in works for row in work.rows)
    assert drawn(rounds) == drawn(once) and {work.round for work in once} == {0}
    filled = [work for work in rounds if work.rows]
    assert [work.round for work in filled] == list(range(8)) and {len(work.rows) for work in filled} == {49, 50}


def test_more_near_ties_than_a_stated_share_show_too_little():
    cases: list[tuple[Precision, int]] = [("float32", 13), ("tf32", 49), ("bfloat16", 109)]
    for precision, most in cases:
        limits = tolerances(precision)
        found = [Finding("removals", 3840, recomputed=398, near_ties=ties) for ties in (most, most + 1)]
        assert [one.hangs(limits) for one in found] == [False, True]


def test_other_memories_than_rounding_may_choose_are_no_near_tie(sound):
    """All that follows from removing them is right."""
    for row in sound.tables["removals"].filter(pl.col("layer") == 2).sort("removed").to_dicts()[:3]:
        assert recomputed("removals", sound, row).state == MATCH
        assert recomputed("removals", sound, {**row, "loss": (row["loss"] or 0.0) + 0.3}).state == DIFFERS


ASLEEP = """
import signal, sys, time
from ff_memories.audit.audit import _each
signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
list(_each([600.0] * 4, time.sleep, 2))
"""


@pytest.mark.more
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_audit_that_is_killed_leaves_no_process_at_work(how):
    audit_ = subprocess.Popen([sys.executable, "-c", ASLEEP], stderr=subprocess.DEVNULL)
    left = []
    while audit_.poll() is None and len(left) < 3:  # two processes, and one that frees what they shared
        time.sleep(0.1)
        left = psutil.Process(audit_.pid).children(recursive=True)
    time.sleep(5)  # until they have imported what they need
    audit_.send_signal(how)
    assert audit_.wait(20) != 0
    assert len(left) >= 3
    assert psutil.wait_procs(left, timeout=60)[1] == []


def test_a_list_that_ends_in_near_ties_allows_the_counts_that_its_ends_can_give_and_no_other(monkeypatch):
    monkeypatch.setattr(values_audit, "_targets", lambda inputs, rows: rows)
    agrees, row = (lambda target: target == 1), {"layer": 1, "key": 0}
    inputs: Any = SimpleNamespace(unsure={})

    def states(beyond, targets):
        inputs.unsure = {(1, 0): (2, beyond)}
        return [values_audit._count(inputs, row | {"n": n}, "n", targets, agrees).state for n in range(5)]

    assert states([0], [1, 1, 0, 0]) == [DIFFERS, DIFFERS, MATCH, DIFFERS, DIFFERS], "none of the tied agree"
    assert states([1], [1, 0, 0, 1]) == [DIFFERS, DIFFERS, MATCH, NEAR_TIE, DIFFERS], "one of the tied is in it"

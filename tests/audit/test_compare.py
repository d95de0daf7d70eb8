"""`compare` on runs of a few rows: which files it reads, and what it says of those that follow from others."""

import dataclasses
import json
import math
import shutil
from pathlib import Path
from unittest import mock

import polars as pl
import pytest
import yaml
from audited import basis
from pipeline import config

from ff_memories import tables
from ff_memories.audit import compare, recompute
from ff_memories.audit.audit_inputs import read_table
from ff_memories.audit.near_equal import tolerances
from ff_memories.base.errors import UserError
from ff_memories.workflow import dvc_lock_file
from ff_memories.workflow.run import Run

FLOAT32 = tolerances("float32")
CLAIM = dict.fromkeys(tables.TABLES["claims"].columns) | {
    "claim": "K1", "statement": "the last token matters", "source": "3.2", "paper_value": "-0.5", "measured": -0.8,
    "low": -0.9, "high": -0.7, "n": 30, "scope": "surrogate", "verdict": "holds",
}  # fmt: skip


def write(folder, name, rows, precision="float32"):
    schema = tables.TABLES[name]
    names = [column for column in (schema.columns | schema.optional) if column in rows[0]]
    types = {column: (schema.columns | schema.optional)[column] for column in names}
    tables.write(pl.DataFrame(rows, schema=types), folder / "tables" / f"{name}.parquet", precision)


def triggers(nudge=0.0):
    return [
        {"layer": 1, "key": key, "rank": 1, "coefficient": 1.0 + key / 10 + nudge, "sentence": key, "position": 2,
         "next_token": 7} for key in range(4)
    ]  # fmt: skip


def make(folder, nudge=0.0, verdict="holds", precision="float32"):
    """A run of two tables with the files that follow from them."""
    write(folder, "triggers", triggers(nudge), precision)
    write(folder, "claims", [CLAIM])
    for name in ("claims", "figures", "logs/sensitivity", "report", "corpus"):
        (folder / name).mkdir(parents=True)
    held = json.dumps({"K1": {"measured": -0.8, "verdict": verdict}})
    (folder / "claims.json").write_text(held)
    (folder / "claims" / "K01-last.json").write_text(held)
    (folder / "figures" / "figure3.csv").write_text("layer,change\n1,-0.8\n")
    (folder / "logs/sensitivity/values.log").write_text(f"took {nudge} s")
    (folder / "corpus" / "corpus.safetensors").write_text(f"{nudge}")
    return folder


@pytest.fixture
def two(tmp_path, monkeypatch):
    """Two runs whose coefficients differ in their last bits, in a project with the config of both."""
    monkeypatch.chdir(tmp_path)
    Path("config").mkdir()
    Path("config/config.yaml").write_text(yaml.safe_dump(config()))
    return make(tmp_path / "results/small"), make(tmp_path / "other/small", nudge=1e-6)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The basis of a small run."""
    return basis(tmp_path_factory.mktemp("sound"), {}, {})


def told(monkeypatch, a, b):
    """Compare two runs, where the model and the text are said to be here."""
    monkeypatch.setattr(compare, "lacking", lambda run, both: None)
    return compare.compare(a, b)


# -- which files a run has


def test_logs_and_text_are_no_part_of_a_run(two):
    a, b = two
    side = compare.opened(a)
    assert set(side.digests) == {
        "tables/triggers.parquet", "tables/claims.parquet", "claims", "claims.json", "figures/figure3.csv",
    }  # fmt: skip
    assert not [path for path in side.files if path.startswith(("logs/", "corpus/"))]
    shutil.rmtree(b)
    shutil.copytree(a, b)
    (b / "logs/sensitivity/values.log").write_text("took longer")
    assert compare.compare(a, b).answer == "identical"


def test_figures_that_an_archive_lacks_are_no_difference(two):
    a, b = two
    shutil.copytree(a, b, dirs_exist_ok=True)
    (b / "figures/figure3.csv").unlink()
    assert compare.compare(a, b).answer == compare.compare(b, a).answer == "identical"
    (b / "claims.json").unlink()
    assert compare.compare(a, b).different == ["claims.json: only one of the runs has this file"]


def recorded(folder, name="dvc.lock"):
    """Write a dvc.lock of a run's shared files, which are in DVC's cache."""
    side = compare.opened(folder)
    outs = [{"path": f"results/small/{path}", "md5": md5} for path, md5 in side.digests.items()]
    for path, md5 in side.digests.items():
        if not md5.endswith(".dir"):
            (Path(".dvc/cache/files/md5") / md5[:2]).mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / path, Path(".dvc/cache/files/md5") / md5[:2] / md5[2:])
    stages = {"all": {"cmd": "true", "outs": outs, "deps": []}}
    Path(name).write_text(yaml.safe_dump({"stages": stages}))
    return Path(name)


def test_a_record_and_the_run_that_it_records_are_identical(two):
    assert compare.compare(recorded(two[0], "old.lock"), two[0]).answer == "identical"


def test_a_file_of_the_cache_that_has_another_digest_is_refused(two):
    record = recorded(two[0], "old.lock")
    md5 = dvc_lock_file.digest(two[0] / "tables/triggers.parquet")
    write(two[0], "triggers", triggers(0.5))
    shutil.copy(two[0] / "tables/triggers.parquet", Path(".dvc/cache/files/md5") / md5[:2] / md5[2:])
    with pytest.raises(UserError, match="is not in DVC's cache, or damaged there"):
        compare.compare(record, two[1])
    record.write_text(record.read_text().replace("/tables/", "/baselines/"))
    with pytest.raises(UserError, match="of an earlier version; in a clone, git checkout"):
        compare.compare(record, two[1])


# -- files that follow from tables


def test_runs_whose_files_follow_from_their_tables_are_equal(two, monkeypatch):
    a, b = two
    found = told(monkeypatch, a, b)
    assert found.answer == "equal" and found.tables["triggers"].cells["coefficient"] == 4


def test_a_file_that_differs_though_no_table_does_is_different(two, monkeypatch):
    a, b = two
    shutil.copy(a / "tables/triggers.parquet", b / "tables/triggers.parquet")
    (b / "claims/K01-last.json").write_text("{}")
    assert told(monkeypatch, a, b).different == ["claims: differs, but the tables that it follows from are the same"]


@pytest.mark.parametrize("second, same", [(21.0001, True), (21.01, False)])
def test_perplexities_may_differ_in_their_last_digits(two, monkeypatch, second, same):
    for folder, number in zip(two, (21.0, second), strict=True):
        (folder / "models/untrained-1").mkdir(parents=True)
        (folder / "models/untrained-1/perplexity.json").write_text(json.dumps({"of": [{"perplexity": number}]}))
    assert told(monkeypatch, *two).others == ([] if same else ["models/untrained-1/perplexity.json: differs"])


def test_without_the_model_an_open_decision_does_not_pass(two):
    a, b = two
    write(b, "triggers", [*triggers()[:3], {**triggers()[3], "sentence": 9}])
    found = compare.compare(a, b)
    assert found.answer == "different" and compare.NOT_TOLD in found.different[0]


# -- the precision


def test_a_precision_that_is_not_the_configs_is_different(two, monkeypatch):
    a, b = two
    write(b, "triggers", triggers(0.02), "bfloat16")
    found = told(monkeypatch, a, b)
    assert found.answer == "different" and "measured in bfloat16, not in float32" in found.others[0], found.different
    write(a, "triggers", triggers(), "bfloat16")
    assert sum("measured in bfloat16, not in float32" in line for line in told(monkeypatch, a, b).others) == 2


def test_without_configs_both_runs_must_state_one_precision(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a, b = make(tmp_path / "a"), make(tmp_path / "b", 0.02, precision="bfloat16")
    found = compare.compare(a, b)
    assert any("measured in bfloat16, not in float32" in line for line in found.others), found.others


def test_two_runs_whose_configs_name_two_precisions_are_compared_within_the_wider_limits(two, monkeypatch):
    a, b = two
    shutil.rmtree(b)
    b = make(a.parent / "rounded", 0.02, precision="bfloat16")
    other = config(run="rounded", extraction__precision="bfloat16")
    Path("config/rounded.yaml").write_text(yaml.safe_dump(other))
    found = told(monkeypatch, a, b)
    assert found.others == [] and found.answer == "equal"
    told_ = "A was measured in float32, B in bfloat16; the limits are those of the one that rounds more"
    assert next(compare.page(found)) == told_ and compare.data(found)["precisions"] == ("float32", "bfloat16")


# -- numbers


def compare_tables(a, b):
    return compare.compare_tables(a, b, FLOAT32)


def frame(name, rows):
    schema = tables.TABLES[name]
    return pl.DataFrame(rows, schema={column: schema.columns[column] for column in rows[0]})


CHANGED: dict[str, tuple[dict, dict, str]] = {  # a row, what the other run has, and what becomes of it
    "triggers": (triggers()[0], {"coefficient": 1.5}, "coefficient is 1.0 and 1.5"),
    "claims": (CLAIM, {"verdict": "fails"}, "verdict is holds and fails"),
    "composition": ({"example": 0, "layer": 1, "active": 3, "ffn_top": 1, "output_top": 1, "agreeing_memories": 0},
                    {"active": 43}, "open"),
    "counts": ({"step": "triggers", "reason": "keys", "n": 72}, {"n": 10**6}, "follows"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_what_differs_is_named_or_recomputed_or_made_again_by_its_rule(name):
    row, change, says = CHANGED[name]
    one, other = ({f"tables/{name}": frame(name, [own])} for own in (row, row | change))
    (found,) = compare_tables(one, other).values()
    assert [line.rpartition(": ")[2] for line in found.different] == ([says] if " " in says else [])
    assert bool(found.open["a"]) == (says == "open") and found.follows == (name in ("claims", "counts"))


def test_another_group_of_a_claim_is_a_difference():
    one, other = ({"tables/claims": frame("claims", [CLAIM | {"group": of}])} for of in ("signal", "common"))
    assert compare_tables(one, other)["tables/claims"].different == ["claims, claim K1: group is signal and common"]


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_number_that_is_not_finite_is_refused_and_never_equal(number, tmp_path):
    odd = frame("triggers", [{**triggers()[0], "coefficient": number}, *triggers()[1:]])
    found = compare_tables({"tables/triggers": frame("triggers", triggers())}, {"tables/triggers": odd})
    shown = f"triggers, layer 1 key 0 rank 1: coefficient is 1.0 and {float(number)}"
    assert found["tables/triggers"].different == [shown]
    odd.write_parquet(tmp_path / "triggers.parquet")
    with pytest.raises(UserError, match=r"triggers\.parquet: coefficient has a number that is not finite"):
        read_table(tmp_path / "triggers.parquet")


def test_a_coefficient_that_one_run_raises_widens_no_tolerance():
    rows = [{"layer": 1, "key": 0, "rank": 1, "position": place, "coefficient": 1.0} for place in range(1, 4)]
    moved = [{**rows[0], "coefficient": 1e9}, {**rows[1], "coefficient": 3.0}, rows[2]]
    one, other = frame("shading", rows), frame("shading", moved)
    for a, b in ((one, other), (other, one)):
        found = compare_tables({"tables/shading": a}, {"tables/shading": b})["tables/shading"]
        assert found.near_ties == 2 and found.within["coefficient"] == 0


def test_an_interval_that_one_run_widens_excuses_no_number():
    row = {"claim": "K1", "choice": "values.types", "value": "all", "measured": 0.5, "low": 0.4, "high": 0.6,
           "verdict": "holds"}  # fmt: skip
    one = frame("sensitivity", [row])
    other = frame("sensitivity", [{**row, "low": -100.0, "high": 100.0, "measured": 3.0}])
    for a, b in ((one, other), (other, one)):
        (said,) = compare_tables({"tables/sensitivity": a}, {"tables/sensitivity": b}).values()
        assert [line.split()[-5] for line in said.different] == ["measured", "low", "high"]


# -- what rows are recomputed from


def test_nothing_is_recomputed_from_a_model_that_a_run_did_not_measure(two):
    run, (a, b) = Run(config(), "config/config.yaml"), two
    sides_ = [compare.opened(folder) for folder in two]
    assert compare.lacking(run, sides_) == compare.NOT_TOLD
    made = [run.path("model", "model.safetensors"), run.path("model", "model.json"), run.table("sentences")]
    needed = (*run.inputs.model_files, run.dictionary, run.path("corpus", "corpus.safetensors"), *made)
    for path in needed:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(path)
    assert compare.lacking(run, sides_) is None
    recorded = [{"path": path, "md5": dvc_lock_file.digest(path)} for path in needed]
    Path("dvc.lock").write_text(yaml.safe_dump({"stages": {"all": {"cmd": "true", "deps": recorded}}}))
    for path in needed:
        Path(path).write_text("another one")
        assert f"{path} is not the one that dvc.lock records" in compare.lacking(run, sides_)
        Path(path).write_text(path)
    assert compare.lacking(run, sides_) is None
    pinned = Run(config(model__sha256="0" * 64), "config/config.yaml")
    assert "model.pt is not the one that the config names" in compare.lacking(pinned, sides_)
    (b / "model").mkdir()
    (b / "model/info.json").write_text(json.dumps({"checkpoint_sha256": "0" * 64}))
    assert f"is not the one that {b} was measured" in compare.lacking(run, [compare.opened(a), compare.opened(b)])


# -- files that are damaged


def test_an_empty_file_in_a_tables_place_ends_in_one_line(two):
    a, b = two
    (b / "tables/triggers.parquet").write_bytes(b"")
    with pytest.raises(UserError, match=r"triggers\.parquet: cannot be read as a table"):
        compare.compare(a, b)


# -- near-ties


def mutated(rank, mutation, coefficient, now):
    return {"layer": 1, "key": 0, "rank": rank, "mutation": mutation, "removed": 1, "coefficient": coefficient,
            "mutated": now, "change": now / coefficient - 1}  # fmt: skip


def test_mutations_of_a_baselines_tied_triggers_are_settled_by_the_model_and_others_are_not(sound):
    """The engine's list has two near-ties; the record of each run has another of them first."""
    triggers_ = sound.tables["triggers"]
    key = triggers_.filter(pl.col("rank") == 4).row(0, named=True)
    own = (pl.col("layer") == key["layer"]) & (pl.col("key") == key["key"]) & (pl.col("rank") <= 2)
    first, second = triggers_.filter(own).sort("rank").to_dicts()
    tied = pl.when(own).then(pl.lit(first["coefficient"], pl.Float32)).otherwise("coefficient").alias("coefficient")
    known = dataclasses.replace(sound, tables={"triggers": triggers_.with_columns(tied)}, found_here=True)

    def rows(best, next_):
        """Rows of the table as a run has them whose list begins with these triggers."""
        out = []
        for rank, trigger in enumerate((best, next_), 1):
            length = trigger["position"]
            seen = sound.oracle.layers(sound.corpus.sentence(trigger["sentence"])[: length - 1])[key["layer"] - 1]
            out.append({
                **mutated(rank, "last", first["coefficient"], float(seen.coefficients()[-1, key["key"]])),
                "layer": key["layer"], "key": key["key"], "removed": length,
            })  # fmt: skip
        return frame("mutations", out)

    name, tables_ = "models/untrained-1/tables/mutations", [rows(first, second), rows(second, first)]
    wrong = tables_[1].with_columns(mutated=pl.col("mutated") + 1, change=pl.col("change") + 1 / pl.col("coefficient"))
    for found in (tables_[1], wrong):
        sides: dict[compare.Letter, compare.NamedTables] = {"a": {name: tables_[0]}, "b": {name: found}}
        outcomes = compare_tables(sides["a"], sides["b"])
        assert outcomes[name].open == {"a": [0, 1], "b": [0, 1]}
        with mock.patch.object(recompute, "faults", lambda basis: []):
            compare._recompute(outcomes, sides, FLOAT32, lambda model: known)
        assert bool(outcomes[name].different) == (found is wrong)


def test_a_forged_entry_at_the_end_of_a_list_is_no_near_tie(sound):
    """Another sentence takes the last place, where a list of the other run cannot tell."""
    own, corpus = sound.tables["triggers"], sound.corpus
    last = own.filter(rank=own["rank"].max()).row(0, named=True)
    prefix = lambda number: corpus.sentence(number)[: last["position"]].tolist()
    longer = [number for number in range(corpus.train) if corpus.lengths[number] > last["position"]]
    other = next(number for number in longer if prefix(number) != prefix(last["sentence"]))
    here = pl.all_horizontal(pl.col(name) == last[name] for name in ("layer", "key", "rank"))
    moved = own.with_columns(sentence=pl.when(here).then(other).otherwise("sentence").cast(pl.UInt32))
    name = "tables/triggers"
    sides: dict[compare.Letter, compare.NamedTables] = {"a": {name: own}, "b": {name: moved}}
    outcomes = compare_tables(sides["a"], sides["b"])
    with mock.patch.object(recompute, "faults", lambda basis: []):
        compare._recompute(outcomes, sides, FLOAT32, lambda model: sound)
    assert "coefficient is" in outcomes[name].different[0]


def test_rows_of_a_trigger_that_changed_places_count_as_near_ties_of_the_triggers_alone():
    """Its rows are more than the share that near-ties may change."""
    long = 40
    shades = [{"layer": 1, "key": 0, "rank": rank, "position": at, "coefficient": 1.0 + at / 9}
              for rank in range(1, 4) for at in range(1, long + 1)]  # fmt: skip
    one, second = frame("shading", shades), pl.col("rank") == 2
    other = one.with_columns(coefficient=pl.when(second).then(pl.col("coefficient") * 2).otherwise("coefficient"))
    list_ = frame("triggers", [{**triggers()[0], "rank": rank, "coefficient": 9.0 - rank} for rank in range(1, 4)])
    moved = list_.with_columns(sentence=pl.when(second).then(99).otherwise("sentence").cast(pl.UInt32))
    for changed in (other, one, other.filter(~second)):
        found = compare_tables(
            {"tables/triggers": list_, "tables/shading": one}, {"tables/triggers": moved, "tables/shading": changed}
        )
        shading = found["tables/shading"]
        assert shading.near_ties == 0 and shading.different == []
        assert found["tables/triggers"].near_ties == 1
    beyond = compare_tables({"tables/shading": one}, {"tables/shading": other})["tables/shading"]
    assert "40 of 120 rows differ beyond a tolerance, and rounding explains at most 11" in beyond.different[0]


def test_a_list_that_is_longer_in_one_run_is_different_unless_by_noise():
    rows = [{**triggers()[0], "rank": rank, "coefficient": c} for rank, c in ((1, 9.0), (2, 1.0), (3, 1e-6))]
    for n, different in ((2, 0), (1, 1)):
        for a, b in ((rows, rows[:n]), (rows[:n], rows)):
            found = compare_tables({"tables/triggers": frame("triggers", a)}, {"tables/triggers": frame("triggers", b)})
            assert len(found["tables/triggers"].different) == different


def test_a_change_that_does_not_follow_from_its_coefficients_is_open():
    right = frame("mutations", [mutated(1, "first", 2.0, 1.0), mutated(2, "first", 2.0, 0.5)])
    wrong = right.with_columns(change=pl.col("change") + 0.01)
    assert compare_tables({"tables/mutations": right}, {"tables/mutations": right})["tables/mutations"].near_ties == 0
    assert compare_tables({"tables/mutations": right}, {"tables/mutations": wrong})["tables/mutations"].near_ties == 2


def test_every_column_of_every_table_has_a_class():
    for name, schema in tables.TABLES.items():
        for column, dtype in (schema.columns | schema.optional).items():
            if dtype.is_float():
                assert schema.rules[column] != "exact", (name, column)
    folded = [name for name in tables.TABLES["values"].optional if "folded" in name]
    assert len(folded) == 6 and {tables.TABLES["values"].rules[name] for name in folded} == {"exact"}

"""Test alternative choices: all are listed, each equals a whole run with that key changed, and pages show them."""

from functools import reduce
from operator import getitem
from typing import Literal, get_args, get_origin

import polars as pl
import pytest
from deviations import effect
from pipeline import config
from running import change, command, snakemake

from ff_memories import tables
from ff_memories.base import machine
from ff_memories.config import Config, Settings, parse
from ff_memories.config.sections import FigureOptions
from ff_memories.figures import draw, render
from ff_memories.figures.context import FigureContext
from ff_memories.judge import sensitivity
from ff_memories.judge.sensitivity import changes, rows
from ff_memories.model.info import MARKS
from ff_memories.report.page import choices_section
from ff_memories.steps.sensitivity_part import STEPS, changed, jobs_of
from ff_memories.workflow.run import Run

OF_OTHER_MODELS = {"corpus.tokenizer=model", "values.projection=raw", "values.projection=scaled",
                   "triggers.signs=positive", "triggers.signs=both", "mutations.unit=word",
                   "composition.residual=read"}  # fmt: skip


def test_every_alternative_of_every_key_is_a_choice(monkeypatch):
    monkeypatch.setattr(machine, "gpu_present", lambda: True)  # where tf32 can be chosen
    run = parse(config(execution__device="auto"))
    found = {choice.name for choice in sensitivity.choices(run)}
    for section in sensitivity.SECTIONS:
        for key, field in Config.model_fields[section].annotation.model_fields.items():
            if get_origin(field.annotation) is Literal:
                every = {f"{section}.{key}={v}" for v in get_args(field.annotation)}
                left = every - found - OF_OTHER_MODELS
                own = {f"{section}.{key}={run.resolved()[section][key]}"} - OF_OTHER_MODELS
                assert left == own | (left & {f"{section}.{key}=auto"})
    assert {"fidelity=released", "corpus.segmenter=line", "corpus.train.max_sentences=0.1"} <= found


@pytest.mark.parametrize("fidelity", ["paper", "released"])
def test_every_choice_is_a_config_that_differs_in_it_alone(fidelity):
    run = parse(config(fidelity=fidelity))
    own = run.resolved()
    for choice in sensitivity.choices(run):
        made = sensitivity.varied(run, choice, 1000).resolved()
        if choice.path == "fidelity":
            assert made["fidelity"] == choice.value != own["fidelity"]
            continue
        made["fidelity"] = own["fidelity"]
        head, *rest = choice.path.split(".")
        assert made != own and made | {head: None} == own | {head: None}
        value = reduce(getitem, rest, made[head])
        assert value == (round(1000 * float(choice.value)) if choice.path == sensitivity.SIZE else choice.value)


def test_what_this_machine_or_another_choice_excludes_is_no_choice(monkeypatch):
    def precisions(**changes):
        return [c.value for c in sensitivity.choices(parse(config(**changes))) if "precision" in c.path]

    monkeypatch.setattr(machine, "gpu_present", lambda: False)
    assert precisions(execution__device="auto") == ["bfloat16"]
    assert precisions(fidelity="released") == []
    named = {c.name for c in sensitivity.choices(parse(config(extraction__precision="bfloat16")))}
    assert not named & {"fidelity=released", "values.projection=random"} and "extraction.precision=float32" in named


def test_a_job_sees_of_another_config_only_what_its_rule_declares():
    declared = '{"seed": 3, "values": {"target": "next"}}'
    assert changed(declared, {"seed": 3, "values": {"target": "last", "more": 1}, "corpus": {}}) == (
        '{"seed": 3, "values": {"target": "last"}}'
    )


def test_all_steps_on_the_way_to_the_claims_can_be_run_again(planted_run, monkeypatch):
    monkeypatch.chdir(planted_run)
    jobs = jobs_of(Run.read("my.yaml"), "results/planted/tables/claims.parquet", 2)
    of_transformers = "transformer-model"  # takes a model in where `model` does not: triggers.signs changes it
    assert {job.command[0] for job in jobs} | {of_transformers} == set(STEPS) - {"join", "trigger-shard"}
    seen = set()
    for job in jobs:  # each after those it needs
        assert not (set(job.inputs) & {out for other in jobs for out in other.outputs}) - seen
        seen |= set(job.outputs)


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [("values", "values.target", "last"), ("triggers.positions=full", "triggers.positions", "full")],
)
@pytest.mark.long
def test_a_choice_measures_what_a_whole_run_with_it_would(planted_copy, part, key, value):
    """A choice that touches few steps and one that touches most equal a run with that config, to the last bit."""
    wanted = f"results/planted/sensitivity/{part}/sensitivity.parquet"
    before = {path: path.read_bytes() for path in planted_copy.glob("results/planted/tables/*.parquet")}
    snakemake(planted_copy, wanted)
    assert before == {path: path.read_bytes() for path in planted_copy.glob("results/planted/tables/*.parquet")}
    found = tables.read(planted_copy / wanted).filter(pl.col("choice") == key, pl.col("value") == value)
    change(planted_copy, key, value)
    snakemake(planted_copy, "results/planted/tables/claims.parquet")
    claims = tables.read(planted_copy / "results/planted/tables/claims.parquet")
    claims = claims.filter(pl.col("claim").str.starts_with("K"))  # no choice varies what others rest on
    shared = ["claim", "measured", "low", "high"]
    assert found.select(shared).equals(claims.select(shared))
    assert found["verdict"].to_list() == claims["verdict"].to_list()
    assert claims.height and not list((planted_copy / wanted).parent.glob("variant-*"))


def test_a_choice_under_which_a_run_is_refused_has_no_values_and_no_verdict(planted_copy):
    """A paragraph of short sentences is one overlong sentence if paragraphs are not split."""
    text = planted_copy / "train.txt"
    words = text.read_text().split()[:5]
    text.write_text(text.read_text() + " ".join([*words, ". "] * 1000) + "\n")
    results, claims = planted_copy / "results/planted", "results/planted/tables/claims.parquet"
    done = command(
        "ff-memories", "step", "sensitivity-part", "--configfile", "my.yaml", "--part", "corpus.segmenter=line",
        "--corpus", results / "corpus/corpus.safetensors", "--claims", claims, "--sensitivity",
        "sensitivity.parquet",
        cwd=planted_copy,
    )  # fmt: skip
    found = tables.read(planted_copy / "sensitivity.parquet")
    assert "corpus.segmenter=line: a run with this choice is refused" in done.stderr and "too_long" in done.stderr
    shown = pl.concat([again := rows(tables.read(planted_copy / claims)), found])
    assert found["claim"].equals(again["claim"]) and set(found["verdict"]) == {"not_applicable"}
    assert found["measured"].is_null().all()
    assert effect(changes(shown), "corpus.segmenter", "line") == "a run with this choice is refused"


def row(claim, choice, value, measured, verdict, low=None, high=None):
    return dict(zip(COLUMNS, (claim, choice, value, measured, low, high, verdict), strict=True))


COLUMNS = ("claim", "choice", "value", "measured", "low", "high", "verdict")
TABLE = pl.DataFrame(
    [
        row("K2", "baseline", "", 10.0, "holds", 9.0, 11.0),
        row("K2", "values.target", "last", 10.5, "holds", 9.5, 11.5),
        row("K2", "values.projection", "flat", 5.0, "fails", 4.0, 6.0),
        row("K10", "baseline", "", 0.0, "fails"),
        row("K10", "values.target", "last", 1.0, "holds"),
        row("K10", "values.projection", "flat", None, "not_applicable"),
        row("K12", "baseline", "", 5.0, "fails"),
        row("K12", "values.target", "last", 9.0, "undecided"),
        row("K12", "values.projection", "flat", 6.0, "too_small"),
        row("K2", "corpus.segmenter", "line", None, "not_applicable"),
    ],
    schema=tables.TABLES["sensitivity"].columns,
)


def test_changes_are_relative_and_beyond_the_interval_or_not():
    found = {(r["claim"], r["value"]): r for r in changes(TABLE).iter_rows(named=True)}
    assert [claim for claim, _ in found] == ["K2", "K2", "K2", "K10", "K10", "K12", "K12"]
    assert found["K2", "last"]["change"] == pytest.approx(0.05) and not found["K2", "last"]["beyond"]
    assert found["K2", "flat"]["change"] == pytest.approx(-0.5)
    assert found["K10", "last"]["change"] is None and found["K10", "last"]["beyond"]
    assert not found["K10", "flat"]["beyond"] and found["K2", "line"]["refused"]
    changed = [key for key, r in found.items() if r["changed"]]
    assert changed == [("K2", "flat"), ("K10", "flat"), ("K10", "last"), ("K12", "flat"), ("K12", "last")]


def test_the_reports_section_counts_choices_that_move_a_claim_and_names_verdicts_that_change():
    shown = choices_section(TABLE, None)
    assert (shown["tried"], shown["moving"], len(shown["changed"])) == (3, 2, 5)
    assert [(r["claim"], r["value"]) for r in shown["farthest"]] == [("K2", "flat"), ("K12", "last")]
    said = "the verdict on K12 changes from “does not hold” to “smaller than stated” with values.projection: flat; the "
    assert said in shown["changing"] and "to “undecided” with values.target: last; a run with " in shown["changing"]
    assert shown["changing"].endswith("a run with corpus.segmenter: line is refused, so it has no verdicts.")


def test_the_figure_has_a_cell_for_each_claim_and_choice_and_marks_changed_verdicts():
    look = FigureContext("sensitivity", 16, 64, 100, "surrogate", FigureOptions())
    frame = draw.data({"sensitivity": TABLE}, Settings({}), look)
    made = render.spec(draw.chart(frame, look))
    cells, changed = (layer["data"]["values"] for layer in made["layer"])
    assert len(cells) == 7 and {"values.target: last", "values.projection: flat"} < {cell["choice"] for cell in cells}
    assert [mark["verdict"] for mark in changed] == ["fails", "not_applicable", "holds", "too_small", "undecided"]
    assert draw.DRAWINGS["sensitivity"].headline(frame, look).endswith("; 1 of the choices cannot be run")
    assert MARKS["surrogate"] in render.svg(made, "sensitivity")

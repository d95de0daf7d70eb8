"""The plan of a run: its steps are the workflow's, its sums are right, and what can't fit is refused."""

import json
import re
import subprocess
import tomllib
from unittest.mock import Mock

import pytest
import yaml
from factories import words
from pipeline import config, write_inputs
from refusing import ended
from running import ROOT

from ff_memories.base import arithmetic, sections
from ff_memories.base.errors import UserError
from ff_memories.base.job_costs import SPENT
from ff_memories.config import load, parse
from ff_memories.gallery import coefficient_sample, promoted
from ff_memories.inputs import registry
from ff_memories.model import perplexity
from ff_memories.paper.beyond import causal, survey
from ff_memories.paper.values import values
from ff_memories.plan import costs, planner, speed
from ff_memories.plan.costs import SENTENCE, Shape, Speed, Text
from ff_memories.steps.model import PAPER_SIZE

DESCRIBED = {
    "layers": 5, "model": 16, "keys": 7, "heads": 2, "vocab": 48, "input_cutoffs": [48], "adaptive_input": False,
    "output_cutoffs": [12, 48], "adaptive_output": True, "learned_positions": False, "final_norm": False,
    "max_positions": 64, "embedding_scale": 4.0, "parameters": 9999, "aliases": {},
}  # fmt: skip
SPEED = Speed(layer=1e-5, logit=1e-11)
WIKITEXT = Text(**{split: registry.source("wikitext-103").tokens[split] for split in ("train", "validation")})


def shape():
    return Shape(**registry.source("adaptive_lm_wiki103.v2").shape)


def paper_plan(speed=SPEED, devices=64):
    return costs.steps(load(ROOT / "config/paper.yaml"), shape(), WIKITEXT, speed, devices, 10**9, golden=8)


def test_every_planned_step_is_a_rule():
    text = "".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    rules = set(re.findall(r"^ *rule (\w+):", text, re.MULTILINE)) | {"figures"}
    for step in paper_plan():
        for name in step.rule.removesuffix(" of a baseline").split(", "):
            assert any(rule.startswith(name.rstrip("s")) for rule in rules), name


def test_the_models_sizes_are_those_that_the_golden_checks_and_the_papers_scope_ask_for():
    known = tomllib.loads(registry.OWN.with_name("golden.toml").read_text())
    assert (shape().parameters, shape().vocab) == (known["parameters"], known["vocab"]) == PAPER_SIZE


def test_the_memory_of_a_billion_parameters_is_near_what_was_measured():
    """A Llama of TinyLlama's shape was read in 4.8 GB, and the triggers of an untrained one like it found in 5.3 GB."""
    large = Shape(22, 2048, 2 * 5632, 32, 32_000, 32_000, 1_100_048_384, 2)
    plan = costs.steps(load(ROOT / "config/smollm2.yaml"), large, Text(0, 0), SPEED)
    needs = {step.rule: step.memory for step in plan}
    assert 4.8e9 < needs["model"] < 8e9
    assert all(5.3e9 < needs[rule] < 12e9 for rule in ("triggers of a baseline", "values of a baseline"))


def of_jobs(rule, jobs, seconds, *after):
    return costs.Planned(rule, jobs, seconds, 0, 0, after=after)


@pytest.mark.parametrize("devices, seconds", [(1, 31), (2, 17), (3, 12), (100, 12)])
def test_a_free_device_takes_the_job_that_most_work_waits_for(devices, seconds):
    """On two: a until 2, both b until 6, c until 12 beside d and d, and the last d until 17."""
    plan = [of_jobs("a", 1, 2), of_jobs("b", 2, 4, "a"), of_jobs("c", 1, 6, "b"), of_jobs("d", 3, 5, "a")]
    assert costs.elapsed(plan, devices) == seconds


def test_a_job_asks_snakemake_for_the_plans_memory_and_before_there_is_a_model_for_what_its_file_says(tmp_path):
    given = parse(config(execution__shards="auto"))
    (tmp_path / "model.pt").write_bytes(bytes(10**6))
    needs = lambda rule, at_once=1: costs.megabytes(
        given, tmp_path / "model.json", [str(tmp_path / "model.pt")], [str(tmp_path / "no text")], rule, at_once
    )
    assert needs("values") == 704
    (tmp_path / "model.json").write_text(json.dumps(DESCRIBED | {"parameters": 10**9}))
    plan = costs.steps(given, Shape(5, 16, 7, 2, 48, 12, 10**9), Text(0, 0), SPEED)
    assert all(needs(step.rule) == int(step.memory / 1e6) + 1 for step in plan)
    assert needs("trigger_shard of a baseline") == needs("triggers of a baseline")
    assert needs("values", 4) == pytest.approx(needs("values") - 3e3, rel=1e-3)  # jobs share the weights that they map
    assert needs("sensitivity_part") == max(needs(step.rule) for step in plan)
    (tmp_path / "model.json").write_text("{}")
    assert needs("values") == 704


def test_a_choice_that_is_varied_costs_the_steps_that_it_changes():
    """Random tokens of an earlier place: mutations; values of one length: also compositions; other memories: these."""
    plan = costs.steps(parse(config(sensitivity={"choices": "controls"})), shape(), WIKITEXT, SPEED)
    works = {step.rule: step.jobs * (step.seconds - SPEED.start) for step in plan}
    assert works["sensitivity_part"] == pytest.approx(works["mutations"] + works["values"] + 2 * works["composition"])


def test_the_plans_constants_are_those_of_the_modules_that_it_does_not_load():
    """They load torch, and Snakemake asks for every job's memory."""
    of = sections.modules("ff_memories.paper.*.costs")
    assert (of["values"].TILE, of["beyond"].POOL, costs.HELD) == (values.TILE, survey.POOL, coefficient_sample.HELD)
    assert (promoted.LOGITS, len(causal.CONTROLS)) == (costs.LOGITS, of["beyond"].CONTROLS)
    assert costs.SENTENCES == perplexity.SENTENCES
    assert (costs.OF_UNTRAINED, costs.PASSED) == (perplexity.OF_UNTRAINED, perplexity.PASSED)


def test_the_trigger_pass_costs_what_its_tokens_cost():
    shards = next(step for step in paper_plan() if step.rule == "trigger_shard")
    assert shards.seconds == pytest.approx(SPEED.start + 103_227_021 / 64 * 16e-5)


def test_what_does_not_fit_is_named():
    plan = paper_plan()
    assert costs.unfit(plan, 64e9, 1e12, 40e9) == []
    assert any(line.startswith("trigger_shard: needs about") for line in costs.unfit(plan, 4e9, 1e12))
    assert "of disk space" in costs.unfit(plan, 64e9, 1e9)[0]
    assert all("GPU" in line for line in costs.unfit(plan, 64e9, 1e12, 2e9))


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path, words(44))

    def write(**changes):
        (tmp_path / "my.yaml").write_text(yaml.safe_dump(config(**changes)))

    return write


def run(*arguments):
    return ended("plan", "--configfile", "my.yaml", *arguments)


@pytest.mark.more
def test_sizes_are_those_of_the_converted_model_and_of_the_sentences_that_are_read(small, capsys, tmp_path):
    small(corpus__train__max_sentences=3)
    assert run() == 0
    assert f"3 layers of 24 keys, 48 types, {3 * SENTENCE} + " in capsys.readouterr().out
    described = tmp_path / "results/small/model/model.json"
    described.parent.mkdir(parents=True)
    described.write_text(json.dumps(DESCRIBED))
    assert run() == 0
    assert "5 layers of 7 keys" in capsys.readouterr().out
    small(execution__batch_tokens=10**11)
    assert run() == 2
    said = capsys.readouterr().err
    assert "this run does not fit" in said and "lower execution.batch_tokens" in said


def test_the_papers_run_is_planned_before_anything_is_downloaded(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(planner, "measured", lambda *given: SPEED)
    (tmp_path / "my.yaml").write_text((ROOT / "config/paper.yaml").read_text())
    run()  # whether it fits depends on where this is
    shown = capsys.readouterr().out
    assert "16 layers of 4,096 keys, 267,744 types, 103,227,021 + 217,646 tokens" in shown
    assert float(re.search(r"^fetch .* ([\d.]+) GB *$", shown, re.MULTILINE)[1]) > 2


def test_every_steps_time_memory_and_disk_are_stated_and_beside_them_what_was_measured_before(small, capsys, tmp_path):
    small()
    logs = tmp_path / "results/small/logs"
    logs.mkdir(parents=True)
    cost = {"seconds": 61.0, "processor_seconds": 60.0, "peak_mib": 953.7}
    (logs / "values.log").write_text(f"{SPENT}{json.dumps(cost)}\n")
    assert run("--devices", "1", "2") == 0
    shown = capsys.readouterr().out
    for word in ("tokens/s on cpu", "trigger_shard", "composition", "1 min 01 s, 1.0 GB", "total on   2 devices: "):
        assert word in shown


@pytest.mark.more
@pytest.mark.parametrize("kind", ["portable", "fast"])
def test_a_plan_measures_with_the_runs_arithmetic(kind, monkeypatch):
    """In a process of its own, which says what is wrong where it can't."""
    started = Mock(wraps=subprocess.run)
    monkeypatch.setattr(subprocess, "run", started)
    execution = load(ROOT / "config/config.yaml").execution
    execution = execution.model_copy(update={"arithmetic": kind, "batch_tokens": 64})
    small = Shape(2, 16, 24, 2, 48, 12, 9999)
    found = speed.measured(small, "cpu", execution, 1, "bfloat16")
    assert min(found.layer, found.logit) > 0
    assert started.call_args.kwargs["env"][arithmetic.CHOSEN] == arithmetic.environment(kind)[arithmetic.CHOSEN]
    with pytest.raises(UserError, match="which only GPUs compute in"):
        speed.measured(small, "cpu", execution, 1, "tf32")

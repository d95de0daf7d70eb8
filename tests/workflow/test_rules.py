"""What rules pass to their steps."""

import json
from types import SimpleNamespace

import pytest
from pipeline import config

from ff_memories.base.errors import UserError
from ff_memories.config import Settings
from ff_memories.config.sections import CHANGED_MEMORIES, MUTATED_TRIGGERS
from ff_memories.workflow.rules import step_params
from ff_memories.workflow.run import Run

OWN, UNTRAINED = SimpleNamespace(model=""), SimpleNamespace(model="models/untrained-1/")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Run(config(mutations__top=40, triggers__top=50))


def test_a_rule_that_does_not_pass_a_section_which_its_step_reads_is_an_error(run):
    with pytest.raises(UserError, match="the rule of the step mutations does not pass extraction, mutations"):
        step_params(run, "mutations", "seed")
    assert step_params(run, "mutations", "seed mutations extraction")
    with pytest.raises(UserError, match="valuse: no such step"):
        step_params(run, "valuse")
    some = Run(config(triggers__keys=5))
    with pytest.raises(UserError, match="mutations does not pass triggers"):
        step_params(some, "mutations", "seed mutations extraction")
    assert step_params(some, "mutations", "seed mutations extraction triggers")


def test_a_key_that_a_rule_leaves_out_makes_nothing_due_and_its_step_cannot_read_it(run, monkeypatch):
    monkeypatch.setenv("FF_MEMORIES_IN_LOG", "1")
    other, keys = Run(config(mutations__mean="of_sums")), "seed mutations -mutations.mean extraction"
    one, same = (step_params(of, "mutations", keys)["config"] for of in (Run(config()), other))
    assert one(OWN) == same(OWN) and one(OWN) != step_params(run, "mutations", keys)["config"](OWN)
    assert {"mutations.top", "mutations.mean"} & {*one.watched("")} == {"mutations.top"}
    with pytest.raises(UserError, match="this step reads mean of the config, which its rule does not declare"):
        assert Settings.from_argument(one(OWN)).mutations.mean


def test_a_model_of_the_baselines_has_their_sizes_of_samples(run):
    passed = step_params(run, "interventions", "seed causal removals values extraction mutations triggers")["config"]
    own, other = (json.loads(passed(wildcards)) for wildcards in (OWN, UNTRAINED))
    assert (own["mutations"]["top"], other["mutations"]["top"]) == (40, MUTATED_TRIGGERS)
    assert other["causal"]["keys_per_layer"] == CHANGED_MEMORIES < own["causal"]["keys_per_layer"]
    assert own["values"] == other["values"] and own["triggers"] == other["triggers"]


def test_a_section_that_is_given_its_defaults_changes_no_param_but_dvc_watches_it(run):
    given = config()
    given["gallery"] = {"tokens": run.config.gallery.tokens}
    without = {key: value for key, value in given.items() if key != "gallery"}
    one, other = (step_params(Run(settings), "gallery_tables", "values extraction seed triggers gallery.tokens gallery")
                  for settings in (given, without))  # fmt: skip
    assert {key: value(OWN) for key, value in one.items()} == {key: value(OWN) for key, value in other.items()}
    assert {*one["config"].watched("")} - {*other["config"].watched("")} == {"gallery", "gallery.tokens"}

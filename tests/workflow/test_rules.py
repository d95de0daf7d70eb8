"""What rules pass to their steps."""

import ast
import json
import re
from types import SimpleNamespace

import pytest
from pipeline import config
from running import ROOT

from ff_memories import declaration
from ff_memories.config.running import CHANGED_MEMORIES, MUTATED_TRIGGERS
from ff_memories.workflow.jobs import workflow
from ff_memories.workflow.rules import step_params
from ff_memories.workflow.runs.run import Run

OWN, UNTRAINED = SimpleNamespace(model=""), SimpleNamespace(model="models/untrained-1/")


def read_by(step):
    """Return the config's sections that a step's module reads as ``config.SECTION``."""
    behind = {"precision": "extraction", "looked_at": "triggers"}
    nodes = ast.walk(ast.parse(declaration.module(step).read_text(encoding="utf-8")))
    read = (node for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "config")
    return {behind.get(node.attr, node.attr) for node in read}


@pytest.mark.parametrize("name, of_all", [("config", {"triggers"}), ("qwen", set())])
def test_a_rule_passes_every_section_that_its_step_reads(monkeypatch, name, of_all):
    """Else the section would silently have its defaults; `triggers.keys` may be left out where it is its default."""
    monkeypatch.chdir(ROOT)
    with workflow(Run.read(f"config/{name}.yaml"), forceall=True) as read:
        rules = {rule.name: (rule.shellcmd, dict(rule.params.items())) for rule in read.rules if rule.shellcmd}
    seen = {}
    for rule, (command, params) in rules.items():
        if "config" in params and (step := re.match(r"ff-memories step ([\w-]+)", command)):
            seen[rule] = read_by(step[1]) - json.loads(params["config"](OWN)).keys() - of_all
    assert len(seen) > 20 and not {rule: lacking for rule, lacking in seen.items() if lacking}


def test_a_model_of_the_baselines_has_their_sizes_of_samples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Run(config(mutations__top=40, triggers__top=50))
    passed = step_params(run, "interventions", "seed causal removals values extraction mutations triggers")["config"]
    own, other = (json.loads(passed(wildcards)) for wildcards in (OWN, UNTRAINED))
    assert (own["mutations"]["top"], other["mutations"]["top"]) == (40, MUTATED_TRIGGERS)
    assert other["causal"]["keys_per_layer"] == CHANGED_MEMORIES < own["causal"]["keys_per_layer"]
    assert own["values"] == other["values"] and own["triggers"] == other["triggers"]

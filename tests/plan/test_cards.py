"""A plan for a GPU that is not here: its products' floor at the card's rate, times what was measured over it."""

import re
from dataclasses import replace

import pytest
from pipeline import config
from refusing import ended
from running import ROOT

from ff_memories.config import parse
from ff_memories.inputs import registry
from ff_memories.plan import costs, planner
from ff_memories.plan import speed as cards
from ff_memories.plan.costs import Shape, Speed, Text

PAPER = Shape(**registry.source("adaptive_lm_wiki103.v2").shape)
GATED = Shape(12, 768, 2 * 3072, 12, 50_000, 50_000, 200_000_000, signs=2, matrices=3)
TEXT = Text(1_000_000, 50_000)


def plan(card, shape, precision="float32"):
    given = parse(config(execution__shards=1, corpus__train__max_sentences=None))
    speed = cards.cards()[card].speed(shape, precision)
    return {step.rule: step for step in costs.steps(given, shape, TEXT, speed, golden=480)}


def share(step, matrices, precision="float32"):
    asked = (step, matrices, precision)
    return next(s.over for s in cards.shares() if (s.step, s.matrices, s.precision) == asked)


def start():
    return cards._table()["start"]["seconds"]


@pytest.mark.parametrize("shape, layer", [(PAPER, 4 * 1024**2 + 2 * 1024 * 4096), (GATED, 4 * 768**2 + 3 * 768 * 3072)])
def test_a_measured_steps_time_is_its_operations_over_the_rate_times_its_share_and_a_start(shape, layer):
    rate = 1e12 * cards.cards()["h100"].measured["float32"]
    operations = 2 * TEXT.train * shape.layers * layer
    expected = operations / rate * share("trigger_shard", shape.matrices) + start()
    assert plan("h100", shape)["trigger_shard"].seconds == pytest.approx(expected)


def test_a_card_without_measurements_reaches_the_measured_cards_share_of_its_datasheet_and_moves_memory_slower():
    known, other = cards.cards()["h100"], cards.cards()["a100"]
    rate = 1e12 * other.bfloat16 * known.measured["bfloat16"] / known.bfloat16
    floor, there = (2 * TEXT.train * 16 * 12 * 1024**2 / r for r in (rate, 1e12 * known.measured["bfloat16"]))
    rest = (share("trigger_shard", 2, "bfloat16") - 1) * there * known.bandwidth / other.bandwidth
    assert plan("a100", PAPER, "bfloat16")["trigger_shard"].seconds == pytest.approx(floor + rest + start())


def test_every_step_that_runs_the_model_has_a_share_of_a_known_card():
    given = parse(config())
    works = [*costs.of_a_model(given, PAPER, TEXT, 1).values(), costs.of_gallery(given, PAPER, TEXT)]
    for matrices in (2, 3):
        over = cards.cards()["l4"].speed(replace(PAPER, matrices=matrices), "tf32").over
        assert {work.like for work in works} == set(over)
    assert {s.card for s in cards.shares()} <= set(cards.cards())
    assert all(s.date and s.origin and s.over >= 1 for s in cards.shares())


def test_docs_cluster_md_says_what_the_plan_says(tmp_path, monkeypatch, capsys):
    """On a machine that is slow without a GPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(planner, "measured", lambda *given: Speed(layer=1e-2, logit=1e-11))
    (tmp_path / "my.yaml").write_text((ROOT / "config/paper.yaml").read_text())
    page = (ROOT / "docs/cluster.md").read_text()
    assert ended("plan", "--configfile", "my.yaml", "--on", "h100") == 0
    line = r"about (\d+) min .* on one NVIDIA H100 .*; (\d+) min \d\d s of measured steps, (\d+) min \d\d s computed"
    said, quoted = re.search(line, capsys.readouterr().out), re.search(line, page)
    assert said and quoted and quoted[0] == said[0]

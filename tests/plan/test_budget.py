"""Sizes of samples that let a run end in a given time."""

import re
from operator import attrgetter

import pytest
from pipeline import config

from ff_memories.base.errors import UserError
from ff_memories.config import parse
from ff_memories.judge.register import register
from ff_memories.plan import planner
from ff_memories.plan.costs import Shape, Speed, Text

SPEED = Speed(layer=2e-5, logit=2e-10, read=4e-9)


def planned(train=3_000_000):
    shape = Shape(layers=12, model=768, keys=2 * 3072, vocab=50_000, head=50_000, parameters=124_000_000, heads=12,
                  signs=2)  # fmt: skip
    return planner.Planner("cpu", shape, SPEED, Text(train, 100_000, 25))


def data():
    made = config()
    made["corpus"]["train"]["max_sentences"] = None
    made["gallery"] = {"keys": None}
    made["baselines"] = {"models": 3, "sentences": 2000, "keys_per_layer": 10, "examples": 500}
    return made


@pytest.mark.parametrize("share", [0.9, 0.8, 0.65])
def test_the_run_ends_in_the_time_and_no_earlier_than_it_must(share):
    plan, made = planned(), data()
    wanted = share * plan.elapsed(parse(made))
    said = planner.fit(made, plan, wanted, "my.yaml")
    assert 0.8 * planner.ROOM * wanted < plan.elapsed(parse(made)) <= planner.ROOM * wanted
    for line in said[1:]:
        key, size = re.match(r"  ([\w.]+): ([\d,]+) instead", line).groups()
        section, _, name = key.rpartition(".")
        assert attrgetter(section)(parse(made)).model_dump()[name] == int(size.replace(",", "")), line
    assert any("is known to about ±" in line for line in said)


def test_every_claim_but_one_stands_behind_a_width():
    named = re.findall(r"\b[KB]\d+", "\n".join(planner.widths(parse(data()), planned())))
    assert sorted(named) == sorted(claim.id for claim in register() if claim.resampled != "compositions")


def test_nothing_is_cut_where_there_is_time_and_too_little_time_is_refused():
    plan, made = planned(), data()
    known = data()
    assert "nothing was cut" in planner.fit(made, plan, 1e9, "my.yaml")[0] and made == known
    with pytest.raises(UserError, match="with the smallest samples") as found:
        planner.fit(made, plan, 60, "my.yaml")
    assert made == known
    (minutes,) = re.findall(r"fix: allow --time (\d+)m or more", str(found.value))
    assert planner.fit(made, plan, 60 * int(minutes), "my.yaml") and made != known


def test_sizes_of_the_protocol_and_chosen_memories_stay(tmp_path):
    plan, made = planned(), data()
    made["triggers"]["keys"] = {1: [0, 5], 2: [7]}
    (tmp_path / "shared.yaml").write_text(f"composition: {{examples: {made['composition'].pop('examples')}}}")
    made["protocol"] = str(tmp_path / "shared.yaml")
    said = planner.fit(made, plan, 0.6 * plan.elapsed(parse(made)), "my.yaml")
    assert len(said) > 1 and "examples" not in made["composition"] and not any(" composition." in line for line in said)
    assert made["triggers"]["keys"] == {1: [0, 5], 2: [7]}

"""Which group a claim is in, on simulated networks: random ones judged as runs, and runs that show what is claimed."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from ff_memories.judge import verdicts
from ff_memories.judge.evidence import Evidence
from ff_memories.judge.register import register
from ff_memories.paper import baselines

LAYERS, VOCAB, RANDOM, TRIALS = 6, 300, 5, 200
CLAIMS = {claim.id: claim for claim in register()}
FLAT = np.zeros(LAYERS)
times = lambda rng, between: np.exp(between * rng.standard_normal())  # what networks differ in, relative to the median


def mutations(rng, last=FLAT, random=0.0, between=0.0, keys=60):
    """Return keys whose changes spread by 0.3 around those of their layer (``last``) or of all layers."""
    layer, key = (axis.ravel() for axis in np.indices((LAYERS, keys)))
    parts = []
    for name, removed, change in (("last", 9, np.asarray(last)[layer]), ("random", 4, random), ("first", 1, 0.0)):
        changes = change * times(rng, between) + 0.3 * rng.standard_normal(len(layer))
        rows = {"layer": layer + 1, "key": key, "rank": 1, "mutation": name, "removed": removed, "coefficient": 1.0,
                "change": changes}  # fmt: skip
        parts.append(pl.DataFrame(rows))
    return {"mutations": pl.concat(parts)}


def values(rng, agree=FLAT, sure=0.0, deep=0.0, rank=FLAT + 1, follow=0.0, between=0.0, keys=1000):
    """Return values that predict common and rare tokens.

    Args:
        agree: (layers,) share that predict what follows their key, besides those that do by chance.
        sure, deep: how much the log of the top probability rises if a value agrees, and from layer to layer.
        rank: (layers,) of the next token, as a share of what is drawn at random.
        follow: share of the other four triggers that the 100 most probable values agree with.
    """
    layer, key = (axis.ravel() for axis in np.indices((LAYERS, keys)))
    frequency = 1 / (100 + np.arange(VOCAB))
    wanted, other = rng.choice(VOCAB, (2, len(layer)), p=frequency / frequency.sum())
    top = np.where(rng.random(len(layer)) < np.asarray(agree)[layer] * times(rng, between), wanted, other)
    log = 0.5 * rng.standard_normal(len(layer)) - 12 + sure * (top == wanted) + deep * times(rng, between) * layer
    best = log >= np.sort(log)[-100]
    more = rng.binomial(4, np.where(best, np.minimum(1, follow * times(rng, between)), 0.001))
    ranks = 1 + rng.random(len(layer)) * (VOCAB - 1) * np.minimum(1, np.asarray(rank)[layer] * times(rng, between))
    return {"values": pl.DataFrame({
        "layer": layer + 1, "key": key, "top_token": top, "next_token": wanted, "agrees": top == wanted,
        "top_probability": np.exp(log), "next_token_rank": np.where(top == wanted, 0, ranks).astype(int),
        "agreeing_triggers": (top == wanted) + more, "triggers": 5,
    })}  # fmt: skip


def refinement(rng, settled=FLAT + 0.1, sure=FLAT, kept=0.5, own=0.5, third=0.5, between=0.0, examples=200):
    """Return examples, some of which are settled and kept more often than others, in all layers.

    Args:
        settled, sure: (layers,) share of examples whose residual predicts the output, and its probability.
        kept, own, third: share of predictions that stay, of those that only the residual has, of those that change
            and become a third token.
    """
    example, layer = (axis.ravel() for axis in np.indices((examples, LAYERS)))
    luck = 0.05 * rng.standard_normal(examples)[example]
    chance = [np.asarray(share) + between * rng.standard_normal() for share in (settled, kept, own, third)]
    often = lambda share: rng.random(len(example)) < share + luck
    stays = np.where(often(chance[2]), "residual", "agreement")
    kind = np.where(often(chance[1]), stays, np.where(often(chance[3]), "composition", "ffn"))
    return {"refinement": pl.DataFrame({
        "example": example, "layer": layer + 1, "kind": kind, "model_top": 1,
        "residual_top": np.where(often(chance[0][layer]), 1, 2),
        "residual_probability": np.clip(np.asarray(sure)[layer] + 0.2 + luck, 0, 1),
    })}  # fmt: skip


# a generator, the claims that rest on its table, what it makes if they are true, and random networks that differ and
# nearly show them: the hardest case
FAMILIES: dict[str, tuple[Callable[..., Any], list[str], dict[str, Any], dict[str, Any]]] = {
    "mutations": (
        mutations, ["K1", "K2", "K3", "K4", "K5"],
        {"last": (-0.95, -0.93, -0.9, -0.7, -0.65, -0.6), "random": -0.3},
        {"last": FLAT - 0.5, "random": -0.15, "between": 0.1},
    ),
    "values": (
        values, ["K11", "K12", "K13", "K14", "K15", "K16", "K17"],
        {"agree": (0, 0, 0, 0.035, 0.035, 0.035), "sure": 0.7, "deep": 0.8, "rank": (1, 1, 1, 1, 0.1, 0.1),
         "follow": 0.09},
        {"agree": FLAT + 0.008, "sure": 0.3, "deep": 0.35, "rank": (1, 1, 1, 1, 0.2, 0.2), "follow": 0.09,
         "between": 0.5},
    ),
    "refinement": (
        refinement, ["K23", "K24", "K25", "K26", "K27", "K28", "K31"],
        {"settled": (0.32, 0.32, 0.32, 0.5, 0.7, 0.98), "sure": (0, 0, 0, 0.2, 0.4, 0.6), "kept": 0.85, "own": 0.9,
         "third": 0.95},
        {"settled": (0.16, 0.16, 0.2, 0.3, 0.5, 0.87), "kept": 0.67, "own": 0.6, "third": 0.72, "between": 0.05},
    ),
}  # fmt: skip


@pytest.fixture
def found(monkeypatch) -> Callable[..., list[dict[str, str]]]:
    """Return a function that judges runs: the group of each claim in each; a table is measured only once."""
    known, measure = {}, verdicts.measure

    def once(claim, evidence):
        key = claim.id, id(evidence.tables)
        if key not in known:
            known[key] = evidence.tables, measure(claim, evidence)  # the tables, so that no other has their id
        return known[key][1]

    monkeypatch.setattr(verdicts, "measure", once)
    monkeypatch.setattr(baselines, "measure", once)

    def groups(claims, runs):
        made = []
        for run, untrained in runs:
            of, evidence = [CLAIMS[claim] for claim in claims], Evidence(run, LAYERS, 1000, VOCAB)
            models = [("same_sample", run), *(("untrained", one) for one in untrained)]
            models.append(("together", baselines.together(untrained)))
            judged = verdicts.verdicts(of, evidence, "surrogate", baselines.table(of, evidence, models))
            made.append(dict(judged.select("claim", "group").iter_rows()))
        return made

    return groups


def each_against_others(networks, others=RANDOM):
    """Return every network with the next ``others``, after the last one from the first on."""
    return [(networks[n], [networks[(n + k) % len(networks)] for k in range(1, others + 1)])
            for n in range(len(networks))]  # fmt: skip


def signals(made):
    return Counter(claim for groups in made for claim, group in groups.items() if group == "signal")


@pytest.mark.more
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_random_network_is_seldom_said_to_show_what_others_do_not(family, hard, found):
    make, claims, _, nearly = FAMILIES[family]
    networks = [make(np.random.default_rng([1, n]), **nearly if hard else {}) for n in range(TRIALS)]
    wrong = signals(found([*claims, "K10"] if make is values else claims, each_against_others(networks)))
    assert max(wrong.values(), default=0) <= 0.05 * TRIALS, wrong


@pytest.mark.parametrize("family", ["mutations", "refinement", pytest.param("values", marks=pytest.mark.more)])
def test_what_a_run_alone_shows_is_nearly_always_found(family, found):
    make, claims, effect, _ = FAMILIES[family]
    runs = [make(np.random.default_rng([2, n]), **effect) for n in range(20)]
    networks = [[make(np.random.default_rng([3, n, k])) for k in range(RANDOM)] for n in range(len(runs))]
    right = signals(found(claims, zip(runs, networks, strict=True)))
    assert set(right) == set(claims) and min(right.values()) >= 0.8 * len(runs), right


def test_lower_layers_that_never_agree_though_those_of_random_networks_do_are_found(found):
    networks = [values(np.random.default_rng([4, n]), agree=FLAT + 0.02) for n in range(RANDOM)]
    never = values(np.random.default_rng(5))["values"].with_columns(agrees=pl.lit(False))
    assert signals(found(["K10"], [({"values": never}, networks)]))["K10"] == 1


def test_of_fifty_sentences_too_few_are_judged_and_without_random_networks_none_is_signal(found):
    _, claims, effect, _ = FAMILIES["refinement"]
    few, enough = (refinement(np.random.default_rng(7), **effect, examples=n) for n in (50, 200))
    both = found(claims, [(few, [few] * RANDOM), (enough, [])])
    assert {group for groups in both for group in groups.values()} == {"open"}


@pytest.mark.parametrize("family", FAMILIES)
def test_of_ten_random_networks_each_shows_at_most_one_claim_that_the_others_do_not(family, found):
    make, claims, _, nearly = FAMILIES[family]
    networks = [make(np.random.default_rng([6, n]), **nearly) for n in range(10)]
    assert all(signals([groups]).total() <= 1 for groups in found(claims, each_against_others(networks, 9)))

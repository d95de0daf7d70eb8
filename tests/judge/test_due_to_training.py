"""Is a number due to training? Against untrained models on the same sentences, on simulated numbers."""

import numpy as np
import pytest

from ff_memories.base import sections
from ff_memories.judge import training
from ff_memories.judge.measurement import Limit
from ff_memories.judge.register import _claim, register

CLAIMS = {claim.id: claim for claim in register()}
SHARE, FACTOR, CONSTRUCTED = CLAIMS["K16"], CLAIMS["K12"], CLAIMS["K29"]


def of_models(numbers, error=0.0):
    own = np.asarray(numbers, float)
    return {"measured": own.mean(), "deviation": own.std(ddof=1) if len(own) > 1 else None, "error": error,
            "runs": len(own)}  # fmt: skip


def of_run(number, error=0.0):
    return {"measured": number, "low": number - 1.96 * error, "high": number + 1.96 * error, "error": error}


def compared(claim, sample, untrained, **others):
    every = {"same_sample": sample, "untrained": untrained} | others
    return training.compared(claim, {(claim.id, name): row for name, row in every.items() if row is not None})


def said(sample, untrained, claim=SHARE, others=0):
    rows = [compared(claim, sample, untrained) for _ in range(1 + others)]
    training.decide(rows)
    return rows[0]


def test_one_more_untrained_models_number_lies_in_the_prediction_interval_at_its_rate():
    rng, inside, trials = np.random.default_rng(1), 0, 2000
    for _ in range(trials):
        *three, one_more = 0.5 + 0.05 * rng.standard_normal(4)
        row = compared(SHARE, None, of_models(three))
        inside += row["baseline_low"] <= one_more <= row["baseline_high"]
    assert inside / trials == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize("models", [3, 5, 10])
def test_without_an_effect_a_verdict_says_one_at_its_rate_and_with_one_it_finds_it(models):
    """Whether models or sentences vary more. A bare range of three models would be wrong half of the time."""
    rng, trials = np.random.default_rng(models), 600
    for between, within in ((0.03, 0.01), (0.01, 0.03)):
        wrong = found = 0
        for _ in range(trials):
            every = 0.4 + np.hypot(between, within) * rng.standard_normal(models)
            run = 0.4 + np.hypot(between, within) * rng.standard_normal()
            wrong += said(of_run(run, within), of_models(every, within))["training"] in ("higher", "lower")
            found += said(of_run(run + 0.5, within), of_models(every, within))["training"] == "higher"
        assert wrong / trials <= 0.08 and found / trials >= 0.8


def test_answers_are_higher_lower_same_or_undecided():
    three = of_models([0.40, 0.41, 0.39], 0.005)
    assert said(of_run(0.9, 0.01), three)["training"] == "higher"
    assert said(of_run(0.02, 0.01), three)["training"] == "lower"
    assert said(of_run(0.402, 0.001), of_models([0.40, 0.401, 0.399], 0.001))["training"] == "same"
    assert said(of_run(0.44, 0.02), three)["training"] == "undecided"
    assert said(of_run(1.0), of_models([1.0, 1.0, 1.0]))["training"] == "same"


def test_what_is_not_measured_has_no_answer():
    none = {"measured": None, "low": None, "high": None, "error": None, "deviation": None, "runs": 0}
    for sample, untrained in ((None, of_models([1, 2, 3])), (of_run(1), None), (of_run(1), none), (none, none),
                              (of_run(1), of_models([1]))):  # fmt: skip
        row = said(sample, untrained)
        assert row["training"] is row["p_training"] is None
    assert said(of_run(0.3, 0.1), None)["sample"] == 0.3


def test_models_that_are_all_alike_still_have_their_sampling_error():
    """Three models without a single agreeing value do not show that no untrained model has one."""
    row = said(of_run(0.01, 0.004), of_models([0.0, 0.0, 0.0], 0.004))
    assert row["baseline_low"] == 0 < row["baseline_high"] and row["training"] != "higher"


def test_untrained_models_with_one_number_do_not_prove_that_every_other_model_has_it():
    """The layer with the fewest active memories is a whole number, and three models often share it."""
    for error in (0.0, 0.2):
        row = said(of_run(5, error), of_models([10, 10, 10]), CLAIMS["K19"])
        assert (row["training"], row["p_training"]) == ("undecided", 0.25)
    row = said(of_run(5), of_models([2, 9, 16]), CLAIMS["K19"])
    assert row["baseline_low"] == 1  # no layer is below the first


def test_a_factor_is_compared_relative_to_the_untrained_models():
    assert said(of_run(101, 1), of_models([100, 100.5, 99.5], 0.5), FACTOR)["training"] == "same"
    assert said(of_run(1.01, 0.001), of_models([0.2, 0.201, 0.199], 0.001), FACTOR)["training"] == "higher"


def test_the_shuffled_models_number_stands_beside_and_decides_nothing():
    without = compared(SHARE, of_run(0.9, 0.01), of_models([0.40, 0.41, 0.39], 0.005))
    beside = compared(SHARE, of_run(0.9, 0.01), of_models([0.40, 0.41, 0.39], 0.005), shuffled={"measured": 0.7})
    assert without["shuffled"] is None and beside == without | {"shuffled": 0.7}


def grouped(shows="yes", models=5, holding=0, sample=0.9, same=1, claim=SHARE, numbers=True, shuffled=None, **together):
    """Return the group and why it is open, with as many untrained models, whose numbers are 0.40, 0.41, ..."""
    untrained = of_models(0.4 + 0.01 * np.arange(max(models, 1))) | {"models": models, "holding": holding}
    own = of_run(sample, 0.01) | {"models": 1, "holding": same}
    every = {(claim.id, "same_sample"): own, (claim.id, "untrained"): untrained} if models else {}
    every |= {(claim.id, "shuffled"): shuffled}
    if not numbers:
        untrained |= {"measured": None}
    if together:
        every |= {(claim.id, "together"): {"measured": 0.41, "error": 0.02, "holding": 0} | together}
    columns, why = training.groups(claim, shows, Limit(15.0), every)
    assert columns["random_models"] == (models or None) and columns["also_random"] == (holding if models else None)
    return columns["group"], why


def test_what_a_run_shows_is_signal_only_if_three_random_networks_and_one_more_would_not():
    assert grouped() == grouped(models=3) == grouped(models=10, holding=1) == ("signal", "")
    assert grouped(holding=1) == grouped(models=10, holding=2) == grouped(models=1, holding=1) == ("common", "")
    assert grouped(models=0) == ("open", "no random networks were measured")
    assert grouped(models=2) == ("open", "random networks: 2, and 3 are needed")
    assert grouped(models=1) == ("open", "random networks: 1, and 3 are needed")
    assert grouped(same=0) == ("open", "it is not seen on the random networks' sentences")
    assert grouped(sample=0.45) == ("open", "one more random network could have this number")


def test_random_networks_that_are_too_small_alone_are_judged_together():
    layers = CLAIMS["K2"]
    assert grouped(claim=layers, holding=0) == grouped(claim=layers, judged=14.0) == ("signal", "")
    assert grouped(claim=layers, judged=16.0)[0] == grouped(claim=layers, judged=14.0, judged_high=16.0)[0] == "open"
    few, half, most = (
        grouped(shuffled={"measured": 0.7, "models": n, "holding": of}) for n, of in ((4, 4), (6, 3), (5, 3))
    )
    assert (few, half, most[0]) == (("signal", ""), ("signal", ""), "open")
    assert grouped(numbers=False) == ("open", "no random network has such a number")
    assert grouped(numbers=False, judged=0.4) == ("signal", "")
    for error in (0.1, None):  # one of five has √5 times the error of all together
        assert grouped(numbers=False, judged=0.4, error=error) == (
            "open",
            "one more random network could have this number",
        )


def test_models_with_too_few_rows_each_have_the_interval_for_one_more_of_all_together():
    rng, inside, trials = np.random.default_rng(1), 0, 2000
    for _ in range(trials):
        *five, one_more = 0.5 + 0.1 * rng.standard_normal(6)
        alone = of_models(five) | {"measured": None, "runs": 0, "models": 5}
        row = compared(SHARE, None, alone, together={"measured": float(np.mean(five)), "error": 0.1 / 5**0.5})
        inside += row["baseline_low"] <= one_more <= row["baseline_high"]
    assert inside / trials >= 0.95


def test_what_a_run_does_not_show_needs_no_random_network():
    for models in (0, 1, 5):
        assert [grouped(shows, models)[0] for shows in ("no", "too_small", "undecided", None)] == [
            "absent", "absent", "open", None]  # fmt: skip
        assert grouped(models=models, claim=CONSTRUCTED)[0] is None


@pytest.mark.parametrize("more, said", [
    ({"limit": {"at_leats": 1}}, "at_leats"), ({"directional": True}, "directional"),
])  # fmt: skip
def test_an_entry_of_claims_that_makes_no_sense_is_refused_by_name(more, said):
    first, *_ = sections.declared("ff_memories.paper.*.claims.toml")["beyond"]["claim"]
    with pytest.raises(TypeError, match=said):
        _claim("beyond", first | more)

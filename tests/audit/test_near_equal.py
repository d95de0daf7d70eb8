"""The limits within which a recomputed number equals a recorded one."""

from dataclasses import replace

import pytest
import torch

from ff_memories.audit.near_equal import DIFFERS, MATCH, NEAR_TIE, Comparer, tolerances

NEAR = Comparer(tolerances("float32"))


def _scores(size: float) -> torch.Tensor:
    """Return 500 logits of about the given size, the best two of which are close."""
    scores = size * torch.rand(500, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scores[:2] = size + torch.tensor([0.5, 0.0])
    return scores


@pytest.mark.parametrize("size", [10.0, 1e4, 1e6])
def test_the_rounding_of_a_probability_is_no_difference_however_large_the_logits(size):
    exact = _scores(size).log_softmax(0)
    rounded = float(_scores(size).float().log_softmax(0)[0].exp())
    assert NEAR.probability("top_probability", rounded, exact, 0).state == MATCH


@pytest.mark.parametrize("size, wrong", [(10.0, 1.001), (1e4, 1.1)])
def test_a_probability_that_is_off_by_more_than_rounding_differs(size, wrong):
    exact = _scores(size).log_softmax(0)
    assert NEAR.probability("top_probability", wrong * float(exact[0].exp()), exact, 0).state == DIFFERS


def test_a_token_that_has_no_probability_leaves_the_limit_as_it_is():
    excluded = _scores(10.0).log_softmax(0)
    excluded[7] = -torch.inf
    assert NEAR.slack(excluded) == NEAR.limits.probability


@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0])
def test_a_change_and_ties_of_a_value_are_judged_by_the_size_of_the_logits(size):
    logits = size * torch.linspace(-1, 1, 500, dtype=torch.float64)
    change = 0.01 * size
    assert NEAR.shift("total", change * (1 + 1e-4), change, logits, logits).state == MATCH
    assert NEAR.shift("total", change + 4e-6 * size, change, logits, logits).state == MATCH
    assert NEAR.shift("total", change + 6e-6 * size, change, logits, logits).state == DIFFERS
    assert NEAR.narrow(logits) == pytest.approx(min(1e-4, 1e-5 * size))
    assert NEAR.narrow(torch.cat([logits, torch.tensor([-torch.inf])])) == NEAR.narrow(logits)


def test_a_flipped_sign_that_rounding_may_flip_is_a_near_tie_and_no_match():
    logits = torch.linspace(-1, 1, 500, dtype=torch.float64)
    assert NEAR.shift("total", 2e-6, 1e-6, logits, logits).state == MATCH
    for recorded, found in ((-2e-6, 1e-6), (0.0, 1e-6), (1e-6, 0.0)):
        assert NEAR.shift("total", recorded, found, logits, logits).state == NEAR_TIE
    assert NEAR.shift("total", 0.0, 0.0, logits, logits).state == MATCH
    assert NEAR.shift("total", -0.01, 0.01, logits, logits).state == DIFFERS


@pytest.mark.parametrize(
    "error, off, state", [(5e-4, 5.5e-4, MATCH), (5e-4, 7e-4, DIFFERS), (1.0, 0.0095, MATCH), (1.0, 0.011, DIFFERS)]
)
def test_a_rows_own_error_widens_the_limit_of_a_probability_up_to_a_hundred_times(error, off, state):
    near, log_p = replace(NEAR, errors=iter([error, error])), torch.tensor([0.5, 0.5]).log()
    assert near.probability("p", 0.5 * (1 + off), log_p, 0).state == state
    assert near.top("t", 0, log_p).state == MATCH, "it has the second error, though it needs none"
    assert near.probability("p", 0.5 * (1 + 2e-4), log_p, 0).state == DIFFERS, "the next number has the usual limit"

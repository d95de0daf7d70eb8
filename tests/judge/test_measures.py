"""Test bootstrap intervals against the distributions they sample."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from ff_memories.base.draws import interval


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.97])
def test_the_interval_of_a_share_is_the_binomials(share):
    n = 4000
    agrees = np.arange(n) < share * n
    low, high = interval(agrees, seed=1)
    spread = np.sqrt(share * (1 - share) / n)
    assert np.allclose([low, high], binom.ppf([0.025, 0.975], n, share) / n, atol=0.25 * spread)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_interval_of_a_mean_is_about_the_normals(weighted):
    values = np.random.default_rng(0).normal(3, 2, 2000)
    found = interval(values, 1, np.ones(2000) if weighted else None)
    wanted = norm.ppf([0.025, 0.975], values.mean(), values.std() / np.sqrt(2000))
    assert np.allclose(found, wanted, atol=0.25 * values.std() / np.sqrt(2000))


def test_equal_values_have_no_spread_and_no_values_no_interval():
    assert interval(np.full(40, 0.1), 1) == pytest.approx((0.1, 0.1)) and np.isnan(interval(np.empty(0), 1)).all()


def test_the_seed_decides():
    values = np.arange(50) % 2
    assert interval(values, 1) == interval(values, 1) != interval(values, 2)

"""Test which memories count as active by energy, against definitions written out."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ff_memories.paper.layers.composition import _active, effective_memories, fewest_with

ENERGIES = arrays(np.float32, (3, 7), elements=st.floats(0, 100, width=32))


@given(ENERGIES, st.sampled_from([0.5, 0.9, 1.0]))
def test_the_fewest_memories_have_the_share_and_one_less_would_not(energies, share):
    chosen = fewest_with(torch.from_numpy(energies), share).numpy()
    for e, own in zip(energies.astype(np.float64), chosen, strict=True):
        if not e.sum():
            assert not own.any()
            continue
        assert e[own].sum() >= share * e.sum() * (1 - 1e-12)
        assert e[own].sum() - e[own].min() < share * e.sum()
        assert not (~own).any() or e[own].min() >= e[~own].max()


def test_effective_memories_are_the_participation_ratio():
    found = effective_memories(torch.tensor([[1.0, 1, 1, 1], [5, 0, 0, 0], [0, 0, 0, 0], [3, 1, 0, 0]]))
    assert found.tolist() == pytest.approx([4, 1, 0, 16 / 10])


def test_active_memories_of_both_signs_are_told_apart():
    m = torch.tensor([[3.0, -2, 0, 0.1]])
    assert _active(m, m**2, "active", 1).tolist() == [[True, False, False, True]]
    assert _active(m, m**2, "active", 2).tolist() == [[True, False, False, True, False, True, False, False]]
    assert _active(m, m**2, "share:0.9", 2).tolist() == [[True, False, False, False, False, True, False, False]]
    assert _active(m, m**2, "share:0.9", 1).tolist() == [[True, False, False, False]]

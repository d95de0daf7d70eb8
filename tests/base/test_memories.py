"""Names of memories: a key, and a mark where its coefficients are negative."""

import pytest

from ff_memories.base import memories
from ff_memories.base.errors import UserError


@pytest.mark.parametrize(
    ("memory", "neurons", "name"), [(12, None, "12"), (12, 20, "12"), (32, 20, "12−"), (20, 20, "0−")]
)
def test_a_memory_is_named_by_its_key_and_never_by_its_place_among_both_signs(memory, neurons, name):
    assert memories.shown(memory, neurons) == name
    assert memories.folded(*memories.apart(memory, neurons), neurons) == memory
    assert memories.read(name) == memories.apart(memory, neurons)


def test_a_minus_may_be_typed():
    assert memories.read("12-") == (12, -1)
    for wrong in ("-12", "12--", "", "k"):
        with pytest.raises(UserError, match="not a key"):
            memories.read(wrong)

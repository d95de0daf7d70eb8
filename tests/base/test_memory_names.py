"""Names of memories: a key, and a mark where its coefficients are negative."""

import pytest

from ff_memories.base.errors import UserError
from ff_memories.base.text import key_and_sign, memory_name, memory_of, parse_memory


@pytest.mark.parametrize("memory, neurons, name", [(12, None, "12"), (12, 20, "12"), (32, 20, "12−"), (20, 20, "0−")])
def test_a_memory_is_named_by_its_key_and_never_by_its_place_among_both_signs(memory, neurons, name):
    assert memory_name(memory, neurons) == name
    assert memory_of(*key_and_sign(memory, neurons), neurons) == memory
    assert parse_memory(name) == key_and_sign(memory, neurons)


def test_a_minus_may_be_typed():
    assert parse_memory("12-") == (12, -1)
    for wrong in ("-12", "12--", "", "k"):
        with pytest.raises(UserError, match="not a key"):
            parse_memory(wrong)

"""Name a layer's memories for readers.

Where a model counts both signs of a coefficient, a layer of d_m keys has 2 d_m memories. In memory, memory ``d_m + i``
is key i with its coefficients' signs changed and the value -v_i. Readers see ``12−`` and never that number.
"""

import re

from ff_memories.base.errors import UserError

MINUS = "−"
_KEY = re.compile(rf"(\d+)([-{MINUS}]?)")


def apart(memory: int, neurons: int | None) -> tuple[int, int]:
    """Return a memory's key and sign; ``neurons``: d_m where both signs count, else ``None``."""
    return (memory, 1) if neurons is None or memory < neurons else (memory - neurons, -1)


def folded(key: int, sign: int, neurons: int | None) -> int:
    """Return the memory of a key and a sign, the inverse of ``apart``."""
    return key if sign > 0 or neurons is None else key + neurons


def shown(memory: int, neurons: int | None) -> str:
    """Return a memory as readers see it: ``12``, or ``12−`` for key 12's negative coefficients."""
    key, sign = apart(memory, neurons)
    return f"{key}{MINUS if sign < 0 else ''}"


def read(text: str) -> tuple[int, int]:
    """Return key and sign of ``12``, ``12-`` or ``12−``. Raises ``UserError`` for anything else."""
    found = _KEY.fullmatch(text.strip())
    if found is None:
        raise UserError(f"key {text!r}: not a key", "give a number, such as 12, or 12- for its negative coefficients")
    return int(found[1]), -1 if found[2] else 1

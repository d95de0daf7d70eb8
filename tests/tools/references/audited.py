"""One model's tables audited in this process, as `verify` audits those of all models."""

from collections.abc import Iterable

from ff_memories.audit.audit import LEFT_OUT, OWN, Finding, draw, judged
from ff_memories.audit.audit_inputs import AuditInputs
from ff_memories.audit.checks import ROWS
from ff_memories.audit.near_equal import DIFFERS, MATCH
from ff_memories.audit.sampling import Aim


def audit(inputs: AuditInputs, aim: Aim, only: Iterable[str] = (*ROWS, LEFT_OUT)) -> list[Finding]:
    """Recompute a random sample of tables in float64; with ``sentences`` in ``only``, look for missing triggers too.

    ``verify`` takes rows that match in float32 for sound, so none of them may differ.
    """
    works, found = draw(OWN, inputs.tables, inputs.corpus, inputs.config.triggers.positions, aim, only)
    rows = [row for work in works for row in work.rows]
    with inputs.oracle.in_float32():
        matching = {result[:2] for _, result in judged(inputs.in_float32, rows) if result[2].state == MATCH}
    for _, (what, where, result) in judged(inputs, rows):
        found[what].add(where, result)
        assert result.state != DIFFERS or (what, where) not in matching
    return list(found.values())

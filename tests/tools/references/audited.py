"""One model's tables audited in this process, as `verify` audits those of all models in several."""

from collections.abc import Iterable

from ff_memories.audit.audit import LEFT_OUT, OWN, Finding, draw, look
from ff_memories.audit.audit_inputs import AuditInputs
from ff_memories.audit.checks import ROWS
from ff_memories.audit.sampling import Aim


def audit(inputs: AuditInputs, aim: Aim, only: Iterable[str] = (*ROWS, LEFT_OUT)) -> list[Finding]:
    """Recompute a random sample of the tables in ``only``; with ``sentences``, look for missing triggers too."""
    works, sizes = draw(OWN, inputs.tables, inputs.corpus, inputs.config.triggers.positions, aim, only)
    found = {what: Finding(what, size) for what, size in sizes.items()}
    for work in works:
        for what, where, result in look(inputs, work.rows):
            found[what].add(where, result)
    return list(found.values())

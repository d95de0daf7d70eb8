"""One model's tables audited in this process, as `verify` audits those of all models."""

from collections.abc import Iterable
from dataclasses import replace

import torch

from ff_memories.audit.audit import LEFT_OUT, OWN, Finding, draw, look
from ff_memories.audit.audit_inputs import AuditInputs
from ff_memories.audit.checks import ROWS
from ff_memories.audit.sampling import Aim


def audit(inputs: AuditInputs, aim: Aim, only: Iterable[str] = (*ROWS, LEFT_OUT)) -> list[Finding]:
    """Recompute a random sample of the tables in ``only``; with ``sentences``, look for missing triggers too."""
    works, found = draw(OWN, inputs.tables, inputs.corpus, inputs.config.triggers.positions, aim, only)
    for what, where, result in look(inputs, [row for work in works for row in work.rows]):
        found[what].add(where, result)
    return list(found.values())


def recompute_in_float32(given: AuditInputs) -> None:
    """Recompute rows of every table in float32 too, by which their own error is measured, as no fault would stop it."""
    for name in (name for name in ROWS if name != "values"):
        for row in given.tables[name].gather_every(len(given.tables[name]) // 10 + 1).iter_rows(named=True):
            with torch.inference_mode(), given.oracle.in_float32():
                ROWS[name](replace(given), row)

"""One model's tables audited in this process, as `verify` audits those of all models."""

from collections.abc import Iterable
from dataclasses import replace

import torch

from ff_memories.audit.audit import LEFT_OUT, OWN, Finding, draw, judged, look
from ff_memories.audit.audit_inputs import AuditInputs
from ff_memories.audit.checks import ROWS
from ff_memories.audit.near_equal import DIFFERS
from ff_memories.audit.sampling import Aim


def audit(inputs: AuditInputs, aim: Aim, only: Iterable[str] = (*ROWS, LEFT_OUT)) -> list[Finding]:
    """Recompute a random sample of tables in float64; with ``sentences`` in ``only``, look for missing triggers too.

    ``verify`` looks at rows in float32 first, and must find the same ones that differ.
    """
    works, found = draw(OWN, inputs.tables, inputs.corpus, inputs.config.triggers.positions, aim, only)
    rows = [row for work in works for row in work.rows]
    exact = [result for _, result in judged(inputs, rows)]
    for what, where, result in exact:
        found[what].add(where, result)
    differing = lambda results: sorted((what, where) for what, where, result in results if result.state == DIFFERS)
    assert differing(look(inputs, rows)) == differing(exact)
    return list(found.values())


def recompute_in_float32(given: AuditInputs) -> None:
    """Recompute rows of every table in float32 too, by which their own error is measured, as no fault would stop it."""
    for name in (name for name in ROWS if name != "values"):
        for row in given.tables[name].gather_every(len(given.tables[name]) // 10 + 1).iter_rows(named=True):
            with torch.inference_mode(), given.oracle.in_float32():
                ROWS[name](replace(given), row)

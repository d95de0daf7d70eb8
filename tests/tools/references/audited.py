"""A small run's tables audited in this process, as `verify` audits those of all models."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from factories import words
from pipeline import config, run_steps, write_inputs

from ff_memories.audit.audit import LEFT_OUT, OWN, Finding, draw, judged
from ff_memories.audit.audit_inputs import AuditInputs
from ff_memories.audit.near_equal import DIFFERS, MATCH
from ff_memories.audit.recompute import ROWS
from ff_memories.audit.sampling import Aim
from ff_memories.corpus.store import available
from ff_memories.workflow.run import Run

TYPES = words(44)


def audit(inputs: AuditInputs, aim: Aim, only: Iterable[str] = (*ROWS, LEFT_OUT)) -> list[Finding]:
    """Recompute a random sample of tables in float64; with ``sentences`` in ``only``, look for missing triggers too.

    ``verify`` takes rows that match in float32 for sound, so none of them may differ.
    """
    numbers = np.flatnonzero(available(inputs.corpus, inputs.config.triggers.positions))
    frames = {name: inputs.tables.get(name, pl.DataFrame({"sentence": numbers})) for name in (*ROWS, LEFT_OUT)}
    works, found = draw(OWN, {name: frame for name, frame in frames.items() if name in only}, aim)
    rows = [row for work in works for row in work.rows]
    with inputs.oracle.in_float32():
        matching = {result[:2] for _, result in judged(replace(inputs, quick=True), rows) if result[2].state == MATCH}
    for _, (what, where, result) in judged(inputs, rows):
        found[what].add(where, result)
        assert result.state != DIFFERS or (what, where) not in matching
    return list(found.values())


def basis(folder, changes, options, never=()):
    """A small run's basis, from its files as ``pipeline`` leaves them; ``never``: types that are never trained."""
    settings = config(**changes)
    write_inputs(folder, TYPES, **options)
    counts = (line.split() for line in (folder / "dict.txt").read_text().splitlines())
    lines = (f"{word} {0 if word in never else count}\n" for word, count in counts)
    (folder / "dict.txt").write_text("".join(lines))
    lines = (folder / "validation.txt").read_text().splitlines()[:5]
    given = [{"text": line, "random_pos": min(n, len(line.split()))} for n, line in enumerate(lines, 1)]
    (folder / "sample.jsonl").write_text("".join(json.dumps(record) + "\n" for record in given))
    out = run_steps(folder, settings)
    made = lambda path: out / Path(path).name if path.startswith("results/") else folder / path
    return AuditInputs.read(Run(settings), ROWS, made)

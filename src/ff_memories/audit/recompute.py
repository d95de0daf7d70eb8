"""Recompute rows of the measured tables, and check what follows from other tables, the text and the config in all rows.

Each section of the paper says how, in its module ``audit``. The checks of all rows need no reference model, so a forger
who edits one of these cells is always found. Which rows `causal` has hangs on where memories are active, so for these
alone the engine runs again.
"""

from collections.abc import Mapping
from pathlib import Path

import polars as pl
import torch

from ff_memories import tables as recorded_tables
from ff_memories.audit.audit_inputs import AuditInputs, TableAudit, TableRow
from ff_memories.audit.near_equal import DIFFERS, MATCH, NEAR_TIE, Result
from ff_memories.base import sections
from ff_memories.paper.values.values import other

_audits = sections.modules("ff_memories.paper.*.audit").values()
ROWS: dict[str, TableAudit] = {name: audit for module in _audits for name, audit in module.AUDITS.items()}
CLOSE = 10  # times the limit, within which a row that its own error explains is no near-tie


def place(name: str, row: TableRow) -> str:
    """Return a row's place in words."""
    return " ".join(f"{column} {row[column]}" for column in recorded_tables.TABLES[name].key)


def recomputed(name: str, inputs: AuditInputs, row: TableRow) -> Result:
    """Recompute one row of a table from the model and the text.

    A row that differs is judged again by its own rounding error; if that alone explains much, it is a near-tie.
    """
    try:
        with torch.inference_mode():
            result = ROWS[name].row(inputs, row)
            if result.state != DIFFERS or name == "values" or inputs.quick or inputs.config.precision != "float32":
                return result
            again = inputs.by_its_own_error(lambda own: ROWS[name].row(own, row))
            far = again.state == MATCH and result.difference > CLOSE * inputs.near.limits.coefficient
            return again if again.state == DIFFERS else Result(NEAR_TIE if far else again.state, "", result.difference)
    except (KeyError, IndexError, pl.exceptions.OutOfBoundsError):
        return Result(DIFFERS, "names a trigger, an example or a sentence that does not exist")
    except (ArithmeticError, ValueError, TypeError) as error:
        return Result(DIFFERS, f"cannot be recomputed from what it says ({str(error).partition(chr(10))[0]})")


def faults(inputs: AuditInputs) -> list[str]:
    """Return what contradicts other tables, the text or the config, each as ``table: what``."""
    lines = []
    for name, frame in inputs.tables.items():
        has = columns(inputs, name)
        lines += [f"{name}: lacks the column {column}" for column in sorted(has - set(frame.columns))]
        lines += [f"{name}: has the column {column}, as no run of this config" for column in set(frame.columns) - has]
        if name in ROWS and not (inputs.found_here and name == "triggers"):
            lines += [f"{name}: {what}" for what in ROWS[name].faults(inputs)]
    return lines


def columns(inputs: AuditInputs, name: str) -> set[str]:
    """Return the columns that a table of the run has: those of its schema that config and model ask for."""
    own, schema = inputs.config.values.types, recorded_tables.TABLES[name]
    # where both choices of types have the same numbers, the tables of other models keep one
    alike = inputs.found_here and not inputs.never and (name == "values" or inputs.config.values.projection != "random")

    def has(column: str) -> bool:
        if column == "removed_tokens":
            return inputs.config.mutations.unit == "word" or inputs.config.mutations.random == "earlier"
        if "folded" in column and inputs.folds is None:
            return False
        return not column.endswith((f"_{own}", f"_{other(own)}")) or (column.endswith(f"_{other(own)}") and not alike)

    return set(schema.columns) | set(filter(has, schema.optional))


def contradictions(inputs: AuditInputs, files: Mapping[str, Path]) -> list[str]:
    """Return ``faults``, and which files are not as a step writes them: in order, each key once, with the precision."""
    lines, precision = [], inputs.config.precision
    for name, file in files.items():
        if not recorded_tables.in_order(file, name):
            lines.append(f"{name}: its rows are not in the order of their key, or one has several rows")
        if recorded_tables.TABLES[name].measured and (stated := recorded_tables.precision_of(file)) != precision:
            lines.append(f"{name}: its file states that it was measured in {stated}, but the config says {precision}")
    return lines + faults(inputs)

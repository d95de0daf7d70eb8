"""How rows of section 4's table are recomputed, and what all of them follow from."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import polars as pl
import torch
from torch import Tensor

from ff_memories.audit.audit_inputs import BEYOND, KEY, AuditInputs, TableAudit, TableRow
from ff_memories.audit.near_equal import DIFFERS, NEAR_TIE, Result, equal, together, within
from ff_memories.paper.values.values import other, targets

Targets = Sequence[int | None]  # of a key's triggers, best trigger first


def _value(inputs: AuditInputs, row: TableRow) -> Result:
    """Check a row of E4-E7: a value's prediction, and its agreement with its key's triggers."""
    value = inputs.vector("value", row["layer"], row["key"])
    if inputs.config.values.length == "mean":
        value = value * inputs.mean_length / value.norm()
    said, own = inputs.oracle.of_value(value), _targets(inputs, inputs.triggers(row["layer"], row["key"]))
    result = _value_of(inputs, row, said, own, own[0] if own else None)
    if result.state == DIFFERS and inputs.found_here and own:
        near = inputs.candidates({**row, "rank": 1})[1:]
        others = (_value_of(inputs, row, said, own, own[trigger["rank"] - 1]) for trigger in near)
        return Result(NEAR_TIE) if any(one.state != DIFFERS for one in others) else result
    return result


def _value_of(inputs: AuditInputs, row: TableRow, said: Tensor, own: Targets, first: int | None) -> Result:
    """Check a row, given its value's log p (vocab,), the targets of its key's triggers, and that of the first."""
    results = [equal("next_token", row["next_token"], first)]
    results.append(_count(inputs, row, "triggers", own, lambda target: target is not None))
    for types, suffix in suffixes(inputs, row, "top_token"):
        never = torch.tensor(inputs.never if types == "trained" else [], dtype=torch.long)
        log_p, top = said.index_fill(-1, never, -torch.inf), row[f"top_token{suffix}"]
        probability, rank = f"top_probability{suffix}", f"next_token_rank{suffix}"
        results.append(inputs.near.top(f"top_token{suffix}", top, log_p))
        results.append(inputs.near.probability(probability, row[probability], log_p, int(log_p.argmax())))
        for way in ("", "_folded") if inputs.folds is not None else ("",):
            agree, column = partial(_agree, top, inputs.folds if way else None), f"agrees{way}{suffix}"
            results.append(equal(column, row.get(column), None if first is None else agree(first)))
            results.append(_count(inputs, row, f"agreeing_triggers{way}{suffix}", own, agree))
        if first is None or first >= len(log_p) or row[rank] is None:
            without = first is None or first >= len(log_p)  # with the head alone, rarer words have no rank
            results.append(equal(rank, row[rank], None if without else "a number"))
        else:  # a target that is never trained has its place among those that are
            ranked = log_p.index_copy(0, torch.tensor([first]), said[first : first + 1])
            results.append(inputs.near.rank(rank, row[rank], ranked, first))
    return together(results)


def _agree(top: int, folds: np.ndarray | None, target: int | None) -> bool:
    """Return whether a target is the top token, or of its class."""
    return target == top if folds is None else target is not None and bool(folds[target] == folds[top])


def _count(
    inputs: AuditInputs, row: TableRow, column: str, own: Targets, counts: Callable[[int | None], bool]
) -> Result:
    """Compare a count of triggers, by their targets; where a list ends in near-ties, others may be in it."""
    if (recorded := row.get(column)) is None:
        return Result(DIFFERS, f"{column} is missing")
    count = sum(map(counts, own))
    if (end := inputs.unsure.get((row["layer"], row["key"]))) is None:
        return within(column, recorded, count, count, count)
    inside, beyond = end
    sure = sum(map(counts, own[:-inside]))
    may = [*own[-inside:], *_targets(inputs, beyond)]
    fit = sum(map(counts, may))
    low, high = max(0, inside - (len(may) - fit)), min(inside, fit)
    low, high = (low, high) if len(beyond) < BEYOND else (0, inside)
    return within(column, recorded, count, sure + low, sure + high)


def suffixes(inputs: AuditInputs, row: TableRow, column: str) -> Iterator[tuple[str, str]]:
    """Yield each choice of ``values.types`` for which a row has columns, and the columns' suffix."""
    types = inputs.config.values.types
    yield types, ""
    if f"{column}_{other(types)}" in row:
        yield other(types), f"_{other(types)}"


def _targets(inputs: AuditInputs, listed: pl.DataFrame) -> list[int | None]:
    """Return the target tokens of a key's triggers, best trigger first (``values.target``)."""
    if inputs.config.values.target == "next":
        return listed["next_token"].to_list()
    return [int(p[-1]) if len(p := inputs.prefix(r)) else inputs.oracle.start for r in listed.iter_rows(named=True)]


def _table(inputs: AuditInputs) -> Iterator[str]:
    recorded, config, again = inputs.tables["values"], inputs.config, inputs.looked_at
    own = [s for s in ("", f"_{other(config.values.types)}") if f"top_token{s}" in recorded.columns]
    tops = recorded.select(*KEY, *(pl.col(f"top_token{s}").alias(f"top{s}") for s in own))
    if inputs.found_here:
        again = again.join(recorded.select(*KEY, "next_token"), on=KEY, how="left")
    else:
        every = targets(inputs.tables["triggers"], inputs.corpus, config.values.target, inputs.oracle.start)
        first = every.filter(pl.col("rank") == 1).select(*KEY, next_token=pl.col("target").cast(pl.UInt32))
        listed = every.drop_nulls("target").join(tops, on=KEY, how="left").group_by(KEY)
        hits = {f"agreeing_triggers{s}": (pl.col("target") == pl.col(f"top{s}")).sum() for s in own}
        again = again.join(first, on=KEY, how="left").join(listed.agg(triggers=pl.len(), **hits), on=KEY, how="left")
        again = again.with_columns(pl.col("triggers", *hits).fill_null(0))
    again = again.join(tops, on=KEY, how="left")
    agrees = {f"agrees{s}": pl.col("next_token") == pl.col(f"top{s}") for s in own}
    yield from inputs.other_rows("values", again.with_columns(**agrees).drop(f"top{s}" for s in own))


AUDITS = {"values": TableAudit(row=_value, runs=lambda inputs, row: (1, []), faults=_table)}

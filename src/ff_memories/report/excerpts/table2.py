"""Table 2: the values with the highest top probability, each with a trigger of its key that it agrees with."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ff_memories.base.text import latex
from ff_memories.figures.other_types import SAID, other
from ff_memories.model.info import neurons as neurons_of
from ff_memories.paper.values.measures import predictive_values
from ff_memories.report.excerpts.rows import Given, Key, Made, passage_latex, table_csv, table_latex
from ff_memories.report.passages import Passage, Texts
from ff_memories.report.rendering import render

COLUMNS = (
    "prediction", "top_probability", "agreeing_triggers", "triggers", "precision", "trigger", "token", "agrees",
)  # fmt: skip
OTHER = ("prediction", "top_probability", "agreeing_triggers", "precision")  # also by the other choice of types


@dataclass(frozen=True)
class Other:
    """A value's prediction under the other choice of ``values.types``, and its precision over the same triggers."""

    prediction: str
    probability: float
    agreeing: int
    precision: float | None


@dataclass(frozen=True)
class Row(Key):
    """One value, with its precision over its key's ``triggers`` (``None`` without any) and one trigger.

    ``other``: the same under the other choice of ``values.types``, if the `values` table has it.
    """

    prediction: str
    probability: float
    agreeing: int
    triggers: int
    precision: float | None
    passage: Passage | None
    agrees: bool
    other: Other | None = None


def files(given: Given) -> Made:
    """Return the table in all formats; all of its values are in the CSV alone."""
    values, target, scope = given.tables["values"], given.config.values.target, given.info["scope"]
    types = other_types(values)
    found = table2(values, given.tables["triggers"], given.texts, target, neurons=neurons_of(given.info))
    shown, said, shares = found[: given.rows], types and SAID[types], agreement(values)
    html = render("excerpts/table2.html.j2", rows=shown, scope=scope, target=target, other=said, agreement=shares)
    return html, to_csv(found, scope, types), to_latex(shown, scope, types)


def table2(
    values: pl.DataFrame, triggers: pl.DataFrame, texts: Texts, target: str, most: int = 100, neurons: int | None = None
) -> list[Row]:
    """Return the values with the highest top probability, highest first.

    The trigger shown is the first one that the value agrees with, or else the key's top trigger.

    Args:
        target: the token that a value's prediction is compared with: ``next`` (after the trigger) or ``last``.
    """
    rows, types = [], other_types(values)
    for value in predictive_values(values, most).iter_rows(named=True):
        of_key = triggers.filter((pl.col("layer") == value["layer"]) & (pl.col("key") == value["key"])).sort("rank")
        agreeing = _targets(of_key, texts, target) == value["top_token"]
        shown = of_key.row(int(agreeing.argmax()), named=True) if of_key.height else None
        rows.append(
            Row(
                value["layer"],
                value["key"],
                neurons,
                texts.word(value["top_token"]),
                value["top_probability"],
                value["agreeing_triggers"],
                value["triggers"],
                value["precision"],
                _passage(texts, shown, target) if shown else None,
                bool(agreeing.any()),
                _other(value, types, texts) if types else None,
            )
        )
    return rows


def agreement(values: pl.DataFrame) -> tuple[float, float] | None:
    """Return the share of keys whose value agrees with their top trigger, by id and folded.

    ``None`` if the table has no column ``agrees_folded``, or no key has a token to compare with.
    """
    if "agrees_folded" not in values.columns or not (known := values.drop_nulls("agrees")).height:
        return None
    return float(known["agrees"].to_numpy().mean()), float(known["agrees_folded"].to_numpy().mean())


def other_types(values: pl.DataFrame) -> str | None:
    """Return the other choice of ``values.types`` that the table has columns for, ``trained`` or ``all``, if any."""
    return other(values, "top_token")


def _other(value: dict[str, Any], types: str, texts: Texts) -> Other:
    agreeing, triggers = value[f"agreeing_triggers_{types}"], value["triggers"]
    return Other(
        texts.word(value[f"top_token_{types}"]),
        value[f"top_probability_{types}"],
        agreeing,
        agreeing / triggers if triggers else None,
    )


def _targets(triggers: pl.DataFrame, texts: Texts, target: str) -> np.ndarray:
    """Return the token ids (triggers,) that a value is compared with, -1 for none."""
    if target == "next":
        return triggers["next_token"].cast(pl.Int64).fill_null(-1).to_numpy()
    where = triggers.select("sentence", "position").iter_rows()
    return np.array([int(texts.corpus.sentence(s)[p - 1]) if p else -1 for s, p in where], dtype=np.int64)


def _passage(texts: Texts, trigger: dict[str, Any], target: str) -> Passage:
    if target == "last":
        return texts.passage(trigger["sentence"], trigger["position"])
    known = trigger["next_token"] is not None
    return texts.passage(trigger["sentence"], trigger["position"] + known, marked=known)


def to_csv(rows: list[Row], scope: str, types: str | None = None) -> str:
    """Return Table 2 as CSV, one line per value. Columns for the other choice of types end in its name."""
    lines = [
        (r.prediction, f"{r.probability:.6g}", r.agreeing, r.triggers, _share(r.precision),
         r.passage and r.passage.plain, r.passage and r.passage.marked, str(r.agrees).lower())
        for r in rows
    ]  # fmt: skip
    others = [row.other for row in rows]
    more = [(o.prediction, f"{o.probability:.6g}", o.agreeing, _share(o.precision)) if o else () for o in others]
    columns = [f"{name}_{types}" for name in OTHER if types]
    return table_csv(COLUMNS, (row.fields for row in rows), lines, scope, columns, more)


def _share(precision: float | None) -> str | None:
    return None if precision is None else f"{precision:.6g}"


def to_latex(rows: list[Row], scope: str, types: str | None = None) -> str:
    """Return Table 2 as a LaTeX ``tabular``."""
    head = ["Value", "Prediction", "Precision (n)", *([SAID[types].capitalize()] if types else []), "Trigger example"]
    widths = ("l", "l", "r", "l", 0.4) if types else ("l", "l", "r", 0.55)
    cells = []
    for row in rows:
        precision = "--" if row.precision is None else f"{_percent(row.precision)} ({row.triggers})"
        own = [row.latex("v"), latex(row.prediction), precision]
        if row.other:
            known = "" if row.other.precision is None else f" ({_percent(row.other.precision)})"
            own.append(latex(row.other.prediction) + known)
        cells.append([*own, passage_latex(row.passage)])
    return table_latex(widths, scope, "", [" & ".join(head) + r" \\"], cells)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\\,\\%"

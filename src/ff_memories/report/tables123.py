"""Tables 1 to 3, keys and values with passages of the text: what each shows, and its HTML, CSV and LaTeX."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ff_memories.base.text import MINUS, csv_text, escape_invisible, key_and_sign, memory_name
from ff_memories.config import Settings
from ff_memories.judge.evidence import OTHER_TYPES, other_types
from ff_memories.model.info import neurons as neurons_of
from ff_memories.paper.values.measures import predictive_values
from ff_memories.report.html import render
from ff_memories.report.passages import Passage, Texts
from ff_memories.tables.annotation import TYPES, marks, preferred

PREFIXES = 3  # of a key in Table 1
SHOWN = 10  # values in Table 2's HTML and LaTeX; its CSV has 100
COLUMNS = {  # of each CSV, between the key's and ``scope``
    "table1": ("pattern", "type", "annotator", "covered", "shown", "prefix", "last_token"),
    "table2": (
        "prediction", "top_probability", "agreeing_triggers", "triggers", "precision", "trigger", "token", "agrees",
    ),
    "table3": ("annotator", "rank", "patterns", "descriptions", "prefix", "last_token"),
}  # fmt: skip
OTHER = ("prediction", "top_probability", "agreeing_triggers", "precision")  # also by the other choice of types
Tables = Mapping[str, pl.DataFrame]
Info = Mapping[str, Any]
Formats = tuple[str, str, str]  # HTML, CSV and LaTeX


@dataclass(frozen=True)
class Memory:
    """A key or its value; ``neurons``: d_m where both signs of a coefficient count, else ``None``."""

    layer: int
    key: int
    neurons: int | None

    @property
    def name(self) -> str:
        """Return the key as readers see it (``base.text``)."""
        return memory_name(self.key, self.neurons)

    @property
    def fields(self) -> dict[str, int]:
        """Return the CSV's fields that name the key; with both signs, there are three."""
        if self.neurons is None:
            return {"layer": self.layer, "key": self.key}
        key, sign = key_and_sign(self.key, self.neurons)
        return {"layer": self.layer, "key": key, "sign": sign}

    def latex(self, letter: str) -> str:
        """Return the key's name in LaTeX, a bold ``letter`` with indices."""
        return f"$\\mathbf{{{letter}}}_{{{self.name.replace(MINUS, '-')}}}^{{{self.layer}}}$"


@dataclass(frozen=True)
class AnnotatedKey(Memory):
    """A key with patterns that this annotator found."""

    annotator: str

    @property
    def mark(self) -> str:
        """Return the mark of an annotator who is not a person, or nothing."""
        return ", ".join(marks([self.annotator])).lower()


@dataclass(frozen=True)
class ClearKey(AnnotatedKey):
    """A row of Table 1: a key with its clearest pattern, which ``covered`` of its ``shown`` annotated triggers have."""

    pattern: str
    type: str
    covered: int
    shown: int
    passages: tuple[Passage, ...]


@dataclass(frozen=True)
class Prediction:
    """A value's top token, and its precision over its key's triggers (``None`` without any)."""

    token: str
    probability: float
    agreeing: int
    precision: float | None


@dataclass(frozen=True)
class Value(Memory):
    """A row of Table 2: a value's prediction, and one of its key's ``triggers``.

    ``other``: its prediction under the other choice of ``values.types``, if the `values` table has it.
    """

    prediction: Prediction
    triggers: int
    passage: Passage | None
    agrees: bool
    other: Prediction | None = None


@dataclass(frozen=True)
class KeyPatterns(AnnotatedKey):
    """Table 3: patterns of a key as (number, description, type), and its prefixes as (rank, patterns, passage)."""

    patterns: tuple[tuple[int, str, str], ...]
    prefixes: tuple[tuple[int, tuple[int, ...], Passage], ...]


# -- Table 1 -----------------------------------------------------------------------------------------------------------


def table1(
    annotations: pl.DataFrame,
    labels: pl.DataFrame,
    triggers: pl.DataFrame,
    texts: Texts,
    layers: int,
    neurons: int | None = None,
) -> list[ClearKey]:
    """Return up to four rows: a shallow and a semantic key from the lower and the upper half of the layers.

    The table thus covers the paper's claim: shallow patterns below, semantic ones above. Each key is the one with the
    clearest pattern of its type: the pattern with the largest lead in covered triggers over the key's patterns of the
    other type. People's annotations take precedence over the proxy's.
    """
    covered = pl.col("covered")
    patterns = preferred(annotations).with_columns(pl.col("ranks").list.len().cast(pl.Int64).alias("covered"))
    most = [covered.filter(type=kind).max().over("annotator", "layer", "key").fill_null(0) for kind in TYPES]
    margin = pl.when(pl.col("type") == TYPES[0]).then(covered - most[1]).otherwise(covered - most[0])
    order = ["margin", "covered", "layer", "key", "annotator", "pattern"]
    patterns = patterns.with_columns(margin.alias("margin")).sort(order, descending=[True, True, *[False] * 4])
    upper = 2 * pl.col("layer").cast(pl.Int64) > layers
    clearest = [patterns.filter(half, type=kind).head(1) for half in (~upper, upper) for kind in TYPES]
    rows = []
    for row in pl.concat(clearest).iter_rows(named=True):
        of_key = {"layer": row["layer"], "key": row["key"]}
        shown = triggers.filter(pl.col("rank").is_in(row["ranks"]), **of_key).sort("rank")
        passages = [texts.passage(s, p) for s, p in shown.select("sentence", "position").iter_rows()]
        rows.append(
            ClearKey(
                row["layer"],
                row["key"],
                neurons,
                row["annotator"],
                escape_invisible(row["description"]),
                row["type"],
                row["covered"],
                labels.filter(annotator=row["annotator"], **of_key).height,
                tuple(dict.fromkeys(passages))[:PREFIXES],
            )
        )
    return rows


def write_table1(tables: Tables, texts: Texts, info: Info, config: Settings) -> Formats:
    """Return Table 1; its CSV and LaTeX have one line per example prefix."""
    annotations, labels, scope = tables["annotations"], tables["pattern_labels"], info["scope"]
    rows = table1(annotations, labels, tables["triggers"], texts, info["layers"], neurons_of(info))
    html, latex = _rendered("table1", rows=rows, scope=scope)
    return html, csv1(rows, scope), latex


def csv1(rows: Sequence[ClearKey], scope: str) -> str:
    lines = [
        (row, (row.pattern, row.type, row.mark or "people", row.covered, row.shown, passage.plain, passage.marked))
        for row in rows
        for passage in row.passages
    ]
    return _csv("table1", lines, scope)


# -- Table 2 -----------------------------------------------------------------------------------------------------------


def table2(
    values: pl.DataFrame, triggers: pl.DataFrame, texts: Texts, target: str, most: int = 100, neurons: int | None = None
) -> list[Value]:
    """Return the values with the highest top probability, highest first.

    The trigger shown is the first one that the value agrees with, or else the key's top trigger.

    Args:
        target: the token that a value's prediction is compared with: ``next`` (after the trigger) or ``last``.
    """
    rows, types = [], other_types(values, "top_token")
    for value in predictive_values(values, most).iter_rows(named=True):
        of_key = triggers.filter(layer=value["layer"], key=value["key"]).sort("rank")
        agreeing = _targets(of_key, texts, target) == value["top_token"]
        shown = of_key.row(int(agreeing.argmax()), named=True) if of_key.height else None
        rows.append(
            Value(
                value["layer"],
                value["key"],
                neurons,
                _prediction(value, texts),
                value["triggers"],
                _passage(texts, shown, target) if shown else None,
                bool(agreeing.any()),
                _prediction(value, texts, f"_{types}") if types else None,
            )
        )
    return rows


def _prediction(value: Mapping[str, Any], texts: Texts, suffix: str = "") -> Prediction:
    agreeing, triggers = value[f"agreeing_triggers{suffix}"], value["triggers"]
    token, probability = texts.word(value[f"top_token{suffix}"]), value[f"top_probability{suffix}"]
    return Prediction(token, probability, agreeing, agreeing / triggers if triggers else None)


def _targets(triggers: pl.DataFrame, texts: Texts, target: str) -> np.ndarray:
    """Return the token ids (triggers,) that a value is compared with, -1 for none."""
    if target == "next":
        return triggers["next_token"].cast(pl.Int64).fill_null(-1).to_numpy()
    where = triggers.select("sentence", "position").iter_rows()
    return np.array([int(texts.corpus.sentence(s)[p - 1]) if p else -1 for s, p in where], dtype=np.int64)


def _passage(texts: Texts, trigger: Mapping[str, Any], target: str) -> Passage:
    if target == "last":
        return texts.passage(trigger["sentence"], trigger["position"])
    has_next = trigger["next_token"] is not None
    return texts.passage(trigger["sentence"], trigger["position"] + has_next, marked=has_next)


def agreement(values: pl.DataFrame) -> tuple[float, float] | None:
    """Return the share of keys whose value agrees with their top trigger, by id and folded.

    ``None`` if the table has no column ``agrees_folded``, or no key has a token to compare with.
    """
    if "agrees_folded" not in values.columns or not (compared := values.drop_nulls("agrees")).height:
        return None
    return float(compared["agrees"].to_numpy().mean()), float(compared["agrees_folded"].to_numpy().mean())


def write_table2(tables: Tables, texts: Texts, info: Info, config: Settings) -> Formats:
    """Return Table 2, with one line per value; its HTML and LaTeX have ``SHOWN``, its CSV all of ``table2``."""
    values, target, scope = tables["values"], config.values.target, info["scope"]
    types = other_types(values, "top_token")
    rows = table2(values, tables["triggers"], texts, target, neurons=neurons_of(info))
    html, latex = _rendered(
        "table2",
        rows=rows[:SHOWN],
        scope=scope,
        target=target,
        other=types and OTHER_TYPES[types],
        agreement=agreement(values),
    )
    return html, csv2(rows, scope, types), latex


def csv2(rows: Sequence[Value], scope: str, types: str | None = None) -> str:
    """Return Table 2 as CSV. Columns for the other choice of types stand last and end in its name."""
    lines, others = [], []
    for row in rows:
        token, probability, agreeing, precision = _cells(row.prediction)
        passage = (row.passage.plain, row.passage.marked) if row.passage else (None, None)
        agrees = str(row.agrees).lower()
        lines.append((row, (token, probability, agreeing, row.triggers, precision, *passage, agrees)))
        others.append(_cells(row.other) if row.other else ())
    return _csv("table2", lines, scope, [f"{name}_{types}" for name in OTHER if types], others)


def _cells(prediction: Prediction) -> tuple[str, str, int, str | None]:
    precision = None if prediction.precision is None else f"{prediction.precision:.6g}"
    return prediction.token, f"{prediction.probability:.6g}", prediction.agreeing, precision


# -- Table 3 (Appendix A) ----------------------------------------------------------------------------------------------


def table3(
    annotations: pl.DataFrame, triggers: pl.DataFrame, texts: Texts, shown: int, neurons: int | None = None
) -> KeyPatterns | None:
    """Return the key whose patterns cover most of its first ``shown`` triggers, preferring keys with both types.

    People's annotations take precedence over the proxy's. Ties go to lower layers, then to lower keys.
    """
    annotations = preferred(annotations)
    if annotations.is_empty():
        return None
    keys = annotations.group_by("annotator", "layer", "key").agg(
        (pl.col("type").n_unique() == len(TYPES)).alias("both"), pl.col("ranks").explode().n_unique().alias("covered")
    )
    best = keys.sort("both", "covered", "layer", "key", "annotator", descending=[True, True, False, False, False])
    annotator, layer, key, *_ = best.row(0)
    patterns = list(annotations.filter(annotator=annotator, layer=layer, key=key).sort("pattern").iter_rows(named=True))
    rows = triggers.filter(pl.col("rank") <= shown, layer=layer, key=key).sort("rank")
    return KeyPatterns(
        layer,
        key,
        neurons,
        annotator,
        tuple((row["pattern"], escape_invisible(row["description"]), row["type"]) for row in patterns),
        tuple(
            (rank, tuple(row["pattern"] for row in patterns if rank in row["ranks"]), texts.passage(sentence, position))
            for rank, sentence, position in rows.select("rank", "sentence", "position").iter_rows()
        ),
    )


def write_table3(tables: Tables, texts: Texts, info: Info, config: Settings) -> Formats:
    """Return Table 3; its CSV and LaTeX have one line per prefix."""
    scope = info["scope"]
    key = table3(tables["annotations"], tables["triggers"], texts, config.patterns.top, neurons_of(info))
    html, latex = _rendered("table3", key=key, scope=scope)
    return html, csv3(key, scope), latex


def csv3(key: KeyPatterns | None, scope: str) -> str:
    lines: list[tuple[Memory, Sequence[Any]]] = []
    if key is not None:
        named = {n: f"{text} ({kind})" for n, text, kind in key.patterns}
        for rank, numbers, passage in key.prefixes:
            patterns = " ".join(map(str, numbers)), "; ".join(named[n] for n in numbers)
            lines.append((key, (key.mark or "people", rank, *patterns, passage.plain, passage.marked)))
    return _csv("table3", lines, scope)


# -- of all three ------------------------------------------------------------------------------------------------------


def _rendered(table: str, **shown: object) -> tuple[str, str]:
    """Return a table as HTML, and as a LaTeX ``tabular`` (its packages in the first line)."""
    return render(f"tables123/{table}.html.j2", **shown), render(f"tables123/{table}.tex.j2", **shown)


def _csv(
    table: str,
    lines: Sequence[tuple[Memory, Sequence[Any]]],
    scope: str,
    more: Sequence[str] = (),
    others: Sequence[Sequence[Any]] = (),
) -> str:
    """Return a table as CSV.

    Args:
        table: whose ``COLUMNS`` it has.
        lines: each line's key, and its cells of these columns.
        scope: whose results these are.
        more, others: columns behind ``scope``, and their cells of each line.
    """
    header = [*(lines[0][0].fields if lines else ("layer", "key")), *COLUMNS[table], "scope", *more]
    last = others or [()] * len(lines)
    rows = [(*key.fields.values(), *cells, scope, *end) for (key, cells), end in zip(lines, last, strict=True)]
    return csv_text(header, rows)


@dataclass(frozen=True)
class Excerpt:
    """One of these tables: what it shows, the tables it is made from besides text and model info, and its writer."""

    title: str
    tables: tuple[str, ...]
    write: Callable[..., Formats]


EXCERPTS = {
    "table1": Excerpt(
        "keys with clear patterns, and example triggers",
        ("annotations", "pattern_labels", "triggers", "sentences"),
        write_table1,
    ),
    "table2": Excerpt(
        "the values that predict with the highest probability", ("values", "triggers", "sentences"), write_table2
    ),
    "table3": Excerpt("one key and all its patterns", ("annotations", "triggers", "sentences"), write_table3),
}

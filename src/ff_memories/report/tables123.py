"""Tables 1 to 3, keys and values with passages of the text: what each shows, and its HTML, CSV and LaTeX."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ff_memories.base.text import csv_text, escape_invisible, key_and_sign, memory_name
from ff_memories.config import Settings
from ff_memories.model.info import neurons as neurons_of
from ff_memories.paper.values.measures import predictive_values
from ff_memories.report.html import render
from ff_memories.report.passages import Passage, Texts
from ff_memories.tables import Frames
from ff_memories.tables.annotation import PEOPLE, TYPES, marks, preferred

PREFIXES = 3  # of a key in Table 1
SHOWN = 10  # values in Table 2's HTML and LaTeX; its CSV has 100
Info = Mapping[str, Any]
ShownMemory = dict[str, Any]  # what a template shows of a key or value
Formats = tuple[str, str, str]  # HTML, CSV and LaTeX


def _memory(layer: int, memory: int, neurons: int | None, annotator: str = PEOPLE) -> ShownMemory:
    """Return a row's memory: its ``name``, the CSV's ``fields``, and the ``mark`` of an annotator who is no person."""
    key, sign = key_and_sign(memory, neurons)
    fields = {"layer": layer, "key": key} | ({} if neurons is None else {"sign": sign})
    mark = ", ".join(marks([annotator])).lower()
    return {"layer": layer, "name": memory_name(memory, neurons), "neurons": neurons, "fields": fields, "mark": mark}


def table1(tables: Frames, texts: Texts, layers: int, neurons: int | None = None) -> list[ShownMemory]:
    """Return up to four rows: a shallow and a semantic key from the lower and the upper half of the layers.

    The table thus covers the paper's claim: shallow patterns below, semantic ones above. Each key is the one with the
    clearest pattern of its type: the pattern with the largest lead in covered triggers over the key's patterns of the
    other type. People's annotations take precedence over the proxy's.
    """
    covered = pl.col("covered")
    patterns = preferred(tables["annotations"]).with_columns(pl.col("ranks").list.len().cast(pl.Int64).alias("covered"))
    most = [covered.filter(type=kind).max().over("annotator", "layer", "key").fill_null(0) for kind in TYPES]
    margin = pl.when(pl.col("type") == TYPES[0]).then(covered - most[1]).otherwise(covered - most[0])
    order = ["margin", "covered", "layer", "key", "annotator", "pattern"]
    patterns = patterns.with_columns(margin.alias("margin")).sort(order, descending=[True, True, *[False] * 4])
    upper = 2 * pl.col("layer").cast(pl.Int64) > layers
    clearest = [patterns.filter(half, type=kind).head(1) for half in (~upper, upper) for kind in TYPES]
    rows = []
    for row in pl.concat(clearest).iter_rows(named=True):
        of_key = {"layer": row["layer"], "key": row["key"]}
        shown = tables["triggers"].filter(pl.col("rank").is_in(row["ranks"]), **of_key).sort("rank")
        passages = [texts.passage(s, p) for s, p in shown.select("sentence", "position").iter_rows()]
        rows.append(
            _memory(row["layer"], row["key"], neurons, row["annotator"])
            | {
                "pattern": escape_invisible(row["description"]),
                "type": row["type"],
                "covered": row["covered"],
                "shown": tables["pattern_labels"].filter(annotator=row["annotator"], **of_key).height,  # triggers
                "passages": list(dict.fromkeys(passages))[:PREFIXES],
            }
        )
    return rows


def write_table1(tables: Frames, texts: Texts, info: Info, config: Settings) -> Formats:
    """Return Table 1; its CSV and LaTeX have one line per example prefix."""
    rows = table1(tables, texts, info["layers"], neurons_of(info))
    lines = []
    for row in rows:
        pattern = row["pattern"], row["type"], row["mark"] or PEOPLE, row["covered"], row["shown"]
        lines += [(row, [*pattern, passage.plain, passage.marked]) for passage in row["passages"]]
    columns = ("pattern", "type", "annotator", "covered", "shown", "prefix", "last_token")
    return _formats("table1", columns, lines, rows=rows, scope=info["scope"])


def table2(
    values: pl.DataFrame, triggers: pl.DataFrame, texts: Texts, target: str, most: int = 100, neurons: int | None = None
) -> list[ShownMemory]:
    """Return the values with the highest top probability, highest first.

    The trigger shown is the first whose ``next`` or ``last`` token, the ``target``, the value predicts, or the top one.
    """
    rows = []
    for value in predictive_values(values, most).iter_rows(named=True):
        of_key = triggers.filter(layer=value["layer"], key=value["key"]).sort("rank")
        agreeing = _targets(of_key, texts, target) == value["top_token"]
        shown = of_key.row(int(agreeing.argmax()), named=True) if of_key.height else None
        rows.append(
            _memory(value["layer"], value["key"], neurons)
            | {
                "token": texts.word(value["top_token"]),
                "probability": value["top_probability"],
                "agreeing": value["agreeing_triggers"],
                "triggers": value["triggers"],
                "precision": value["agreeing_triggers"] / value["triggers"] if value["triggers"] else None,
                "passage": _passage(texts, shown, target) if shown else None,
                "agrees": bool(agreeing.any()),
            }
        )
    return rows


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


def write_table2(tables: Frames, texts: Texts, info: Info, config: Settings) -> Formats:
    """Return Table 2, with one line per value; its HTML and LaTeX have ``SHOWN``, its CSV all of ``table2``."""
    values, target, scope = tables["values"], config.values.target, info["scope"]
    rows = table2(values, tables["triggers"], texts, target, neurons=neurons_of(info))
    lines = []
    for row in rows:
        precision = None if row["precision"] is None else f"{row['precision']:.6g}"
        passage = (row["passage"].plain, row["passage"].marked) if row["passage"] else (None, None)
        predicted = (row["token"], f"{row['probability']:.6g}", row["agreeing"], row["triggers"], precision)
        lines.append((row, [*predicted, *passage, str(row["agrees"]).lower()]))
    about = ("prediction", "top_probability", "agreeing_triggers", "triggers", "precision")
    columns = (*about, "trigger", "token", "agrees")
    return _formats(
        "table2", columns, lines, rows=rows[:SHOWN], scope=scope, target=target, agreement=agreement(values)
    )


def table3(
    annotations: pl.DataFrame, triggers: pl.DataFrame, texts: Texts, shown: int, neurons: int | None = None
) -> ShownMemory | None:
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
    return _memory(layer, key, neurons, annotator) | {
        "patterns": [(row["pattern"], escape_invisible(row["description"]), row["type"]) for row in patterns],
        "prefixes": [
            (rank, [row["pattern"] for row in patterns if rank in row["ranks"]], texts.passage(sentence, position))
            for rank, sentence, position in rows.select("rank", "sentence", "position").iter_rows()
        ],
    }


def write_table3(tables: Frames, texts: Texts, info: Info, config: Settings) -> Formats:
    """Return Table 3; its CSV and LaTeX have one line per prefix."""
    key = table3(tables["annotations"], tables["triggers"], texts, config.patterns.top, neurons_of(info))
    lines = []
    if key is not None:
        named = {n: f"{text} ({kind})" for n, text, kind in key["patterns"]}
        for rank, numbers, passage in key["prefixes"]:
            patterns = " ".join(map(str, numbers)), "; ".join(named[n] for n in numbers)
            lines.append((key, [key["mark"] or PEOPLE, rank, *patterns, passage.plain, passage.marked]))
    columns = ("annotator", "rank", "patterns", "descriptions", "prefix", "last_token")
    return _formats("table3", columns, lines, key=key, scope=info["scope"])


def _formats(
    table: str, columns: Sequence[str], lines: Sequence[tuple[ShownMemory, list[Any]]], **shown: object
) -> Formats:
    """Return a table as HTML, as CSV, and as a LaTeX ``tabular`` (its packages in the first line).

    ``lines``: each line's key and its cells of ``columns``, for CSV. ``shown``: what the templates show.
    """
    html, latex = (render(f"tables123/{table}.{suffix}.j2", **shown) for suffix in ("html", "tex"))
    header = [*(lines[0][0]["fields"] if lines else ("layer", "key")), *columns, "scope"]
    csv = csv_text(header, [(*key["fields"].values(), *cells, shown["scope"]) for key, cells in lines])
    return html, csv, latex


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

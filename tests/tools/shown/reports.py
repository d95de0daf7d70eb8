"""A report made of tables that are written here."""

import json
from html.parser import HTMLParser
from typing import Any

import numpy as np
import polars as pl
from refusing import ended

from ff_memories import tables
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.store import Corpus
from ff_memories.judge.evidence import Evidence
from ff_memories.judge.register import register
from ff_memories.judge.verdicts import verdicts
from ff_memories.report.html import render
from ff_memories.report.passages import Texts
from ff_memories.report.tables123 import table1

HOSTILE = ["<script>alert(1)</script>", '"><img', "a\u202eb", "=cmd()", "{{7*7}}", "\\input{x}", "@SUM(1)"]

SENTENCE = list(range(4, 4 + len(HOSTILE)))


def texts(sentences=(SENTENCE, [4, 5])):
    offsets = np.cumsum([0, *map(len, sentences)])
    tokens = np.array([t for s in sentences for t in s], dtype=np.int32)
    return Texts(Corpus(tokens, offsets, len(sentences)), Dictionary(HOSTILE))


def frame(name, *rows):
    schema = tables.TABLES[name]
    return tables.conform(pl.DataFrame(list(rows), schema=schema.columns), schema)


def trigger(rank, sentence, position, next_token, layer=1, key=0):
    return {"layer": layer, "key": key, "rank": rank, "coefficient": 9.0 - rank, "sentence": sentence,
            "position": position, "next_token": next_token}  # fmt: skip


def value(top, probability=0.5, key=0, agreeing=0, triggers=2):
    return {"layer": 1, "key": key, "top_token": top, "top_probability": probability, "next_token": 5,
            "next_token_rank": 3, "agrees": False, "agreeing_triggers": agreeing, "triggers": triggers}  # fmt: skip


def annotation(ranks, description="ends", annotator="proxy", key=0, layer=1, pattern=1):
    return {"annotator": annotator, "layer": layer, "key": key, "pattern": pattern, "description": description,
            "type": "shallow", "ranks": ranks}  # fmt: skip


def label(rank, annotator="proxy", key=0):
    return {"annotator": annotator, "layer": 1, "key": key, "rank": rank, "label": "shallow"}


class Tags(HTMLParser):
    """Every element of a page with its attributes, in order; unclosed ones are left on ``open``."""

    VOID = ("meta", "br", "img", "link", "hr", "input")

    def __init__(self, html):
        super().__init__()
        self.found, self.open = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


TRIGGERS = frame("triggers", trigger(1, 0, 2, 6), trigger(2, 0, 3, 7), trigger(3, 1, 2, None))

ANNOTATIONS = frame("annotations", annotation([1, 2, 3], "<b>" + HOSTILE[2]))

LABELS = frame("pattern_labels", *(label(rank) for rank in (1, 2, 3, 4)))


def first_table(annotations, labels, triggers, neurons=None):
    """Return the rows of Table 1 of a model with 16 layers."""
    read = {"annotations": annotations, "pattern_labels": labels, "triggers": triggers}
    return table1(read, texts(), 16, neurons)


CONFIG: dict[str, Any] = {
    "run": "try", "seed": 1, "fidelity": "paper",
    "corpus": {"source": None, "train": {"files": ["/home/me/secret.txt"], "max_sentences": 7},
               "validation": {"files": ["/home/me/other.txt"]}, "sha256": "a" * 64, "segmenter": "rule",
               "tokenizer": "native", "headings": "keep", "too_long": "refuse"},
    "model": {"source": None, "checkpoint": "/home/me/model.pt", "dictionary": "/home/me/dict.txt"},
    "extraction": {"precision": "float32"},
    "triggers": {"top": 50, "per_sentence": "best", "positions": "inner", "duplicates": "keep"},
    "mutations": {"keys_per_layer": 100, "top": 50, "random": "any", "single_token": "skip", "mean": "of_ratios"},
    "patterns": {"keys_per_layer": 10, "top": 25},
    "values": {"target": "next", "projection": "adaptive", "projection_seed": 1},
    "composition": {"examples": 4000, "sample": "per_sentence", "positions": "1..N", "layer_prediction": "ffn",
                    "memories": "active", "stop_words": "sklearn"},
}  # fmt: skip

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="5"><g id="x"/></svg>'

GROUPS = {"yes": "signal", "too_small": "absent", "no": "absent", "undecided": "open"}  # by whether a model shows it


def claims_table(scope="surrogate", measured=0.25, **verdicts):
    """A table of all claims: those named have this verdict, and a number unless there is nothing to measure.

    No random network shows a claim that holds.
    """
    rows = []
    for claim in register():
        verdict = verdicts.get(claim.id, "not_attempted")
        row = {"claim": claim.id, "statement": claim.statement, "source": claim.source, "paper_value": claim.paper,
               "scope": scope, "verdict": verdict, "measured": measured if claim.id in verdicts else None}  # fmt: skip
        if shows := next((shows for shows, words in tables.SHOWS.items() if verdict in words), None):
            row |= {"shows": shows, "judged": measured, "limit": 0.2, "limit_source": claim.limit_source or "ours",
                    "group": None if claim.by_construction else GROUPS[shows]}  # fmt: skip
        rows.append(row)
    return tables.conform(pl.DataFrame(rows, schema=tables.TABLES["claims"].columns), tables.TABLES["claims"])


def made_report(folder, scope="surrogate", config=CONFIG, more=(), judged=None, card=None, beside=()):
    info = {"scope": scope, "layers": 16, "keys": 64, "vocab": 100, "model": 8, "adaptive_output": True,
            "final_norm": False, "max_positions": 64, "heads": 2,
            "parameters": 1234567, "checkpoint_sha256": "b" * 64, "dictionary_sha256": "c" * 64}  # fmt: skip
    info |= card or {}
    (folder / "info.json").write_text(json.dumps(info))
    if judged is None:
        judged = verdicts(register(), Evidence({}, 16, 64, 100), scope)
    tables.write(judged.with_columns(pl.lit("<script>x</script>").alias("reason")), folder / "claims.parquet")
    tables.write(tables.counts("corpus", {"too_<b>long</b>": 12345}), folder / "counts.parquet")
    for name in ("figure2", "figure3"):
        (folder / f"{name}.svg").write_text(SVG)
        (folder / f"{name}.csv").write_text(f"layer,{name}_share\n1,0.5\n")
    (folder / "table1.html").write_text(render("tables123/table1.html.j2", rows=[], scope=scope))
    code = ended("report", "--config", json.dumps(config), "--info", f"{folder}/info.json",
                 "--tables", f"{folder}/claims.parquet", f"{folder}/counts.parquet", *beside,
                 "--figures", f"{folder}/figure3.svg", f"{folder}/figure2.svg", "--excerpts", f"{folder}/table1.html",
                 "--numbers", f"{folder}/figure3.csv", f"{folder}/figure2.csv",
                 "--html", f"{folder}/report/report.html", "--plotted", f"{folder}/report/plotted.parquet",
                 "--summary", f"{folder}/summary.md", *more)  # fmt: skip
    return code, folder / "report/report.html"

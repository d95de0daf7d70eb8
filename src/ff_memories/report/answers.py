"""Tell a run's claims in sentences: its first lines, an answer for each section, and how many claims are in each group.

What is said of a claim is in ``claims.toml``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from ff_memories.base.text import counted, finished, listed
from ff_memories.config import Settings
from ff_memories.judge.wording import PROXY, SAMPLED_TEXT, ClaimRow, control, self_sampled, sentence, told
from ff_memories.model.info import quantised
from ff_memories.report.html import render

FIRST = "first"  # claims of the first screen (``shown`` in claims.toml)
SOURCES = {
    "docstrings": "prose from the docstrings of pinned Python packages",
    "wikitext-103": "WikiText-103",
    None: "the run's own text files",
}


def first_lines(
    rows: Sequence[ClaimRow], counts: pl.DataFrame, config: Settings, info: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a reader learns first of a run, from all claims (of ``outline.rows``) and the table counts.

    What was ``run``; the ``findings``, one or two claims each, as sentence and control; what is ``common`` to random
    networks; what is ``open``; and all of it as ``lines`` of text.
    """
    paper = [row for row in rows if not row["beyond"]]
    shown = [together for together in _shown(rows) if together[0]["shown"] == FIRST]
    run, common, left_open = _what_was_run(counts, config, info), _common(paper), _open(paper, info["scope"])
    told = [f"{'; '.join(map(clause, together))}." for together in shown]
    return {
        "run": run,
        "findings": [[(sentence([row]), control([row])) for row in together] for together in shown],
        "common": common,
        "open": left_open,
        "lines": [run, *told, f"Also in random networks: {common}", f"What cannot be said: {left_open}"],
    }


def _shown(rows: Sequence[ClaimRow]) -> list[list[ClaimRow]]:
    """Return the rows of claims that have a sentence and a number, those of one sentence together."""
    measured = [row for row in rows if row["measured"] is not None]
    return [
        [row, *(other for other in measured if other["shown"] == row["claim"])]
        for row in measured
        if row["shown"] in (FIRST, "section")
    ]


def answer(section: str, rows: Sequence[ClaimRow]) -> list[str]:
    """Return the answer of a section of the paper: its claims' sentences, and how many of them are in each group."""
    of_section = [row for row in rows if row["section"] == section]
    sentences = ["; ".join(map(clause, together)) for together in _shown(of_section)]
    sentences += [
        row["reason"]
        for row in of_section
        if row["shown"] and row["standing"] == "not_applicable" and row["scope"] == "model"
    ]
    if any(SAMPLED_TEXT in (row["reason"] or "") for row in of_section):
        sentences.append(SAMPLED_TEXT)
    return [finished(said) for said in (*sentences, tally(of_section))]


def clause(row: ClaimRow) -> str:
    """Return the sentence of a claim that has a number, with its control."""
    return f"{sentence([row])} ({control([row])})"


def tally(rows: Sequence[ClaimRow]) -> str:
    """Return how many claims are in each group, without those that are not judged."""
    groups = Counter(row["group"] for row in rows if row["group"])
    n = counted(groups.total(), "judged claim", "judged claims")
    return f"of {n}, {told(groups)}" if groups else "no claim here is judged"


def named(info: Mapping[str, Any]) -> str:
    """Return whose results a run's are: a model of `transformers` by its name on the hub, or else by its family."""
    if info["scope"] != "model":
        return "the paper's own model" if info["scope"] == "paper" else "a stand-in model"
    return str(info.get("hub") or info.get("source") or f"a model of the family {info['model_type']}")


def _what_was_run(counts: pl.DataFrame, config: Settings, info: Mapping[str, Any]) -> str:
    """Return which model read which text, and how many keys, triggers and prefixes were looked at."""
    n = {f"{step} {reason}": n for step, reason, n in counts.select("step", "reason", "n").iter_rows()}
    text, model = SOURCES.get(config.corpus.source, config.corpus.source), named(info)
    told = render("report/run.txt.j2", info=info, n=n, top=config.triggers.top, source=text, model=model)
    some = looked_at(config.looked_at, info.get("neurons", info["keys"]), config.seed)
    notes = [quantised(info), self_sampled(counts) and SAMPLED_TEXT, some and f"it looks at the triggers of {some}"]
    return " ".join(finished(note) for note in [told, *notes] if note)


def _common(rows: Sequence[ClaimRow]) -> str:
    """Return what is seen in random networks too, so it says nothing about training."""
    if not any(row["random_models"] for row in rows):
        return "no untrained model was measured, so this run says nothing about training."
    common = "; ".join(row["words"] for row in rows if row["group"] == "common")
    return finished(common or "nothing that is seen here")


def _open(rows: Sequence[ClaimRow], scope: str) -> str:
    """Return what the run's numbers leave open."""
    standings = Counter(row["standing"] for row in rows)
    questions = {
        "{} undecided, since an interval covers the limit or numbers are few, here or in random networks":
            standings["open"],
        "what people would find: an automatic proxy labelled for {}": sum(PROXY in row["notes"] for row in rows),
        "{} not measured": standings["not_attempted"] + standings["not_applicable"],
    }  # fmt: skip
    parts = [text.format(counted(n, "claim", "claims")) for text, n in questions.items() if n]
    if scope != "paper":
        parts.insert(0, "whether the paper's own numbers are right: this is another model")
    if kinds := sorted({row["resampled"].partition(" by ")[0] for row in rows if row["resampled"]}):
        parts.append(f"how numbers differ between training runs: intervals come from other {listed(kinds, 'or')} alone")
    return finished("; ".join(parts) or "nothing was left open")


def looked_at(asked: int | dict[int, list[int]] | None, neurons: int, seed: int) -> str:
    """Return in words which of d_m memories, ``neurons``, a run looks at (``triggers.keys``); empty for all."""
    if asked is None:
        return ""
    if isinstance(asked, int):
        return f"{asked:,} of {neurons:,} memories per layer, drawn with seed {seed}"
    named = counted(sum(map(len, asked.values())), "listed memory", "listed memories")
    return f"{named} in {counted(len(asked), 'layer', 'layers')} of {neurons:,} memories each"

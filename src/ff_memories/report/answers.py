"""Tell a run's claims in sentences: its first lines, an answer for each section, and how many claims hold.

What is said of a claim is in ``claims.toml``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ff_memories.config import Settings
from ff_memories.judge.numbers import number
from ff_memories.judge.wording import PROXY, SAMPLED_TEXT, VERDICTS, beside, self_sampled, sentence, word
from ff_memories.model.info import quantised
from ff_memories.report.wording import counted, finished, listed, looked_at

Row = dict[str, Any]  # of ``outline.rows``
JUDGED = ("reproduced", "holds", "too_small", "not_reproduced", "fails", "undecided")
FIRST = ("first", "readme")  # sentences of the first screen (``shown`` in claims.toml)
SIGNIFICANT = 0.05
NAMED = 6  # claims at most that are named where they are not told
SOURCES = {
    "docstrings": "prose from the docstrings of pinned Python packages",
    "wikitext-103": "WikiText-103",
    None: "the run's own text files",
}


@dataclass(frozen=True)
class FirstLines:
    """What a reader learns first of a run, on its page and on the terminal.

    Attributes:
        run: what was run.
        findings: what was found, as far as it was measured: a claim's sentence, and what stands beside it.
        training: what is due to training.
        open: what the run cannot say.
    """

    run: str
    findings: list[tuple[str, str]]
    training: str
    open: str

    @property
    def lines(self) -> list[str]:
        """Return all of it as lines of text."""
        findings = [f"{sentence} ({more})." for sentence, more in self.findings]
        return [self.run, *findings, f"Due to training: {self.training}", f"What cannot be said: {self.open}"]


def first_lines(
    rows: Sequence[Row], counts: pl.DataFrame, config: Settings, info: Mapping[str, Any], models: int = 0
) -> FirstLines:
    """Return a run's first lines.

    Args:
        rows: all claims, from ``outline.rows``.
        counts: the table.
        config: the run's settings.
        info: the run's model info.
        models: the number of untrained models that were measured.
    """
    findings = [(sentence(row), beside(row)) for row in rows if row["shown"] in FIRST and row["measured"] is not None]
    paper = [row for row in rows if not row["beyond"]]
    return FirstLines(
        _what_was_run(len(paper), counts, config, info), findings, _training(rows, models), _open(paper, info["scope"])
    )


def answer(section: str, rows: Sequence[Row]) -> str:
    """Return a section's answer: the sentences of its claims, and how many of them hold.

    Args:
        section: its number in the paper.
        rows: all claims, from ``outline.rows``.
    """
    of_section = [row for row in rows if row["section"] == section]
    sentences = [clause(row) for row in of_section if row["shown"] and row["measured"] is not None]
    sentences += [
        f"{row['reason']} ({row['claim']} not applicable)"
        for row in of_section
        if row["shown"] and row["verdict"] == "not_applicable" and row["scope"] == "model"
    ]
    if any(SAMPLED_TEXT in (row["reason"] or "") for row in of_section):
        sentences.append(SAMPLED_TEXT)
    return " ".join(map(finished, [*sentences, tally(of_section)]))


def clause(row: Row) -> str:
    """Return the sentence of a claim that has a number, with what stands beside it."""
    return f"{sentence(row)} ({beside(row)})"


def tally(rows: Sequence[Row]) -> str:
    """Return how many claims have each verdict, and which, without the claims that are not judged."""
    by_verdict = {verdict: of(rows, verdict) for verdict in JUDGED}
    parts = [
        f"{len(claims)} {word(verdict) if len(claims) == 1 else VERDICTS[verdict]['many']} ({ids(claims)})"
        for verdict, claims in by_verdict.items()
        if claims
    ]
    if parts:
        return f"of {counted(sum(map(len, by_verdict.values())), 'judged claim', 'judged claims')}, {listed(parts)}"
    return "no claim here is judged" if of(rows, "measured") else "nothing here was measured"


def how_sure(rows: Sequence[Row], choices: Mapping[str, Any] | None) -> str:
    """Return how certain the verdicts are.

    Args:
        rows: the claims, from ``outline.rows``.
        choices: from ``sensitivity.choices_section``, if the run measured it.
    """
    numbers = [row for row in rows if row["measured"] is not None]
    if not numbers:
        return "How sure is this? Nothing was measured."
    intervals = [row for row in numbers if row["low"] is not None]
    parts = [f"{len(intervals)} of {counted(len(numbers), 'number has', 'numbers have')} a 95 % interval"]
    if kinds := _resampled(rows):
        parts[0] += f", which says how it varies with other {kinds}, not with another training run"
    if tested := [row for row in rows if row["p_holm"] is not None]:
        clear = sum(row["p_holm"] < SIGNIFICANT for row in tested)
        directions = counted(len(tested), "tested direction", "tested directions")
        parts.append(f"significant (p < {SIGNIFICANT} after Holm's correction): {clear} of {directions}")
    if choices is None:
        parts.append("this run tried no alternative analysis choices")
    else:
        becomes = f" ({listed(choices['becomes'])})" if choices["becomes"] else ""
        changed = counted(len({row["claim"] for row in choices["changed"]}), "verdict", "verdicts")
        tried = counted(choices["tried"], "alternative analysis choice", "alternative analysis choices")
        parts.append(f"verdicts that change under at least one of {tried}: {changed}{becomes}")
    return f"How sure is this? {finished('; '.join(parts))}"


def named(info: Mapping[str, Any]) -> str:
    """Return whose results a run's are: a model of `transformers` by its name on the hub, or else by its family."""
    if info["scope"] != "model":
        return "the paper's own model" if info["scope"] == "paper" else "a stand-in model"
    return str(info.get("hub") or info.get("source") or f"a model of the family {info['model_type']}")


def _what_was_run(claims: int, counts: pl.DataFrame, config: Settings, info: Mapping[str, Any]) -> str:
    size = [f"{info['layers']} layers"]
    if parameters := info.get("parameters"):
        size.append(f"{parameters:,} parameters")
    if perplexity := info.get("perplexity"):
        alone = f", {number(perplexity)} one sentence at a time" if info.get("in_windows") else ""
        size.append(f"validation perplexity {number(info.get('in_windows') or perplexity)}{alone}")
    corpus = dict(counts.filter(pl.col("step") == "corpus").select("reason", "n").iter_rows())
    parts = [
        f"{corpus[f'{split}_tokens']:,} tokens in "
        f"{counted(corpus[f'{split}_sentences'], 'sentence', 'sentences')} {why}"
        for split, why in (("train", "to find triggers"), ("validation", "to test predictions"))
        if f"{split}_tokens" in corpus
    ]
    text = SOURCES.get(config.corpus.source, config.corpus.source)
    tested = f"{counted(claims, 'claim', 'claims')} of the paper, on {named(info)} ({', '.join(size)})"
    sentences = f"{tested} and {': '.join(filter(None, [text, ' and '.join(parts)]))}."
    notes = [quantised(info), SAMPLED_TEXT if self_sampled(counts) else None]
    sentences += "".join(f" {finished(note)}" for note in notes if note)
    some = looked_at(config.looked_at, info.get("neurons", info["keys"]), config.seed) if config.looked_at else ""
    return sentences + (f" It looks at the triggers of {some}." if some else "")


def _training(rows: Sequence[Row], models: int) -> str:
    """Return what training changes, by the comparison with untrained models on the same sentences."""
    compared = [row for row in rows if row["training"] is not None]
    if not compared:
        return "no number could be compared with untrained models, so this run says nothing about training."
    papers, beyond_paper = ([row for row in compared if row["beyond"] == beyond] for beyond in (False, True))
    changed = [row for row in papers if row["training"] in ("higher", "lower")]
    sentences = [
        f"training changes {len(changed)} of {counted(len(papers), 'number', 'numbers')}, all on the same sentences"
    ]
    sentences += _changes(papers, counted(models, "untrained model does", "untrained models do")) + _of_scale(changed)
    if beyond_paper:
        sentences.append(f"beyond the paper's claims, {'; '.join(_changes(beyond_paper, 'untrained models do'))}")
    return " ".join(map(finished, sentences))


def _changes(rows: Sequence[Row], models: str) -> list[str]:
    """Say which numbers training changes, and how, and which it does not."""
    lowered = [row for row in rows if row["training"] == "lower"]
    kinds = {
        "it raises {}": [row for row in rows if row["training"] == "higher"],
        "it lowers {}": [row for row in lowered if row["sample"] >= 0],
        "it makes {} more negative": [row for row in lowered if row["sample"] < 0],
        "it changes {} by less than what counts as a difference": [row for row in rows if row["training"] == "same"],
        f"{models} not tell for {{}}": [row for row in rows if row["training"] == "undecided"],
    }
    return [
        text.format(_few(claims) if "not tell" in text else ids(claims)) for text, claims in kinds.items() if claims
    ]


def _of_scale(changed: Sequence[Row]) -> list[str]:
    """Say which numbers a model with the trained entries of each matrix, in a random order, comes halfway to."""
    compared = [row for row in changed if row["shuffled"] is not None]
    near = [row for row in compared if abs(row["shuffled"] - row["sample"]) < abs(row["baseline"] - row["sample"]) / 2]
    if near:
        return [f"for {ids(near)}, shuffling the entries of each trained matrix keeps more than half of the "
                "difference, so the scale of the weights may explain it"]  # fmt: skip
    return ["the scale of the weights explains none of them: shuffling the entries of each trained matrix keeps less "
            "than half of each difference"] if compared else []  # fmt: skip


def _open(rows: Sequence[Row], scope: str) -> str:
    """Return what the run's numbers leave open."""
    proxied = [row for row in rows if PROXY in row["notes"]]
    questions = {
        "whether the model shows {}: the interval covers the limit, or the values are few": of(rows, "undecided"),
        "whether training changes {}": [row for row in rows if row["training"] == "undecided"],
        "what people would find: an automatic proxy labelled what {} count": proxied,
        "anything on {}, not measured": of(rows, "not_attempted") + of(rows, "not_applicable"),
    }
    parts = [text.format(_few(claims)) for text, claims in questions.items() if claims]
    if scope != "paper":
        parts.insert(0, "whether the paper's own numbers are right: this is another model")
    if kinds := _resampled(rows):
        parts.append(f"how numbers differ between training runs: intervals come from other {kinds} alone")
    return finished("; ".join(parts) or "nothing was left open")


def _resampled(rows: Sequence[Row]) -> str:
    """Return what the intervals resample."""
    return listed(sorted({row["resampled"] for row in rows if row["low"] is not None and row["resampled"]}), "or")


def of(rows: Sequence[Row], verdict: str) -> list[Row]:
    return [row for row in rows if row["verdict"] == verdict]


def _few(rows: Sequence[Row]) -> str:
    """Name claims, or count them if they are many."""
    return ids(rows) if len(rows) <= NAMED else f"{len(rows)} claims"


def ids(rows: Sequence[Row]) -> str:
    return listed([row["claim"] for row in rows])

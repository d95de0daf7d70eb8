"""Write a run's answers in sentences from its verdicts and numbers: five for the whole run, one for each section."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from ff_memories.claims import summary
from ff_memories.claims.numbers import measured, number
from ff_memories.config import Settings
from ff_memories.report.methods import SOURCES
from ff_memories.report.outline import PROXY, SECTIONS
from ff_memories.report.wording import counted, listed, looked_at, sentence

Row = dict[str, Any]  # of ``outline.rows``
Found = Mapping[str, Row]  # a section's claims that were measured
Answer = tuple[str, list[str]]  # the short answer, and clauses with the numbers behind it
HOLDING, FAILING, UNTRAINED_TOO = ("holds", "reproduced"), ("fails", "not_reproduced"), ("holds_as_untrained",)
JUDGED = HOLDING + UNTRAINED_TOO + FAILING
UNDEFINED = ("K18",)  # in models without inactive memories
SIGNIFICANT = 0.05
FEW, HALF = 0.1, 0.5  # bounds of a share
TWICE = 2  # shares within this factor of each other count as alike


def five(
    rows: Sequence[Row],
    counts: pl.DataFrame,
    config: Settings,
    info: Mapping[str, Any],
    choices: Mapping[str, Any] | None = None,
) -> list[str]:
    """Return five sentences: what was run, what holds, what does not, what says little, and how certain it is.

    Args:
        rows: all claims, from ``outline.rows``.
        counts: the table.
        config: the run's settings.
        info: the run's model info.
        choices: from ``sensitivity.choices_section``, if the run measured it.
    """
    return [
        _what_was_run(rows, counts, config, info),
        _what_holds(rows),
        _what_does_not(rows),
        _what_says_little(rows),
        _how_sure(rows, choices),
    ]


def answer(section: str, rows: Sequence[Row], most: int | None = None) -> str:
    """Return a section's answer: a short answer, the numbers behind it, and how many of its claims hold.

    Args:
        section: its number in the paper.
        rows: all claims, from ``outline.rows``.
        most: the largest number of clauses to give.
    """
    own = [row for row in rows if row["section"] == section]
    short, clauses = _answer(section, rows)
    told = ": ".join(filter(None, [short, "; ".join(list(filter(None, clauses))[:most])]))
    return " ".join(sentence(text) for text in (told, _tally(own)) if text)


def in_short(section: str, rows: Sequence[Row]) -> str:
    """Return a section's short answer, or nothing if its numbers are missing."""
    short, _ = _answer(section, rows)
    return sentence(short) if short else ""


def _answer(section: str, rows: Sequence[Row]) -> Answer:
    own = {row["claim"]: row for row in rows if row["section"] == section}
    short, clauses = ANSWERS[section]({claim: row for claim, row in own.items() if row["measured"] is not None})
    return short, [*clauses, *(_not_defined(own[claim]) for claim in UNDEFINED if claim in own)]


def _not_defined(row: Row) -> str:
    """Return why a claim is not defined for a model, and what it has instead; nothing if the claim is."""
    defined = row["verdict"] != "not_applicable" or row["scope"] != "model"
    return "" if defined else f"{row['reason']} ({row['claim']} not applicable)"


def _what_was_run(rows: Sequence[Row], counts: pl.DataFrame, config: Settings, info: Mapping[str, Any]) -> str:
    whose = named(info)
    size = [f"{info['layers']} layers"]
    if parameters := info.get("parameters"):
        size.append(f"{parameters:,} parameters")
    if perplexity := info.get("perplexity"):
        size.append(f"validation perplexity {number(perplexity)}")
    text = SOURCES.get(config.corpus.source, config.corpus.source)
    found = dict(counts.filter(pl.col("step") == "corpus").select("reason", "n").iter_rows())
    tokens, sentences = (sum(found.get(f"{split}_{what}", 0) for split in ("train", "validation"))
                         for what in ("tokens", "sentences"))  # fmt: skip
    sized = f"({', '.join(size)})" + (", not the paper's model," if info["scope"] == "model" else "")
    tested = f"This run tests {counted(len(rows), 'claim', 'claims')} of the paper on {whose} {sized}"
    much = f"{tokens:,} tokens in {counted(sentences, 'sentence', 'sentences')} of " if tokens else ""
    some = looked_at(config.looked_at, info.get("neurons", info["keys"]), config.seed) if config.looked_at else ""
    said = f"{tested} and {much}{text}." + (f" It looks at the triggers of {some}." if some else "")
    if info["scope"] != "model":
        return said
    return f"{said} It says whether the same is seen here, and nothing about the paper's numbers."


def named(info: Mapping[str, Any]) -> str:
    """Return whose results a run's are: a model of `transformers` by its name on the hub, or else by its family."""
    if info["scope"] != "model":
        return "the paper's own model" if info["scope"] == "paper" else "a stand-in model"
    return str(info.get("hub") or f"a model of the family {info['model_type']}")


def _what_holds(rows: Sequence[Row]) -> str:
    judged, holding = _of(rows, JUDGED), _of(rows, HOLDING)
    if not judged:
        return "No claim is judged."
    return sentence(_holding(rows) + (f": {_by_section(holding, judged)}" if holding else ""))


def _what_does_not(rows: Sequence[Row]) -> str:
    judged, failing = _of(rows, JUDGED), _of(rows, FAILING)
    if not failing:
        return "No judged claim fails." if judged else "No claim fails, because none is judged."
    told = f"{_some_of(failing, judged)} {_verb(rows, len(failing), no=True)}"
    return sentence(f"{told}: {_by_section(failing, judged)}")


def _what_says_little(rows: Sequence[Row]) -> str:
    said = []
    if too := _of(rows, UNTRAINED_TOO):
        them = "it says" if len(too) == 1 else "they say"
        said.append(f"{counted(len(too), 'claim holds', 'claims hold')} in an untrained model too, so {them} "
                    f"nothing about training ({_ids(too)})")  # fmt: skip
    if number_only := _of(rows, ("measured",)):
        why = ", because only the paper's own model could confirm the stated sizes"
        what = counted(len(number_only), "claim is", "claims are")
        said.append(f"{what} measured, not judged{why if rows[0]['scope'] != 'paper' else ''}")
    if nothing := _of(rows, ("not_applicable",)):
        said.append(f"{counted(len(nothing), 'claim has', 'claims have')} nothing to measure here")
    if later := _of(rows, ("not_attempted",)):
        said.append(f"{counted(len(later), 'claim was', 'claims were')} not attempted")
    if not any(row["baseline"] is not None for row in rows):
        said.append("this run has no untrained model to compare with")
    return sentence("; ".join(said) or "every claim is judged, and none holds in an untrained model too")


def _how_sure(rows: Sequence[Row], choices: Mapping[str, Any] | None) -> str:
    numbers = [row for row in rows if row["measured"] is not None]
    if not numbers:
        return "How sure is this? Nothing was measured."
    intervals = [row for row in numbers if row["low"] is not None]
    said = [f"{len(intervals)} of {counted(len(numbers), 'number has', 'numbers have')} a 95 % interval"]
    if kinds := sorted({row["resampled"] for row in intervals if row["resampled"]}):
        said[0] += f", from resampling {listed(kinds, 'or')}, not from training more models"
    if tested := [row for row in rows if row["p_holm"] is not None]:
        clear = sum(row["p_holm"] < SIGNIFICANT for row in tested)
        clearer = f"{'is' if clear == 1 else 'are'} significant (p < {SIGNIFICANT} after Holm's correction)"
        said.append(f"{clear} of {counted(len(tested), 'tested direction', 'tested directions')} {clearer}")
    if choices is None:
        said.append("this run tried no alternative analysis choices")
    else:
        flips = list(dict.fromkeys(row["claim"] for row in choices["flips"]))
        which = f" ({listed(flips)})" if flips else ""
        tried = counted(choices["tried"], "alternative analysis choice", "alternative analysis choices")
        said.append(f"{counted(len(flips), 'verdict', 'verdicts')}{which} {'flips' if len(flips) == 1 else 'flip'} "
                    f"under at least one of {tried}")  # fmt: skip
    return f"How sure is this? {sentence('; '.join(said))}"


def _keys(found: Found) -> Answer:
    lowers = "removing a trigger's last token lowers the key's coefficient by {size} {how} than removing its first"
    short = ""
    if "K1" in found and "K2" in found:
        above_all = found["K1"]["measured"] < 0 and found["K2"]["measured"] < 0
        short = f"{'' if above_all else 'not '}mostly to the last token{_alike(found, 'K1', 'K2')}"
    return short, [
        _clause(found, "K1", lowers, ("more", "less")),
        _clause(found, "K5", "in layer 1, removing the last token changes the coefficient by {value}"),
        _clause(found, "K6", "{value} of the annotated keys have a pattern"),
    ]


def _values(found: Found) -> Answer:
    return _degree(found, "K11", "rarely", "sometimes", "mostly"), [
        _clause(found, "K11", "in the best upper layer, {value} of the values agree with their key's top trigger"),
        _clause(found, "K12", "mean agreement in the upper layers is {value} that in the lower half"),
        _clause(
            found, "K17", "{value} of the 100 most predictive values agree with at least one of their key's triggers"
        ),
    ]


def _memories(found: Found) -> Answer:
    alone = "in every layer, for at least {value} of the examples, no active memory makes the layer's prediction"
    single = "in at least one layer, a single memory usually makes the layer's prediction"
    return _degree(found, "K20", single, single, "rarely by a single memory"), [
        _clause(found, "K20", alone),
        _clause(found, "K18", "the median share of active memories is {value}"),
        _clause(found, "K21", "{value} of the layer predictions that a memory agrees with are stop words"),
    ]


def _predictions(found: Found) -> Answer:
    predicts = "residual predicts the model's output for {value} of the examples"
    short = ""
    if "K23" in found and "K24" in found:
        early, late = found["K23"]["measured"] >= HALF, found["K24"]["measured"] >= HALF
        where = "early" if early else "late" if late else "for most examples, not even in the last layer"
        short = f"{where}{_alike(found, 'K24')}"
    return short, [
        _clause(found, "K24", f"the last layer's {predicts}"),
        _clause(found, "K23", f"the lowest layers' {predicts}"),
        _clause(found, "K28", "{value} of changed predictions are compositions (a third token)"),
    ]


ANSWERS = {"3.2": _keys, "4": _values, "5.1": _memories, "5.2": _predictions}


def _degree(found: Found, claim: str, few: str, some: str, most: str) -> str:
    """Return the word for a claim's share, ``few``, ``some`` or ``most``; nothing if it was not measured."""
    if claim not in found:
        return ""
    share = found[claim]["measured"]
    return (most if share >= HALF else some if share >= FEW else few) + _alike(found, claim)


def _alike(found: Found, *claims: str) -> str:
    """Say so if an untrained model does the same, by verdict, or by the numbers of claims that are not judged."""
    return ", as in an untrained model" if all(_is_alike(found[claim]) for claim in claims) else ""


def _is_alike(row: Row) -> bool:
    if row["verdict"] in JUDGED or row["baseline"] is None:
        return row["verdict"] in UNTRAINED_TOO
    return bool(row["measured"] <= TWICE * row["baseline"] and row["baseline"] <= TWICE * row["measured"])


def _clause(found: Found, claim: str, text: str, how: tuple[str, str] = ("", "")) -> str:
    """Return a clause with a claim's number, its verdict and the untrained model's number; nothing if not measured.

    Args:
        found: the section's claims that have a number.
        claim: its id.
        text: a template with ``{value}``, or with ``{size}`` (the value without its sign) and ``{how}``.
        how: the words for a negative or zero number, and for a positive one.
    """
    if claim not in found:
        return ""
    row = found[claim]
    said = [f"{claim} {'not judged' if row['verdict'] == 'measured' else summary.word(row['verdict'])}"]
    if row["baseline"] is not None:
        said.append("untrained: " + ("{size} {how}" if how[0] else "{value}").format(**_fields(row, "baseline", how)))
    guessed = {other["baseline"]: other["measured"] for other in row.get("baselines", ())}.get("unigram")
    if guessed is not None:
        said.append(f"always guessing the most frequent token: {measured(guessed, row['unit'])}")
    if row["proxy"]:
        said.append(PROXY)
    return f"{text.format(**_fields(row, 'measured', how))} ({'; '.join(said)})"


def _fields(row: Row, column: str, how: tuple[str, str]) -> dict[str, str]:
    value, unit = row[column], row["unit"]
    return {"value": measured(value, unit), "size": measured(abs(value), unit), "how": how[value > 0]}


def _tally(rows: Sequence[Row]) -> str:
    judged, too, failing = (_of(rows, names) for names in (JUDGED, UNTRAINED_TOO, FAILING))
    if not judged:
        return "no claim here is judged" if _of(rows, ("measured",)) else "nothing here was measured"
    said = [_holding(rows)]
    if too:
        said.append(f"{counted(len(too), 'holds', 'hold')} in an untrained model too ({_ids(too)})")
    if failing and len(failing) < len(judged):
        said.append(f"{len(failing)} {_verb(rows, len(failing), no=True)} ({_ids(failing)})")
    return "; ".join(said)


def _holding(rows: Sequence[Row]) -> str:
    """Return how many of the judged claims hold, and whether they need training, if untrained models were measured."""
    judged, holding = _of(rows, JUDGED), _of(rows, HOLDING)
    if holding:
        return f"{_some_of(holding, judged)} {_verb(rows, len(holding))}{_beyond(holding)}"
    beyond = _beyond(judged) if _of(rows, UNTRAINED_TOO) else ""
    if len(judged) == 1:
        return f"the one judged claim {_verb(rows, 1, no=True)}{beyond}"
    return f"none of the {len(judged)} judged claims {_verb(rows, 1)}{beyond}"


def _of(rows: Sequence[Row], verdicts: Sequence[str]) -> list[Row]:
    return [row for row in rows if row["verdict"] in verdicts]


def _beyond(rows: Sequence[Row]) -> str:
    return " only with training" if any(_compared(row) for row in rows) else ""


def _compared(row: Row) -> bool:
    """Say whether a verdict takes untrained models into account; ``reproduced`` does not."""
    return row["scope"] != "paper" and row["baseline"] is not None


def _some_of(rows: Sequence[Row], judged: Sequence[Row]) -> str:
    if len(judged) == 1:
        return "the one judged claim"
    return f"{'all' if len(rows) == len(judged) else f'{len(rows)} of the'} {len(judged)} judged claims"


def _verb(rows: Sequence[Row], n: int, no: bool = False) -> str:
    if rows[0]["scope"] == "paper":
        return ("is" if n == 1 else "are") + (" not reproduced" if no else " reproduced")
    if no:
        return "does not hold" if n == 1 else "do not hold"
    return "holds" if n == 1 else "hold"


def _by_section(rows: Sequence[Row], judged: Sequence[Row]) -> str:
    said = []
    for section in SECTIONS:
        own = [row for row in rows if row["section"] == section.number]
        if own:
            among = sum(row["section"] == section.number for row in judged)
            about = section.title[0].lower() + section.title[1:]
            said.append(f"{len(own)} of {among} on {about} ({_ids(own)})")
    return listed(said)


def _ids(rows: Sequence[Row]) -> str:
    return listed([row["claim"] for row in rows])

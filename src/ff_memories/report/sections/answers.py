"""Write a run's verdicts in sentences: how many claims hold in the whole run, and an answer for each section."""

from collections.abc import Mapping, Sequence
from typing import Any

from ff_memories.claims import own_text
from ff_memories.claims.judging.verdicts import TYPES
from ff_memories.claims.numbers import measured
from ff_memories.claims.shown import summary
from ff_memories.report.sections.outline import BEYOND, OWN_TEXT, PROXY, SECTIONS
from ff_memories.report.wording import counted, listed, sentence

Row = dict[str, Any]  # of ``outline.rows``
Found = Mapping[str, Row]  # a section's claims that were measured
Answer = tuple[str, list[str]]  # the short answer, and clauses with the numbers behind it
HOLDING, FAILING, OPEN = ("holds", "reproduced"), ("fails", "not_reproduced"), ("undecided",)
SMALL = ("too_small",)
JUDGED = HOLDING + SMALL + FAILING + OPEN
UNDEFINED = ("K18",)  # in models without inactive memories
SIGNIFICANT = 0.05
FEW, HALF = 0.1, 0.5  # bounds of a share


def verdicts(rows: Sequence[Row], choices: Mapping[str, Any] | None = None) -> list[str]:
    """Return three sentences: how many claims hold, how many do not, and how certain this is.

    Args:
        rows: all claims, from ``outline.rows``.
        choices: from ``sensitivity.choices_section``, if the run measured it.
    """
    return [_what_holds(rows), _what_does_not(rows), _how_sure(rows, choices)]


def answer(section: str, rows: Sequence[Row]) -> str:
    """Return a section's answer: a short answer, the numbers behind it, and how many of its claims hold.

    Args:
        section: its number in the paper.
        rows: all claims, from ``outline.rows``.
    """
    own = [row for row in rows if row["section"] == section]
    short, clauses = _answer(section, rows)
    told = ": ".join(filter(None, [short, "; ".join(filter(None, clauses))]))
    drawn = own_text.SAID if any(row["own_text"] for row in own) else ""
    return " ".join(sentence(text) for text in (told, drawn, _tally(own)) if text)


def _answer(section: str, rows: Sequence[Row]) -> Answer:
    own = {row["claim"]: row for row in rows if row["section"] == section}
    short, clauses = ANSWERS[section]({claim: row for claim, row in own.items() if row["measured"] is not None})
    return short, [*clauses, *(_not_defined(own[claim]) for claim in UNDEFINED if claim in own)]


def _not_defined(row: Row) -> str:
    """Return why a claim is not defined for a model, and what it has instead; nothing if the claim is."""
    defined = row["verdict"] != "not_applicable" or row["scope"] != "model"
    return "" if defined else f"{row['reason']} ({row['claim']} not applicable)"


def _what_holds(rows: Sequence[Row]) -> str:
    judged, holding, small = (of(rows, names) for names in (JUDGED, HOLDING, SMALL))
    if not judged:
        return "No claim is judged."
    said = [_holding(rows) + (f": {_by_section(holding, judged, named=False)}" if holding else "")]
    if small:
        said.append(
            f"{counted(len(small), 'more shows', 'more show')} the direction, but less than stated ({ids(small)})"
        )
    return sentence("; ".join(said))


def _what_does_not(rows: Sequence[Row]) -> str:
    judged, failing, undecided = (of(rows, names) for names in (JUDGED, FAILING, OPEN))
    if not judged:
        return "No claim fails, because none is judged."
    said = [
        f"{_some_of(failing, judged)} {_verb(rows, len(failing), no=True)}: {_by_section(failing, judged)}"
        if failing
        else "no judged claim fails"
    ]
    if undecided:
        said.append(f"{counted(len(undecided), 'is', 'are')} undecided ({ids(undecided)})")
    return sentence("; ".join(said))


def _how_sure(rows: Sequence[Row], choices: Mapping[str, Any] | None) -> str:
    numbers = [row for row in rows if row["measured"] is not None]
    if not numbers:
        return "How sure is this? Nothing was measured."
    intervals = [row for row in numbers if row["low"] is not None]
    said = [f"{len(intervals)} of {counted(len(numbers), 'number has', 'numbers have')} a 95 % interval"]
    if kinds := sorted({row["resampled"] for row in intervals if row["resampled"]}):
        said[0] += f", which says how it varies with other {listed(kinds, 'or')}, not with another training run"
    if tested := [row for row in rows if row["p_holm"] is not None]:
        clear = sum(row["p_holm"] < SIGNIFICANT for row in tested)
        clearer = f"{'is' if clear == 1 else 'are'} significant (p < {SIGNIFICANT} after Holm's correction)"
        said.append(f"{clear} of {counted(len(tested), 'tested direction', 'tested directions')} {clearer}")
    if choices is None:
        said.append("this run tried no alternative analysis choices")
    else:
        changed = {row["claim"] for row in choices["changed"]}
        which = f" ({listed(choices['becomes'])})" if changed else ""
        tried = counted(choices["tried"], "alternative analysis choice", "alternative analysis choices")
        said.append(
            f"{counted(len(changed), 'verdict', 'verdicts')}{which} {'changes' if len(changed) == 1 else 'change'} "
            f"under at least one of {tried}"
        )
    return f"How sure is this? {sentence('; '.join(said))}"


def _keys(found: Found) -> Answer:
    lowers = "removing a trigger's last token lowers the key's coefficient by {size} {how} than removing its first"
    short = ""
    if "K1" in found and "K2" in found:
        above_all = found["K1"]["measured"] < 0 and found["K2"]["measured"] < 0
        short = f"{'' if above_all else 'not '}mostly to the last token{alike(found, 'K1', 'K2')}"
    return short, [
        clause(found, "K1", lowers, ("more", "less")),
        clause(found, "K5", "in layer 1, removing the last token changes the coefficient by {value}"),
        clause(found, "K6", "{value} of the annotated keys have a pattern"),
    ]


def _values(found: Found) -> Answer:
    return degree(found, "K11", "rarely", "sometimes", "mostly"), [
        clause(found, "K11", "in the best upper layer, {value} of the values agree with their key's top trigger"),
        clause(found, "K12", "mean agreement in the upper layers is {value} that in the lower half"),
        clause(
            found, "K17", "{value} of the 100 most predictive values agree with at least one of their key's triggers"
        ),
    ]


def _memories(found: Found) -> Answer:
    return degree(found, "K20", *(f"in {where}" for where in MAKES)), [
        clause(found, "K20", NONE_PREDICTS),
        clause(found, "K18", "the median share of active memories is {value}"),
        clause(found, "K21", "{value} of the layer predictions that a memory agrees with are stop words"),
    ]


def _predictions(found: Found) -> Answer:
    predicts = "residual predicts the model's output for {value} of the examples"
    short = ""
    if "K23" in found and "K24" in found:
        early, late = found["K23"]["measured"] >= HALF, found["K24"]["measured"] >= HALF
        where = "early" if early else "late" if late else "for most examples, not even in the last layer"
        short = f"{where}{alike(found, 'K24')}"
    return short, [
        clause(found, "K24", f"the last layer's {predicts}"),
        clause(found, "K23", f"the lowest layers' {predicts}"),
        clause(found, "K28", "{value} of changed predictions are compositions (a third token)"),
    ]


_SOME = "at least one layer, some active memory usually predicts what the layer predicts"
MAKES = (
    _SOME,
    _SOME,
    "every layer, usually no active memory predicts what the layer predicts",
)  # rarely alone, or mostly
NONE_PREDICTS = "in every layer, for at least {value} of the examples none does"
SIGN = "the total effect has the direct effect's sign {size} {how} often than for matched memories{shares}"
SURVIVES = "{value} of the layers' predictions stay without the memory that adds most to their margin"
GROWS = "the share of the direct effect that is left correlates with the layer by {value}"


def removed(found: Found) -> str:
    """Return in a few words whether memories do what their values say; nothing if no memory was changed."""
    if "B1" not in found:
        return ""
    often = "more often" if found["B1"]["measured"] > 0 else "no more often"
    return f"Removing a memory does to tokens what its value says {often} than removing another{alike(found, 'B1')}"


def survives(found: Found) -> str:
    """Return in a few words whether layers' predictions survive without one memory; nothing if none was removed."""
    often = degree(found, "B4", "rarely", "sometimes", "mostly")
    return often and f"A layer's prediction {often.partition(',')[0]} survives without the memory that it owes most to"


def _removed(found: Found) -> Answer:
    return removed(found), [
        clause(found, "B1", SIGN, ("less", "more")),
        clause(found, "B2", GROWS),
        clause(found, "B3", "direct and total effect correlate by {value} within layers"),
        clause(found, "B4", SURVIVES),
    ]


ANSWERS = {"3.2": _keys, "4": _values, "5.1": _memories, "5.2": _predictions, BEYOND: _removed}


def degree(found: Found, claim: str, few: str, some: str, most: str) -> str:
    """Return the word for a claim's share, ``few``, ``some`` or ``most``; nothing if it was not measured."""
    if claim not in found:
        return ""
    share = found[claim]["measured"]
    return (most if share >= HALF else some if share >= FEW else few) + alike(found, claim)


def alike(found: Found, *claims: str) -> str:
    """Say so if untrained models have the same numbers."""
    return ", as in an untrained model" if all(found[claim]["training"] == "same" for claim in claims) else ""


def clause(found: Found, claim: str, text: str, how: tuple[str, str] = ("", ""), paper: bool = False) -> str:
    """Return a clause with a claim's number, its verdict, and that number and untrained models' on one text.

    Nothing if it was not measured.

    Args:
        found: the claims that have a number.
        claim: its id.
        text: a template with ``{value}``, or with ``{size}`` (the value without its sign) and ``{how}``.
        how: the words for a negative or zero number, and for a positive one.
        paper: whether to give the paper's value too.
    """
    if claim not in found:
        return ""
    row = found[claim]
    said = [f"{claim} {'not judged' if row['verdict'] == 'measured' else summary.word(row['verdict'])}"]
    if row["judged_as"] != row["measured_as"] and row["judged_unit"] != "number" and row["judged"] is not None:
        said[0] += f", judged by the {row['judged_as']}: {measured(row['judged'], row['judged_unit'])}"
    if paper:
        said.append(f"paper: {row['paper_value'].replace(';', ',')}")
    if row["baseline"] is not None:
        text_of = lambda column: ("{size} {how}" if how[0] else "{value}").format(**_fields(row, column, how))
        here = "" if row["sample"] is None else f"same sentences: {text_of('sample')}, "
        said.append(f"{here}untrained {text_of('baseline')}")
    guessed = {other["baseline"]: other["measured"] for other in row.get("baselines", ())}.get("unigram")
    if guessed is not None and (not paper or guessed >= row["measured"]):
        said.append(f"always guessing the most frequent token: {measured(guessed, row['unit'])}")
    said += [part for part in (row["reason"] or "").split("; ") if part.endswith(tuple(TYPES.values()))]
    said += [mark for mark, holds in ((PROXY, row["proxy"]), (OWN_TEXT, row["own_text"])) if holds]
    return f"{text.format(**_fields(row, 'measured', how))} ({'; '.join(said)})"


def _fields(row: Row, column: str, how: tuple[str, str]) -> dict[str, str]:
    value, unit = row[column], row["unit"]
    shares = f", {row['reason']}" if column == "measured" and " against " in (row["reason"] or "") else ""
    return {"value": measured(value, unit), "size": measured(abs(value), unit), "how": how[value > 0], "shares": shares}


def _tally(rows: Sequence[Row]) -> str:
    judged, small, failing, undecided = (of(rows, names) for names in (JUDGED, SMALL, FAILING, OPEN))
    if not judged:
        return "no claim here is judged" if of(rows, ("measured",)) else "nothing here was measured"
    said = [_holding(rows)]
    if small:
        said.append(f"{len(small)} less than stated ({ids(small)})")
    if failing and len(failing) < len(judged):
        said.append(f"{len(failing)} {_verb(rows, len(failing), no=True)} ({ids(failing)})")
    if undecided and len(undecided) < len(judged):
        said.append(f"{len(undecided)} undecided ({ids(undecided)})")
    return "; ".join(said)


def _holding(rows: Sequence[Row]) -> str:
    """Return how many of the judged claims hold."""
    judged, holding = of(rows, JUDGED), of(rows, HOLDING)
    if holding:
        return f"{_some_of(holding, judged)} {_verb(rows, len(holding))}"
    if len(judged) == 1:
        if judged[0]["verdict"] in FAILING:
            return f"the one judged claim {_verb(rows, 1, no=True)}"
        return f"the one judged claim is {summary.word(judged[0]['verdict'])}"
    return f"none of the {len(judged)} judged claims {_verb(rows, 1)}"


def of(rows: Sequence[Row], verdicts: Sequence[str]) -> list[Row]:
    return [row for row in rows if row["verdict"] in verdicts]


def _some_of(rows: Sequence[Row], judged: Sequence[Row]) -> str:
    if len(judged) == 1:
        return "the one judged claim"
    return f"{'all' if len(rows) == len(judged) else f'{len(rows)} of the'} {len(judged)} judged claims"


def _verb(rows: Sequence[Row], n: int, no: bool = False) -> str:
    if rows[0]["scope"] == "paper" and not rows[0]["beyond"]:
        return ("is" if n == 1 else "are") + (" not reproduced" if no else " reproduced")
    if no:
        return "does not hold" if n == 1 else "do not hold"
    return "holds" if n == 1 else "hold"


def _by_section(rows: Sequence[Row], judged: Sequence[Row], named: bool = True) -> str:
    """Count claims by section, and name them."""
    said = []
    for section in SECTIONS:
        own = [row for row in rows if row["section"] == section.number]
        if own:
            among = sum(row["section"] == section.number for row in judged)
            about = section.title[0].lower() + section.title[1:]
            said.append(f"{len(own)} of {among} on {about}" + (f" ({ids(own)})" if named else ""))
    return listed(said)


def ids(rows: Sequence[Row]) -> str:
    return listed([row["claim"] for row in rows])

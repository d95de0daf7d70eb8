"""Build the report's sections on annotators and on analysis choices."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from ff_memories.base.text import listed
from ff_memories.judge.numbers import measured
from ff_memories.judge.register import register
from ff_memories.judge.sensitivity import changes
from ff_memories.judge.wording import word
from ff_memories.report.wording import finished
from ff_memories.tables.annotation import ANNOTATOR, MODEL, PEOPLE, SIMULATED

# measure: its description and unit
ABOUT = {
    "shallow_precision": ("precision: of the shallow patterns found, those that had been planted", "share"),
    "shallow_recall": ("recall: of the planted shallow patterns, those that were found", "share"),
    "semantic_precision": ("precision: of the topics found, those that had been planted", "share"),
    "semantic_recall": ("recall: of the planted topics, those that were found", "share"),
    "passage_recall": ("text passages, mixed with random prefixes, found as a topic", "share"),
    "foil_rate": ("foils (random prefixes) labelled with a pattern", "share"),
    "agreement": ("annotator pairs that give a prefix the same label", "share"),
    "alpha_nominal": ("Krippendorff's alpha of the labels", "number"),
    "alpha_masi": ("Krippendorff's alpha of the sets of types, MASI distance", "number"),
    "gwet_ac1": ("Gwet's AC1 of the labels", "number"),
    "distance_agreement": ("annotator pairs that judge a composition alike", "share"),
    "distance_alpha_nominal": ("Krippendorff's alpha of the judgements of compositions", "number"),
    "repeat_agreement": ("prefixes labelled the same when a key is shown again", "share"),
    "patterns_per_key": ("patterns per key", "number"),
    "keys_with_pattern": ("keys with a pattern", "share"),
    "coverage": ("prefixes with a pattern", "share"),
    "labels_as_proxy": ("prefixes with the same label as the proxy's", "share"),
    "labels_as_people": ("prefixes with the same label as a person's, mean over people", "share"),
    "proxy_patterns_found": ("proxy patterns that the annotator also found", "share"),
    "proxy_types_alike": ("of these, patterns of the same type", "share"),
    "own_patterns_found_by_proxy": ("annotator's patterns that the proxy also found", "share"),
    "distant": ("compositions judged distant (the paper: 66 of 100)", "share"),
}


def annotation_section(scores: pl.DataFrame) -> dict[str, Any]:
    """Return the template's data from `annotation_scores`: the proxy, people together, then each person and model."""
    names = [name for name in scores["who"].unique().sort() if name not in (ANNOTATOR, PEOPLE)]
    titles = {ANNOTATOR: "Automatic proxy", PEOPLE: "Agreement between annotators"}
    groups = []
    for who in (ANNOTATOR, PEOPLE, *names):
        rows = {row["measure"]: row for row in scores.filter(pl.col("who") == who).iter_rows(named=True)}
        shown = [rows[m] | {"about": text, "unit": unit} for m, (text, unit) in ABOUT.items() if m in rows]
        if shown:
            kind = "Language model" if who.startswith(MODEL) else "Annotator"
            groups.append((titles.get(who, f"{kind} {who.removeprefix(MODEL)}"), shown))
    simulated = any(name.startswith(SIMULATED) for name in names)
    people = [name for name in names if not name.startswith(MODEL)]
    return {"groups": groups, "people": bool(people), "models": len(names) > len(people), "simulated": simulated}


def choices_section(table: pl.DataFrame, part: dict[str, Any] | None) -> dict[str, Any]:
    """Return the template's data from the `sensitivity` table: its figure, counts, changed verdicts, largest effects.

    ``strongest`` maps each claim that a choice moves to a choice that changes its verdict, or else to the one with the
    largest effect.
    """
    frame, units = changes(table), {claim.id: claim.unit for claim in register()}
    tried = frame.select("choice", "value").unique().height
    moving = frame.filter(pl.col("beyond")).select("choice", "value").unique().height
    rows = [row | {"unit": units[row["claim"]]} for row in frame.iter_rows(named=True)]
    changed = [row for row in rows if row["changed"]]
    farthest: dict[str, dict[str, Any]] = {}
    for row in sorted((r for r in rows if r["beyond"] and r["change"]), key=lambda r: -abs(r["change"])):
        farthest.setdefault(row["claim"], row)
    choices: dict[tuple[str, str, str], list[str]] = {}
    for row in changed:
        words = (word(row["was"]), word(row["verdict"]))
        choices.setdefault((row["claim"], *words), []).append(f"{row['choice']}: {row['value']}")
    changing = [
        f"the verdict on {claim} changes from “{was}” to “{verdict}” with {listed(names, 'or')}"
        for (claim, was, verdict), names in choices.items()
    ] or ["no verdict changes"]
    if refused := list(dict.fromkeys(f"{row['choice']}: {row['value']}" for row in rows if row["refused"])):
        changing.append(f"a run with {listed(refused, 'or')} is refused, so it has no verdicts")
    return {
        "part": part,
        "tried": tried,
        "moving": moving,
        "changed": changed,
        "changing": finished("; ".join(changing)),
        "farthest": sorted(farthest.values(), key=rows.index),
        "strongest": farthest | {row["claim"]: row for row in reversed(changed) if row["measured"] is not None},
    }


def influence(row: Mapping[str, Any]) -> str:
    """Return a sentence on the choice with the largest effect on a claim: of ``strongest`` in ``choices_section``."""
    verdict = f", and the verdict becomes “{word(row['verdict'])}”" if row["changed"] else ""
    number, own = (measured(row[column], row["unit"]) for column in ("measured", "baseline"))
    return f"With {row['choice']}: {row['value']}, it is {number} instead of {own}{verdict}."

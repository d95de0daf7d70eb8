"""Build the report's section on annotators: their agreement, their error on noise, and the proxy's accuracy."""

from typing import Any

import polars as pl

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

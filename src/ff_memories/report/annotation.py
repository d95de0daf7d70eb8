"""The report's section on annotators: how far they agree, what they see in noise, and how good the proxy is."""

from typing import Any

import polars as pl

from ff_memories.patterns.annotators import ANNOTATOR, PEOPLE, SIMULATED

# measure: what it is, in words, and its unit
ABOUT = {
    "shallow_precision": ("found shallow patterns that were planted", "share"),
    "shallow_recall": ("planted shallow patterns that were found", "share"),
    "semantic_precision": ("found topics that were planted", "share"),
    "semantic_recall": ("planted topics that were found", "share"),
    "passage_recall": ("passages of the text, among random prefixes, that were found as a topic", "share"),
    "foil_rate": ("foils, of random prefixes, with a pattern seen in them", "share"),
    "agreement": ("pairs of annotators with the same label for a prefix", "share"),
    "alpha_nominal": ("Krippendorff's alpha of the labels", "number"),
    "alpha_masi": ("Krippendorff's alpha of the sets of types, MASI distance", "number"),
    "gwet_ac1": ("Gwet's AC1 of the labels", "number"),
    "distance_agreement": ("pairs of annotators with the same judgement of a composition", "share"),
    "distance_alpha_nominal": ("Krippendorff's alpha of the judgements of compositions", "number"),
    "repeat_agreement": ("prefixes labelled alike when a key was shown again", "share"),
    "patterns_per_key": ("patterns in a key", "number"),
    "keys_with_pattern": ("keys with a pattern", "share"),
    "coverage": ("prefixes with a pattern", "share"),
    "labels_as_proxy": ("prefixes labelled as the proxy does", "share"),
    "proxy_patterns_found": ("patterns of the proxy found too", "share"),
    "proxy_types_alike": ("of these, given the same type", "share"),
    "own_patterns_found_by_proxy": ("own patterns that the proxy finds too", "share"),
    "distant": ("compositions judged distant (the paper: 66 of 100)", "share"),
}


def annotation_section(scores: pl.DataFrame) -> dict[str, Any]:
    """Return what the template shows of `annotation_scores`: the proxy, people together, then one by one."""
    names = [name for name in scores["who"].unique().sort() if name not in (ANNOTATOR, PEOPLE)]
    titles = {ANNOTATOR: "The automatic proxy", PEOPLE: "Annotators with each other"}
    groups = []
    for who in (ANNOTATOR, PEOPLE, *names):
        rows = {row["measure"]: row for row in scores.filter(pl.col("who") == who).iter_rows(named=True)}
        shown = [rows[m] | {"about": text, "unit": unit} for m, (text, unit) in ABOUT.items() if m in rows]
        if shown:
            groups.append((titles.get(who, f"Annotator {who}"), shown))
    simulated = any(name.startswith(SIMULATED) for name in names)
    return {"groups": groups, "people": bool(names), "simulated": simulated}

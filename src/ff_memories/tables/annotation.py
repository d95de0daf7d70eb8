"""Annotators' plan, patterns, labels and agreement, and the kinds of annotators.

They are people, simulated people, language models, and an automatic proxy.
"""

from collections.abc import Collection

import polars as pl

from ff_memories.schema import EXAMPLE, KEY, LAYER, RANK, Column, Schema

ANNOTATOR = "proxy"
PEOPLE = "people"  # all people together
SIMULATED = "simulated"  # prefix of simulated annotators' names; they count as people
MODEL = "model-"  # prefix of language models' names
TYPES = ("shallow", "semantic")

TABLES = {
    "annotation_plan": Schema(
        about="E2: the items shown to annotators, in order: keys, repeated keys, and foils made of random prefixes",
        by={"item": pl.String},
        fields={
            "content": Column(pl.String),
            "kind": Column(pl.Enum(["key", "repeat", "foil"])),
            "layer": Column(LAYER, null=True),
            "key": Column(KEY, null=True),
            "prefixes": Column(pl.UInt16),
            "order": Column(pl.UInt16),
        },
        compared="follows",
        open_rows=True,
    ),
    "annotation_scores": Schema(
        about="E2 and E14: how well annotators agree with each other, with themselves and with the proxy, and "
        "what they see in foils; `who` is an annotator, `people` (all together) or `proxy`",
        by={"who": pl.String, "measure": pl.String},
        fields={**dict.fromkeys(("value", "low", "high"), Column(pl.Float64, null=True)), "n": Column(pl.UInt32)},
        compared="follows",
        open_rows=True,
        names_people="who",
    ),
    "annotations": Schema(
        about="E2: the patterns found in keys, by annotator",
        by={"annotator": pl.String, "layer": LAYER, "key": KEY, "pattern": pl.UInt16},
        fields={
            "description": Column(pl.String),
            "type": Column(pl.Enum(["shallow", "semantic"])),
            "ranks": Column(pl.List(RANK)),
        },
        compared="follows",
        open_rows=True,
        names_people="annotator",
        quotes_text="description",
        of_baselines=True,
    ),
    "pattern_labels": Schema(
        about="E2: the label of every annotated trigger",
        by={"annotator": pl.String, "layer": LAYER, "key": KEY, "rank": RANK},
        fields={"label": Column(pl.Enum(["shallow", "semantic", "both", "none"]))},
        compared="follows",
        open_rows=True,
        names_people="annotator",
        of_baselines=True,
    ),
    "distance_labels": Schema(
        about="E14: whether last-layer compositions are related to the predictions that they compose",
        by={"annotator": pl.String, "example": EXAMPLE},
        fields={"label": Column(pl.Enum(["distant", "related"]))},
        compared="follows",
        open_rows=True,
        names_people="annotator",
        of_baselines=True,
    ),
}


def is_person() -> pl.Expr:
    """Return the condition for rows with an ``annotator`` who is a person, or simulates one."""
    return (pl.col("annotator") != ANNOTATOR) & ~pl.col("annotator").str.starts_with(MODEL)


def preferred(labels: pl.DataFrame) -> pl.DataFrame:
    """Return people's rows of a table with a column ``annotator``, or the proxy's if no person labelled anything.

    Results never follow from a language model's labels: they only stand beside the others.
    """
    people = labels.filter(is_person())
    return people if people.height else labels.filter(pl.col("annotator") == ANNOTATOR)


def marks(annotators: Collection[str]) -> list[str]:
    """Return the marks that labels by these annotators must carry; nothing if all are people."""
    proxy = ["AUTOMATIC PROXY"] if ANNOTATOR in annotators else []
    return proxy + (["SIMULATED"] if any(name.startswith(SIMULATED) for name in annotators) else [])

"""Name the kinds of annotators: people, simulated people, language models, and an automatic proxy."""

import re
from collections.abc import Collection

import polars as pl

ANNOTATOR = "proxy"
PEOPLE = "people"  # all people together
SIMULATED = "simulated"  # prefix of simulated annotators' names; they count as people
MODEL = "model-"  # prefix of language models' names
TYPES = ("shallow", "semantic")


def is_person() -> pl.Expr:
    """Return the condition for rows with an ``annotator`` who is a person, or simulates one."""
    return (pl.col("annotator") != ANNOTATOR) & ~pl.col("annotator").str.starts_with(MODEL)


def prefix_meant(name: str) -> str | None:
    """Return the prefix, of models or of simulated annotators, that a name nearly has: `Model-x` or `model_x`, say."""
    spelled = re.sub(r"[\s_:.\u2010-\u2015-]+", "-", name.casefold())
    for prefix in (MODEL, SIMULATED + "-"):
        if spelled.startswith(prefix) and not name.startswith(prefix):
            return prefix
    return None


def preferred(labels: pl.DataFrame) -> pl.DataFrame:
    """Return people's rows of a table with a column ``annotator``, or the proxy's if no person labelled anything.

    Results never follow from a language model's labels: they only stand beside the others.
    """
    people = labels.filter(is_person())
    return people if people.height else labels.filter(pl.col("annotator") == ANNOTATOR)


def marks(annotators: Collection[str]) -> list[str]:
    """Return the marks that labels by these annotators must carry; nothing if all are people."""
    said = []
    if ANNOTATOR in annotators:
        said.append("AUTOMATIC PROXY")
    if any(name.startswith(SIMULATED) for name in annotators):
        said.append("SIMULATED")
    return said

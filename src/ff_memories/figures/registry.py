"""What each figure shows and what it is drawn from. Light to import: a workflow reads it before anything is run.

``FIGURES`` are the paper's, ``SUPPLEMENTS`` our own; both are drawn by the same rule.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ff_memories.base.errors import UserError


@dataclass(frozen=True)
class Entry:
    """One figure.

    Attributes:
        section: the paper's section that discusses it.
        caption: what is drawn, in our own words.
        caption_last: the same where values are compared with a trigger's last token (``values.target: last``).
        tables: tables it is drawn from; nothing else is read but the model info.
        sections: config sections it reads besides ``seed`` and its own ``figures.<name>``.
        options: keys of ``figures.<name>`` that mean something here, besides size and ``paper_values``.
        wide: as wide as the page's text, not a column.
    """

    section: str
    caption: str
    tables: tuple[str, ...]
    sections: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()
    caption_last: str = ""
    wide: bool = False

    @property
    def place(self) -> str:
        """Return where a list of figures shows it: the paper's section, or among our own."""
        return f"Section {self.section}" if self.section else "Our own"


FIGURES: dict[str, Entry] = {
    "figure2": Entry(
        "3.2",
        "What kind of pattern the top trigger examples of a key show, layer by layer: shallow, semantic, both or none.",
        ("pattern_labels",),
    ),
    "figure3": Entry(
        "3.2",
        "How much a key's memory coefficient changes when one token of its trigger examples is removed: "
        "the first, the last, or a random one.",
        ("mutations",), ("mutations", "extraction"),
    ),
    "figure4": Entry(
        "4",
        "How often a value's most probable token is the token that follows its key's top trigger example.",
        ("values", "control"), ("values",),
        caption_last="How often a value's most probable token is the last token of its key's top trigger example.",
    ),
    "figure5": Entry(
        "4",
        "Where the token that follows a key's top trigger example ranks in the value's distribution (0 is the top).",
        ("values",), ("values",), frozenset({"rank_limit"}),
        caption_last="Where the last token of a key's top trigger example ranks in the value's distribution "
        "(0 is the top).",
    ),
    "figure6": Entry(
        "4",
        "Agreement of values with their keys' top trigger examples, by the probability of the value's top token; "
        "all layers together, with the number of values above each bar.",
        ("values",), ("values",), frozenset({"bins"}),
        caption_last="Agreement of values with the last tokens of their keys' top trigger examples, by the probability "
        "of the value's top token; all layers together, with the number of values above each bar.",
    ),
    "figure7": Entry(
        "5.1",
        "The share of a layer's memories that are active, that is, have a coefficient above zero.",
        ("composition", "control"),
    ),
    "figure8": Entry(
        "5.1",
        "How often a layer's prediction differs from the predictions of all its memories "
        "(of the active ones, unless configured otherwise).",
        ("composition", "control"),
    ),
    "figure9": Entry(
        "5.2",
        "How often the residual, before a layer's feed-forward, already predicts what the model outputs in the end.",
        ("refinement", "control"),
    ),
    "figure10": Entry(
        "5.2",
        "The probability that the residual at each layer gives to the token the model outputs in the end.",
        ("refinement",),
    ),
    "figure11": Entry(
        "5.2",
        "Whose prediction a layer's output follows: the residual's, the feed-forward's, both or neither's.",
        ("refinement",),
    ),
}  # fmt: skip

SUPPLEMENTS: dict[str, Entry] = {
    "sensitivity": Entry(
        "",
        "What each choice that the paper leaves open, or that its released code takes otherwise, does to each claim: "
        "the change of its measured value against this run's own, and whether its verdict flips.",
        ("sensitivity",), wide=True,
    ),
    "projection_seeds": Entry(
        "",
        "What the released agreement script's random projections and dropout do to the ranks of Figure 5, for target "
        "tokens outside the softmax's head: boxes are each layer's median rank over seeds, points the median under the "
        "model's own softmax.",
        ("projection_seeds",),
    ),
}  # fmt: skip

DRAWN = FIGURES | SUPPLEMENTS
SPECIAL = frozenset().union(*(entry.options for entry in DRAWN.values()))  # options that mean nothing to most figures


def refuse_useless(name: str, options: Mapping[str, Any]) -> None:
    """Raise ``UserError`` where an option of ``figures.<name>`` is given that means nothing to this figure."""
    given = {key for key in SPECIAL if options[key] is not None}
    if useless := sorted(given - DRAWN[name].options):
        raise UserError(f"figures.{name}.{useless[0]}: this figure has no use for it", "remove the key")


def title(name: str) -> str:
    """Return what a figure is called: ``Figure 3`` for the paper's, a word for our own."""
    return name.replace("figure", "Figure ") if name in FIGURES else name.replace("_", " ").capitalize()


def caption(name: str, target: str = "next") -> str:
    """Return a figure's caption, for a run whose ``values.target`` is this."""
    entry = DRAWN[name]
    return entry.caption_last if target == "last" and entry.caption_last else entry.caption

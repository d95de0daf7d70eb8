"""Register every figure with its caption and source tables. Light to import: workflows read it before any run.

``FIGURES`` are the paper's and ``SUPPLEMENTS`` our own. One rule draws both.
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
        caption: a description of the figure, in our own words.
        caption_last: the caption if values are compared with a trigger's last token (``values.target: last``).
        caption_effective: the caption for models whose memories are all active.
        tables: the tables it is drawn from; besides them, only the model info is read.
        sections: config sections it reads besides ``seed`` and its own ``figures.<name>``.
        options: keys of ``figures.<name>`` that apply here, besides size and ``paper_values``.
        wide: whether it spans the page's text width instead of one column.
    """

    section: str
    caption: str
    tables: tuple[str, ...]
    sections: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()
    caption_last: str = ""
    caption_effective: str = ""
    wide: bool = False

    @property
    def place(self) -> str:
        """Return its heading in a list of figures: the paper's section, or our own figures."""
        return f"Section {self.section}" if self.section else "Our own"


FIGURES: dict[str, Entry] = {
    "figure2": Entry(
        "3.2",
        "Pattern types among the keys' top trigger examples, by layer: shallow, semantic, both or none.",
        ("pattern_labels",),
    ),
    "figure3": Entry(
        "3.2",
        "Change in a key's memory coefficient after removing one token from its trigger examples: "
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
        "Rank of the token that follows a key's top trigger example in the value's distribution (0 is the top).",
        ("values",), ("values",), frozenset({"rank_limit"}),
        caption_last="Rank of the last token of a key's top trigger example in the value's distribution "
        "(0 is the top).",
    ),
    "figure6": Entry(
        "4",
        "How often values agree with their keys' top trigger examples, by the probability of the value's top token, "
        "over all layers. The number above each bar counts its values.",
        ("values",), ("values",), frozenset({"bins"}),
        caption_last="How often values agree with the last tokens of their keys' top trigger examples, by the "
        "probability of the value's top token, over all layers. The number above each bar counts its values.",
    ),
    "figure7": Entry(
        "5.1",
        "Share of a layer's memories that are active, that is, have a coefficient above zero.",
        ("composition", "control"),
        caption_effective="Effective number of memories of a layer, (Σe)² / Σe² with e = (m‖v‖)². A share of active "
        "memories is not defined for this model: none of its coefficients is exactly zero.",
    ),
    "figure8": Entry(
        "5.1",
        "How often a layer's prediction differs from that of every memory "
        "(every active memory, unless configured otherwise).",
        ("composition", "control"),
    ),
    "figure9": Entry(
        "5.2",
        "How often the residual before a layer's feed-forward already predicts the model's final output.",
        ("refinement", "control"),
    ),
    "figure10": Entry(
        "5.2",
        "Probability that the residual at each layer assigns to the model's final output.",
        ("refinement",),
    ),
    "figure11": Entry(
        "5.2",
        "Whether a layer's output follows the residual's prediction, the feed-forward's, both or neither.",
        ("refinement",),
    ),
}  # fmt: skip

SUPPLEMENTS: dict[str, Entry] = {
    "sensitivity": Entry(
        "",
        "Effect on each claim of the choices that the paper leaves open or that its released code makes differently: "
        "the change in the measured value relative to this run, and any verdict that flips.",
        ("sensitivity",), wide=True,
    ),
    "projection_seeds": Entry(
        "",
        "Effect of the released agreement script's random projections and dropout on the ranks of Figure 5, for target "
        "tokens outside the softmax's head. Boxes show each layer's median rank over seeds; points show the median "
        "under the model's own softmax.",
        ("projection_seeds",),
    ),
}  # fmt: skip

DRAWN = FIGURES | SUPPLEMENTS
SPECIAL = frozenset().union(*(entry.options for entry in DRAWN.values()))  # options that few figures have


def refuse_useless(name: str, options: Mapping[str, Any]) -> None:
    """Raise ``UserError`` if ``figures.<name>`` sets an option that this figure does not have."""
    given = {key for key in SPECIAL if options[key] is not None}
    if useless := sorted(given - DRAWN[name].options):
        raise UserError(f"figures.{name}.{useless[0]}: this figure has no such option", "remove the key")


def title(name: str) -> str:
    """Return a figure's title: ``Figure 3`` for the paper's, a name for our own."""
    return name.replace("figure", "Figure ") if name in FIGURES else name.replace("_", " ").capitalize()


def caption(name: str, target: str = "next", active: bool = True) -> str:
    """Return a figure's caption for a run with this ``values.target``; ``active``: as in ``FigureContext``."""
    entry = DRAWN[name]
    if not active and entry.caption_effective:
        return entry.caption_effective
    return entry.caption_last if target == "last" and entry.caption_last else entry.caption

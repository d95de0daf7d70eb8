"""What each figure shows and what it is drawn from. Light to import: a workflow reads it before anything is run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One figure of the paper.

    Attributes:
        experiment: the experiment it reports, E2 to E13.
        section: the paper's section that discusses it.
        caption: what is drawn, in our own words.
        tables: tables it is drawn from; nothing else is read but the run's card.
        sections: config sections it reads besides ``seed`` and its own ``figures.<name>``.
        options: keys of ``figures.<name>`` that mean something here, besides size and ``paper_values``.
    """

    experiment: str
    section: str
    caption: str
    tables: tuple[str, ...]
    sections: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()


FIGURES: dict[str, Entry] = {
    "figure2": Entry(
        "E2", "3.2",
        "What kind of pattern the top trigger examples of a key show, layer by layer: shallow, semantic, both or none.",
        ("pattern_labels",),
    ),
    "figure3": Entry(
        "E3", "3.2",
        "How much a key's memory coefficient changes when one token of its trigger examples is removed: "
        "the first, the last, or a random one.",
        ("mutations",), ("mutations",),
    ),
    "figure4": Entry(
        "E4", "4",
        "How often a value's most probable token is the token that follows its key's top trigger example.",
        ("values",),
    ),
    "figure5": Entry(
        "E5", "4",
        "Where the token that follows a key's top trigger example ranks in the value's distribution (0 is the top).",
        ("values",), (), frozenset({"rank_limit"}),
    ),
    "figure6": Entry(
        "E6", "4",
        "Agreement of values with their keys' top trigger examples, by the probability of the value's top token; "
        "all layers together, with the number of values above each bar.",
        ("values",), (), frozenset({"bins"}),
    ),
    "figure7": Entry(
        "E8", "5.1",
        "The share of a layer's memories that are active, that is, have a coefficient above zero.",
        ("composition",),
    ),
    "figure8": Entry(
        "E9", "5.1",
        "How often a layer's prediction differs from the predictions of all its memories "
        "(of the active ones, unless configured otherwise).",
        ("composition",),
    ),
    "figure9": Entry(
        "E11", "5.2",
        "How often the residual, before a layer's feed-forward, already predicts what the model outputs in the end.",
        ("refinement",),
    ),
    "figure10": Entry(
        "E12", "5.2",
        "The probability that the residual at each layer gives to the token the model outputs in the end.",
        ("refinement",),
    ),
    "figure11": Entry(
        "E13", "5.2",
        "Whose prediction a layer's output follows: the residual's, the feed-forward's, both or neither's.",
        ("refinement",),
    ),
}  # fmt: skip

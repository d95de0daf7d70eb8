"""Tables 1 to 3, which show keys and values with passages of the text: what each shows, and from which tables.

Light to import, since workflows read it before any run.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Excerpt:
    """One of these tables.

    Attributes:
        title: what it shows.
        tables: the tables it is made from; besides them, text, dictionary and model info are read.
        sections: config sections it reads.
    """

    title: str
    tables: tuple[str, ...]
    sections: tuple[str, ...] = ()


EXCERPTS = {
    "table1": Excerpt(
        "keys with clear patterns, and example triggers", ("annotations", "pattern_labels", "triggers", "sentences")
    ),
    "table2": Excerpt(
        "the values that predict with the highest probability", ("values", "triggers", "sentences"), ("values",)
    ),
    "table3": Excerpt("one key and all its patterns", ("annotations", "triggers", "sentences"), ("patterns",)),
}

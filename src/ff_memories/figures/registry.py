"""Know every figure, by the `figures.toml` of its section.

Light to import, since workflows read it before any run.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ff_memories.base import sections
from ff_memories.base.errors import UserError


@dataclass(frozen=True)
class Figure:
    """One figure, as TOML declares it."""

    caption: str  # a description of the figure, in our own words
    tables: Sequence[str]  # the tables it is drawn from; besides them, only the model info is read
    # the column of its frame that is also drawn of untrained models, from their tables of the same names
    untrained: str = ""
    # the paper's section that discusses it, or ``beyond`` the paper, under which the report shows it; empty: the report
    # does not
    section: str = ""
    place: int = 0  # its place among its section's figures, the most telling first
    sections: Sequence[str] = ()  # config sections it reads besides ``seed`` and its own ``figures.<name>``
    options: Sequence[str] = ()  # keys of ``figures.<name>`` that apply here, besides size and ``paper_values``
    caption_last: str = ""  # the caption if values are compared with a trigger's last token (``values.target: last``)
    caption_effective: str = ""  # the caption for models whose memories are all active
    wide: bool = False  # whether it spans the page's text width instead of one column
    hatched: bool = False  # whether its segments are hatched, to tell them apart without colour
    address: str = "?layer={layer}"  # the keys behind a mark in the gallery, by columns of the mark's row
    keys: str = ""  # the gallery's list of all keys that it counts, if it counts keys
    # {how they are known: the paper's own values}, drawn beside ours. They are known as "stated", in words or numbers
    # in the text, or "read off the figure", by eye, accurate to 5 to 10 points of its axis at best. A value has a
    # ``series`` as the frame names it; ``layers``, the first and last, or ``probability``, an interval of the top
    # probability; ``value`` or ``range``, its lowest and highest; and ``named``, what it measures, if the legend must
    # say so. Shares, probabilities and changes are fractions; ranks start at 0
    paper: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    @property
    def heading(self) -> str:
        """Return its heading in a list of figures: the paper's section, or our own figures."""
        return {"": "Our own", "beyond": "Beyond the paper"}.get(self.section, f"Section {self.section}")


GALLERY = "../gallery/index.html#/"  # from the figures' folder
_declared = sections.declared("ff_memories.paper.*.figures.toml").values()
_figures = {name: Figure(**declared) for part in _declared for name, declared in part.items()}
DRAWN = {name: _figures[name] for name in sorted(_figures, key=lambda name: not _figures[name].section)}  # ours last
FIGURES = {name: figure for name, figure in DRAWN.items() if figure.section}  # those that every report shows


def by_section(shown: Iterable[str]) -> dict[str, list[str]]:
    """Return figures by what one job draws: those of a section, the sensitivity's with those beyond the paper.

    The figures that no report shows have a job each.
    """
    out: dict[str, list[str]] = {}
    for name in DRAWN:
        section = DRAWN[name].section.partition(".")[0] or ("beyond" if name in set(shown) else name)
        out.setdefault(section, []).append(name)
    return out


def refuse_useless(name: str, options: Mapping[str, Any]) -> None:
    """Raise ``UserError`` if ``figures.<name>`` sets an option that this figure does not have."""
    given = {key for figure in DRAWN.values() for key in figure.options if options[key] is not None}
    if useless := sorted(given - set(DRAWN[name].options)):
        raise UserError(f"figures.{name}.{useless[0]}: this figure has no such option", "remove the key")


def title(name: str) -> str:
    """Return a figure's title: ``Figure 3`` for the paper's, ``Figure B1`` beyond it, a name for our own."""
    if numbered := re.fullmatch(r"figure(b?\d+)", name):
        return f"Figure {numbered[1].upper()}"
    return name.replace("_", " ").capitalize()


def caption(name: str, target: str = "next", active: bool = True) -> str:
    """Return a figure's caption for a run with this ``values.target``; ``active``: as in ``FigureContext``."""
    entry = DRAWN[name]
    if not active and entry.caption_effective:
        return entry.caption_effective
    return entry.caption_last if target == "last" and entry.caption_last else entry.caption

"""The figures' font for browsers: a small part of Liberation Sans, so that no machine shows them with another one."""

import base64
import re
from functools import cache
from importlib.resources import files

from ff_memories.figures.theme import FONT


@cache
def face() -> str:
    """Return the style rule that carries the font: once in a page, or once in an SVG that stands alone."""
    held = files("ff_memories.figures").joinpath("static", "liberation-sans.woff2").read_bytes()
    address = f"data:font/woff2;base64,{base64.b64encode(held).decode()}"
    return f'@font-face{{font-family:"{FONT}";src:url({address}) format("woff2")}}'


def carried(drawing: str) -> str:
    """Return an SVG with the font inside. Text stays text: it can be searched, selected and read out."""
    return re.sub(r"(<svg\b[^>]*>)", lambda found: f"{found[1]}<style>{face()}</style>", drawing, count=1)

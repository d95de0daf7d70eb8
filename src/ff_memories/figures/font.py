"""Embed the figures' font for browsers: the glyphs used, taken from vl-convert, so every machine shows the same.

vl-convert compiles its fonts in without an interface to them, so we read the font from its library file.
"""

import base64
import io
import re
import string
from functools import cache
from pathlib import Path

import vl_convert
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont, TTLibError

from ff_memories.figures.theme import FONT

LETTERS = string.ascii_letters + string.digits + string.punctuation + " −×–≥≤≈→·…“”‘’"
FAMILY, STYLE = 1, 2  # the entries of a font's name table
_START = re.compile(b"\x00\x01\x00\x00\x00[\x08-\x20]")


@cache
def face() -> str:
    """Return the CSS rule that embeds the font, for use once per page or once per standalone SVG."""
    address = f"data:font/ttf;base64,{base64.b64encode(_part()).decode()}"
    return f'@font-face{{font-family:"{FONT}";src:url({address}) format("truetype")}}'


def carried(drawing: str) -> str:
    """Return an SVG with the font embedded. Text stays text: it can be searched, selected and read aloud."""
    return re.sub(r"(<svg\b[^>]*>)", lambda match: f"{match[1]}<style>{face()}</style>", drawing, count=1)


def _part() -> bytes:
    """Return the font reduced to ``LETTERS``, with the same bytes each time."""
    font = _whole()
    options = Options()
    options.drop_tables += ["FFTM"]  # FontForge's times
    options.hinting, options.layout_features, options.name_IDs, options.recalc_timestamp = False, [], [], False
    subsetter = Subsetter(options)
    subsetter.populate(text=LETTERS)
    subsetter.subset(font)
    out = io.BytesIO()
    font.save(out)
    return out.getvalue()


def _whole() -> TTFont:
    """Return the font embedded in vl-convert. Raises ``RuntimeError`` if it has no font of that name."""
    for library in sorted(Path(vl_convert.__file__).parent.glob("vl_convert*")):
        if library.suffix not in (".so", ".pyd", ".dylib"):
            continue
        content = library.read_bytes()
        for start in _START.finditer(content):
            try:
                font = TTFont(io.BytesIO(content[start.start() : start.start() + (1 << 20)]), recalcTimestamp=False)
                names = font["name"]
                if (names.getDebugName(FAMILY), names.getDebugName(STYLE)) == (FONT, "Regular"):
                    return font
            except (TTLibError, KeyError, AssertionError, ValueError):
                continue  # these bytes only start like a font
    raise RuntimeError(f"vl-convert has no font named {FONT}")

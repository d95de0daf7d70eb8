"""Render a chart to files: a Vega-Lite specification, an SVG, and PDF and PNG made from that SVG.

An SVG embeds the font for browsers: the glyphs used, taken from vl-convert, so every machine shows the same. vl-convert
compiles its fonts in without an interface to them, so we read the font from its library file.
"""

import base64
import io
import json
import os
import re
import string
import struct
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont, TTLibError

from ff_memories.figures import theme
from ff_memories.figures.registry import DRAWN
from ff_memories.figures.theme import CONFIG, FONT

VEGALITE = alt.SCHEMA_VERSION.removeprefix("v").rpartition(".")[0]

# Hatching distinguishes stacked segments without colour. Vega-Lite has none, so we replace each of these fills by a
# pattern of the same colour with lines. Blue and light grey stay plain.
HATCHES = {
    theme.GREEN: '<path d="M-1,1 l2,-2 M0,4 l4,-4 M3,5 l2,-2" stroke="white" stroke-width="0.9"/>',
    theme.ORANGE: '<path d="M-1,3 l2,2 M0,0 l4,4 M3,-1 l2,2" stroke="white" stroke-width="0.9"/>',
    theme.BLACK: '<path d="M0,2 h4" stroke="white" stroke-width="0.7"/>',
}
VEGA_DATA = "https://vega.github.io/vega-datasets/"  # vl-convert prepends it to every relative address
PIXELS = 4  # per point
SIGNATURE = b"\x89PNG\r\n\x1a\n"


@cache
def use_own_font() -> None:
    """Make vl-convert load its built-in font and none of this machine's, so PDF and PNG have the same bytes everywhere.

    vl-convert looks for fonts once, when it first draws text. On macOS and Windows it asks the system, not fontconfig.
    """
    variable = "FONTCONFIG_FILE"
    before = os.environ.get(variable)
    os.environ[variable] = str(Path(__file__).with_name("fonts.conf"))
    try:
        vl_convert.svg_to_png('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><text>a</text></svg>')
    finally:
        del os.environ[variable]
        if before is not None:
            os.environ[variable] = before


def spec(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """Return the chart as a Vega-Lite specification with its data and its configuration inside."""
    return chart.to_dict() | {"config": CONFIG}


def svg(specification: dict[str, Any], figure: str) -> str:
    """Return a figure as SVG, with hatched segments if it says so. Its ids start with the figure's name."""
    use_own_font()
    drawing = vl_convert.vegalite_to_svg(specification, vl_version=VEGALITE)
    drawing = own_ids(drawing.replace(VEGA_DATA, ""), figure)
    return hatch(drawing, figure) if figure in DRAWN and DRAWN[figure].hatched else drawing


def own_ids(drawing: str, figure: str) -> str:
    """Return the SVG with clip paths named after the figure, and these and gradients numbered from 0.

    Vega keeps counting from chart to chart within a process, and two drawings on one page must not share an id.
    """
    for kind, prefix in (("clip", f"{figure}-clip"), ("gradient_", f"{figure}-gradient")):
        order = {name: number for number, name in enumerate(dict.fromkeys(re.findall(rf'id="({kind}\d+)"', drawing)))}
        drawing = re.sub(rf'(?<=["#]){kind}\d+(?=[")])', lambda match: f"{prefix}{order[match[0]]}", drawing)  # noqa: B023
    return drawing


def hatch(drawing: str, figure: str) -> str:
    """Return the SVG with every fill of ``HATCHES`` replaced by its hatched pattern, legend included."""
    definitions = []
    for colour, lines in HATCHES.items():
        name = f"{figure}-hatch-{colour[1:]}"
        drawing, fills = re.subn(rf'fill="{colour}"', f'fill="url(#{name})"', drawing, flags=re.IGNORECASE)
        if fills:
            definitions.append(
                f'<pattern id="{name}" width="4" height="4" patternUnits="userSpaceOnUse">'
                f'<rect width="4" height="4" fill="{colour}"/>{lines}</pattern>'
            )
    return re.sub(r"(<svg\b[^>]*>)", rf"\1<defs>{''.join(definitions)}</defs>", drawing, count=1)


def in_order(document: bytes) -> bytes:
    """Return the PDF with each resource dictionary sorted, since their order changes with every call.

    Sorting lines keeps the file's length, so the offsets at its end stay valid.
    """
    resources = rb"(/(?:Pattern|Font|XObject|ExtGState|Shading|ColorSpace) <<\n)((?: +/\w+ \d+ 0 R\n)+)"
    return re.sub(resources, lambda match: match[1] + b"".join(sorted(match[2].splitlines(keepends=True))), document)


def compressed(image: bytes) -> bytes:
    """Return a PNG with the same pixels, its data deflated as far as zlib can: a fifth of what vl-convert writes."""
    at, chunks, pixels = len(SIGNATURE), [], b""
    while at < len(image):
        (size,) = struct.unpack_from(">I", image, at)
        name, data = image[at + 4 : at + 8], image[at + 8 : at + 8 + size]
        if name == b"IDAT":
            pixels += data
        else:
            chunks.append((name, data))
        at += 12 + size
    chunks.insert(-1, (b"IDAT", zlib.compress(zlib.decompress(pixels), 9)))  # before the end
    parts = ((struct.pack(">I", len(data)), name + data) for name, data in chunks)
    return SIGNATURE + b"".join(size + chunk + struct.pack(">I", zlib.crc32(chunk)) for size, chunk in parts)


def files(chart: alt.TopLevelMixin, figure: str) -> dict[str, bytes]:
    """Return all files of a figure by suffix. The same chart gives the same bytes."""
    specification = spec(chart)
    drawing = svg(specification, figure)
    return {
        ".pdf": in_order(vl_convert.svg_to_pdf(drawing)),  # with its font embedded
        ".svg": carried(drawing).encode(),
        ".png": compressed(vl_convert.svg_to_png(drawing, scale=PIXELS)),
        ".vl.json": (json.dumps(specification, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode(),
    }


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

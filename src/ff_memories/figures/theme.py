"""Define the style of all figures: the paper's page sizes, one open font, and a palette that survives greyscale.

``theme.toml`` is the Vega-Lite configuration of all charts.
"""

import tomllib
from pathlib import Path
from typing import Any

CONFIG: Any = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

# ACL style: one column and the whole text block, in points (a Vega pixel is a PDF point); the height is of the axes.
COLUMN_WIDTH, TEXT_WIDTH, HEIGHT = 218, 453, 115
HEADLINE, NOTE = CONFIG["title"]["fontSize"], CONFIG["title"]["subtitleFontSize"]  # of the headline and the notes

# vl-convert includes Liberation Sans (SIL Open Font License), so drawing needs no installed font.
# Browsers without it fall back to the other, metric-compatible families.
FONT, *_ = CONFIG["font"].split(",")

# Okabe and Ito's colours, safe for colour-blind readers. Each figure combines only colours that also differ in
# lightness: black 0, blue 46, green 58, orange 71, light grey 88.
BLACK, BLUE, GREEN, ORANGE, LIGHT_GREY = "#000000", "#0072B2", "#009E73", "#E69F00", "#DDDDDD"
INK, FAINT = CONFIG["text"]["color"], CONFIG["title"]["subtitleColor"]
LIGHT_BLUE = "#8FC1E0"  # for boxes and bars with marks behind them
BAND = "#E3B867"  # the paper's ranges, behind our marks
LABEL_COLOURS = {"shallow": BLUE, "both": GREEN, "semantic": ORANGE, "none": LIGHT_GREY}
KIND_COLOURS = {"residual": BLUE, "agreement": GREEN, "composition": ORANGE, "ffn": BLACK}
MUTATION_COLOURS = {"first": BLUE, "last": ORANGE, "random": BLACK}  # as in the paper, for print
CONTROL_COLOURS = {"the memory": BLUE, "a matched memory": ORANGE, "a random direction": BLACK}
# Of an atlas's models, in an order in which neighbours also differ in lightness; and light to dark, over a number.
MODEL_COLOURS = (BLACK, ORANGE, BLUE, "#CC79A7", GREEN, "#56B4E9", "#D55E00", "#8C8C8C")
STEP_COLOURS = ("#9CC9E8", "#4F9AD0", "#1B63A5", "#08264F")

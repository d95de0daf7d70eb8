"""Define the style of all figures: the paper's page sizes, one open font, and a palette that survives greyscale."""

import altair as alt

# ACL style: one column and the whole text block, in points (a Vega pixel is a PDF point); the height is of the axes.
COLUMN_WIDTH, TEXT_WIDTH, HEIGHT = 218, 453, 115
HEADLINE, NOTE = 9, 7  # font sizes of the headline and of the notes under it

# vl-convert includes Liberation Sans (SIL Open Font License), so drawing needs no installed font.
# Browsers without it fall back to the other, metric-compatible families.
FONT = "Liberation Sans"
FAMILIES = f"{FONT}, Arial, Helvetica, sans-serif"

# Okabe and Ito's colours, safe for colour-blind readers. Each figure combines only colours that also differ in
# lightness: black 0, blue 46, green 58, orange 71, light grey 88.
BLACK, BLUE, GREEN, ORANGE, LIGHT_GREY = "#000000", "#0072B2", "#009E73", "#E69F00", "#DDDDDD"
INK, FAINT = "#1A1A1A", "#595959"
LIGHT_BLUE = "#8FC1E0"  # for boxes and bars with marks behind them
BAND = "#E3B867"  # the paper's ranges, behind our marks
LABEL_COLOURS = {"shallow": BLUE, "both": GREEN, "semantic": ORANGE, "none": LIGHT_GREY}
KIND_COLOURS = {"residual": BLUE, "agreement": GREEN, "composition": ORANGE, "ffn": BLACK}
MUTATION_COLOURS = {"first": BLUE, "last": ORANGE, "random": BLACK}  # as in the paper, for print
CONTROL_COLOURS = {"the memory": BLUE, "a matched memory": ORANGE, "a random direction": BLACK}
# Of an atlas's models, in an order in which neighbours also differ in lightness; and light to dark, over a number.
MODEL_COLOURS = (BLACK, ORANGE, BLUE, "#CC79A7", GREEN, "#56B4E9", "#D55E00", "#8C8C8C")
STEP_COLOURS = ("#9CC9E8", "#4F9AD0", "#1B63A5", "#08264F")


@alt.theme.register("ff_memories", enable=True)
def paper_style() -> alt.theme.ThemeConfig:
    """Return the Vega-Lite configuration of every chart in the package."""
    small = {"labelFontSize": 7, "titleFontSize": 8, "titleFontWeight": "normal", "labelColor": INK, "titleColor": INK}
    return alt.theme.ThemeConfig(
        config={
            "font": FAMILIES,
            "background": "white",
            "padding": 2,
            "view": {"stroke": "#999999", "strokeWidth": 0.5},
            "axis": {
                **small,  # type: ignore[typeddict-item]  # the words that axes and legends share
                "domain": False,
                "tickColor": "#999999",
                "tickSize": 3,
                "tickWidth": 0.5,
                "gridColor": "#E6E6E6",
                "gridWidth": 0.5,
                "labelPadding": 2,
                "titlePadding": 4,
            },
            "axisX": {"grid": False},
            "legend": {
                **small,  # type: ignore[typeddict-item]  # as above
                "orient": "top",
                "direction": "horizontal",
                "offset": 4,
                "symbolSize": 50,
                "columnPadding": 7,
                "rowPadding": 1,
                "labelOffset": 3,
                "titlePadding": 2,
                "labelLimit": 0,
                "layout": {"top": {"direction": "vertical", "anchor": "start", "margin": 2}},
            },
            "title": {
                "anchor": "start",
                "frame": "bounds",
                "fontSize": HEADLINE,
                "fontWeight": "normal",
                "color": INK,
                "lineHeight": 11,
                "subtitleFontSize": NOTE,
                "subtitleColor": FAINT,
                "subtitleLineHeight": 9,
                "subtitlePadding": 2,
                "offset": 4,
            },
            "text": {"fontSize": 7, "color": INK},
        }
    )

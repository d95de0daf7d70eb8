"""The config's sections on what a run shows: its gallery and its figures."""

from pydantic import Field

from ff_memories.config.memory_selection import Chosen
from ff_memories.config.section import Section


class Gallery(Section):
    """How much the gallery shows."""

    triggers: int = Field(25, ge=1, le=65_535, description="number of triggers per key, at most triggers.top")
    shaded: int = Field(
        3,
        ge=0,
        le=65_535,
        description="number of triggers per key with exact coefficients along their tokens (table "
        "`shading`); pages shade every trigger they show, unless this is 0",
    )
    tokens: int = Field(10, ge=1, le=100, description="number of top tokens, and of lowest tokens, per value")
    sampled: int = Field(
        500, ge=0, description="number of random training sentences for the histograms and weaker examples"
    )
    similar: int = Field(5, ge=0, le=100, description="number of the most similar keys, and values, per memory")
    keys: Chosen = Field(
        None,
        description="memories to show, of those that `triggers.keys` looks at: null (all) | a number (so many random "
        "ones of each layer, and those that `causal` changes) | a list by layer",
    )


class FigureOptions(Section):
    """The style of one figure. A figure rejects options that do not apply to it."""

    width: int | None = Field(None, ge=160, le=900, description="width in points; null: a column of the paper")
    height: int | None = Field(None, ge=60, le=900, description="height in points; null: the default height")
    bins: int | None = Field(
        None, ge=2, le=100, description="Figure 6: number of equal bins of the top probability; null: the default"
    )
    rank_limit: int | None = Field(
        None, ge=1, description="Figure 5: the largest rank on the axis; null: set by the data"
    )
    paper_values: bool = Field(True, description="also draw the paper's values, and its ranges as bands")

"""Small random tables of every kind that figures read, and figures of them."""

import html
import re
from functools import cache

import numpy as np
import polars as pl

from ff_memories import tables
from ff_memories.config import Settings
from ff_memories.config.sections import FigureOptions
from ff_memories.figures import draw, render
from ff_memories.figures.context import FigureContext
from ff_memories.figures.registry import FIGURES
from ff_memories.paper.keys import measures as keys_measures
from ff_memories.paper.layers import measures as layers_measures

LAYERS, KEYS, VOCAB = 16, 12, 10_288
SECTIONS = {
    "seed": 1,
    "mutations": {"keys_per_layer": 2, "top": 3, "random": "any", "single_token": "skip", "mean": "of_ratios"},
    "figures": {},
}


def synthetic(layers: int = LAYERS, keys: int = KEYS, seed: int = 0) -> dict[str, pl.DataFrame]:
    """Return small random tables of every kind that figures read."""
    rng = np.random.default_rng(seed)
    cell = {"layer": np.repeat(np.arange(1, layers + 1), keys), "key": np.tile(np.arange(keys), layers)}
    n = layers * keys
    triggers = pl.DataFrame(cell).join(pl.DataFrame({"rank": [1, 2, 3]}), how="cross")
    mutated = triggers.join(pl.DataFrame({"mutation": keys_measures.MUTATIONS}), how="cross")
    change = rng.uniform(-1, 0.2, len(mutated))
    case = {"example": np.repeat(np.arange(keys), layers), "layer": np.tile(np.arange(1, layers + 1), keys)}
    tokens = {name: rng.integers(0, 3, n) for name in ("residual_top", "ffn_top", "output_top", "model_top")}
    frames = {
        "values": pl.DataFrame(cell).with_columns(
            top_token=pl.lit(7), top_probability=pl.Series(rng.uniform(5e-5, 4e-4, n)), next_token=pl.lit(7),
            next_token_rank=pl.Series(rng.integers(0, 20_000, n)), agrees=pl.Series(rng.random(n) < 0.3),
            agreeing_triggers=pl.lit(1), triggers=pl.lit(3),
        ),
        "mutations": mutated.with_columns(
            removed=pl.lit(1), coefficient=pl.lit(2.0), mutated=pl.Series(2 * (1 + change)), change=pl.Series(change)
        ),
        "pattern_labels": triggers.with_columns(
            annotator=pl.lit("proxy"), label=pl.Series(rng.choice(keys_measures.LABELS, len(triggers)))
        ),
        "composition": pl.DataFrame(case).with_columns(
            active=pl.Series(rng.integers(0, keys + 1, n)), ffn_top=pl.lit(1), output_top=pl.lit(1),
            agreeing_memories=pl.Series(rng.integers(0, 2, n)),
        ),
        "refinement": pl.DataFrame(case | tokens).with_columns(
            residual_probability=pl.Series(rng.random(n)), kind=pl.Series(rng.choice(layers_measures.KINDS, n))
        ),
        "causal": synthetic_changes(layers, keys, rng),
        "removals": synthetic_removals(layers, keys, rng),
    }  # fmt: skip
    typed = {name: frame.select(pl.col(c).cast(t) for c, t in tables.TABLES[name].columns.items())
             for name, frame in frames.items()}  # fmt: skip
    return {name: tables.conform(frame, tables.TABLES[name]) for name, frame in typed.items()}


def synthetic_changes(layers: int, keys: int, rng: np.random.Generator) -> pl.DataFrame:
    """Return a small random table ``causal``: each memory at two prefixes, and its controls."""
    cell = pl.DataFrame({"layer": np.arange(1, layers + 1)}).join(pl.DataFrame({"key": np.arange(keys)}), how="cross")
    at = cell.join(pl.DataFrame({"prefix": [3, 8]}), how="cross")
    rows = at.join(pl.DataFrame({"control": ["none", "matched", "direction"]}), how="cross")
    numbers = ("coefficient", "set_to", "direct", "total", "total_frozen", "other_total", "top_log_probability", "kl")
    return rows.with_columns(
        *(pl.Series(name, rng.uniform(-1, 0.3, len(rows))) for name in numbers),
        intervention=pl.lit("mean"), matched_key=pl.lit(None), other_prefix=pl.lit(None), loss=pl.lit(None),
        top_changed=pl.lit(False),
    )  # fmt: skip


def synthetic_removals(layers: int, prefixes: int, rng: np.random.Generator) -> pl.DataFrame:
    """Return a small random table ``removals``: more predictions change, the more memories are removed."""
    at = pl.DataFrame({"layer": np.arange(1, layers + 1)}).join(pl.DataFrame({"prefix": range(prefixes)}), how="cross")
    what = pl.DataFrame([("size", n) for n in (1, 2, 5, 10, 20)] + [("margin", 1)], schema=["by", "removed"],
                        orient="row")  # fmt: skip
    rows = at.join(what, how="cross")
    likely = (rows["removed"] / 20).to_numpy() ** 0.5 * (1 - 0.4 * rows["layer"].to_numpy() / layers)
    return rows.with_columns(
        share=pl.col("removed") / 40, layer_top_changed=pl.Series(rng.random(len(rows)) < likely),
        top_changed=pl.Series(rng.random(len(rows)) < likely / 3), top_log_probability=pl.lit(-0.1),
        loss=pl.lit(None), kl=pl.lit(0.1),
    )  # fmt: skip


def untrained() -> dict[str, dict[str, pl.DataFrame]]:
    """Return such tables of the baselines' models, by name."""
    names = ("same_sample", "untrained-1", "untrained-2", "untrained-3")
    return {name: synthetic(seed=seed) for seed, name in enumerate(names, start=1)}


def looking(figure: str, surrogate: bool = True, layers: int = LAYERS, **options) -> FigureContext:
    scope = "surrogate" if surrogate else "paper"
    return FigureContext(figure, layers, KEYS, VOCAB, scope, FigureOptions(**options))


def drawing(figure: str, frames: dict[str, pl.DataFrame] | None = None, **look) -> str:
    """Return the SVG of a figure of the synthetic tables, or of others."""
    return plain(figure, **look) if frames is None else _drawn(figure, frames, looking(figure, **look))


@cache
def plain(figure: str, **look) -> str:
    context = looking(figure, **look)
    return _drawn(figure, synthetic(context.layers), context)


def _drawn(figure: str, frames: dict[str, pl.DataFrame], look: FigureContext) -> str:
    frame = draw.data(chosen(figure, frames), Settings(SECTIONS), look)
    return render.svg(render.spec(draw.chart(frame, look)), figure)


def chosen(figure: str, frames: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    return {name: frames[name] for name in FIGURES[figure].tables}


def texts(svg: str) -> str:
    return html.unescape(" ".join(re.findall(r"<(?:text|tspan)\b[^>]*>([^<]+)<", svg)))

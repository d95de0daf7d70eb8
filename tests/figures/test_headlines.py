"""Test that a figure's headline follows the numbers in its frame."""

import json

import polars as pl
import pytest
from drawings import KEYS, SECTIONS, chosen, looking, synthetic

from ff_memories.config import Settings
from ff_memories.figures import draw, render
from ff_memories.figures.context import FigureContext
from ff_memories.figures.marks import NO_DATA
from ff_memories.figures.registry import FIGURES

FOUR = looking("figure4", layers=4)


def said(name, context=FOUR, **columns):
    """Return the headline of a frame with these columns, with ordinary spaces."""
    return draw.DRAWINGS[name].headline(pl.DataFrame(columns), context).replace("\u00a0", " ")


def test_patterns():
    series = {"layer": [1, 1, 4, 4], "series": ["shallow", "semantic"] * 2}
    told = said("figure2", **series, mean=[0.6, 0.03, 0.5, 0.07])
    assert told == "Lower layers: 60 % shallow, 3 % semantic; upper: 50 % and 7 %"
    one = said("figure2", layer=[4, 4], series=["both", "none"], mean=[0.2, 0.8])
    assert one == "Share of triggers with a pattern: 20 % in layer 4"


def test_mutations():
    frame = {"layer": [1, 1, 4, 4], "mutation": ["first", "last"] * 2}
    strong, weak = [-0.1, -0.83, -0.2, -0.79], [-0.9, -0.2, -0.8, 0.1]
    assert said("figure3", **frame, mean=strong, median=strong, untrained=[0.1, -0.6, 0.1, -0.5]) == (
        "Removing the last token matters most: −83 % in layer 1, −79 % in layer 4 (random networks: −60 %, −50 %)"
    )
    assert said("figure3", **frame, mean=weak, median=weak).startswith("Removing the first token matters most: −90 %")
    up = {"layer": [1], "mutation": ["random"], "mean": [0.5], "median": [0.5]}
    assert said("figure3", **up) == "Removing a random token matters most: +50 % in layer 1"


def test_agreement():
    layers = {"layer": [1, 2], "mean": [0.01, 0.024]}
    best = "At most 2.4 % of a layer's values predict the next token, in layer 2"
    assert said("figure4", **layers, chance=[0.0, 0.002]) == f"{best} (random pairs: 0.2 %)"
    beside = said("figure4", **layers, chance=[0.0, 0.002], untrained=[0.1, 0.001])
    assert beside == f"{best} (random pairs: 0.2 %, random networks: 0.1 %)"
    assert said("figure4", **layers, chance=pl.Series([None, None], dtype=pl.Float64)) == best
    assert said("figure4", layer=[1], mean=[0.0], chance=[0.0]) == "No value predicts its top trigger's next token"
    last = FigureContext("figure4", 4, KEYS, "surrogate", FOUR.options, target="last")
    assert "last token" in said("figure4", last, **layers, chance=[0.0, 0.0])


def test_ranks():
    known = FigureContext("figure5", 4, KEYS, "surrogate", FOUR.options, vocab=1000)
    told = said("figure5", known, layer=[1, 4], median=[500.0, 20.0], untrained=[500.0, 490.0])
    assert told.startswith("Median rank of the next token, of the vocabulary: 2 % in layer 4 to 50 % in layer 1")
    assert told.endswith(" (random networks: 49 %, 50 %)")
    assert said("figure5", layer=[1, 4], median=[5000.0, 20.0]).endswith("token: 20 in layer 4 to 5,000 in layer 1")
    assert said("figure5", known, layer=[1], median=[20.0]).endswith(": 2 % in layer 1")


def test_probabilities():
    bins = {"left": [0.0, 0.1, 0.2], "bin": [0.1, 0.2, 0.3], "n": [10, 3, 1]}
    told = said("figure6", **bins, mean=[0.01, 0.2, 0.4])
    assert told == "Values with a top probability above 0.1 agree in 25 % of cases, the others in 1 %"
    assert said("figure6", left=[0.0], bin=[0.1], n=[1], mean=[0.5]) == "Values agree in 50 % of cases"


def test_memories_within_a_layer():
    told = said("figure7", layer=[1, 2], median=[0.3, 0.1])
    assert told == "Active memories: median 10 % in layer 2 to 30 % in layer 1"
    told = said("figure8", layer=[1, 2], mean=[0.6, 0.86], untrained=[0.5, 0.9])
    assert told.endswith("its layer predicts: 60 % in layer 1 to 86 % in layer 2 (random networks: 50 %, 90 %)")


def test_residuals():
    assert said("figure9", layer=[1, 4], mean=[0.02, 0.81], untrained=[0.01, 0.78]) == (
        "The residual predicts the output: 2 % in layer 1, 81 % in layer 4 (random networks: 1 %, 78 %)"
    )
    one = said("figure9", layer=[3], mean=[0.9], untrained=[None])
    assert one == "The residual predicts the output: 90 % in layer 3"
    assert said("figure10", layer=[1, 4], median=[0.1, 0.2]).endswith("of the output: 10 % in layer 1, 20 % in layer 4")


def test_kinds():
    cases = {"layer": [1, 1, 2, 2], "series": ["residual", "ffn"] * 2}
    assert said("figure11", **cases, mean=[0.6, 0.4, 0.9, 0.1]) == (
        "The largest kind, residual: 60 % in layer 1 to 90 % in layer 2"
    )
    assert "kind, ffn (feed-forward): 80 %" in said("figure11", **cases, mean=[0.1, 0.9, 0.2, 0.8])


def test_our_own_figures():
    still = {"choice": ["a", "b"], "claim": ["K1", "K2"], "beyond": [False, True], "refused": [False] * 2}
    assert said("sensitivity", **still, changed=[True, False]) == (
        "1 of 2 verdicts changes under some choice (K1); 1 of 2 numbers moves"
    )
    assert said("sensitivity", **still, changed=[False] * 2) == (
        "No verdict changes under any choice; 1 of 2 numbers moves"
    )
    seeds = {"layer": [1, 2], "low": [1.0, 1.0], "high": [3.0, 3.0]}
    assert said("projection_seeds", **seeds, trained=[2.0, 9.0]).endswith("in 1 of 2 layers")


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("layers", [1, 2, 16])
def test_the_title_is_the_headline_and_the_specification_has_it_whole(figure, layers):
    context = looking(figure, layers=layers)
    frame = draw.data(chosen(figure, synthetic(layers)), Settings(SECTIONS), context)
    spec = render.spec(draw.chart(frame, context))
    headline = draw.DRAWINGS[figure].headline(frame, context) if frame.height else NO_DATA
    assert spec["usermeta"]["headline"] == headline == " ".join(spec["title"]["text"])
    assert "None" not in json.dumps(spec["title"]) and "nan" not in json.dumps(spec["title"])
    assert draw.chart(frame.clear(), context).to_dict()["usermeta"]["headline"] == NO_DATA


def test_removal():
    series = {"layer": [1, 1, 2, 2], "series": ["the memory", "a matched memory"] * 2}
    assert said("figureb1", **series, mean=[0.5, 0.1, 0.7, 0.0]) == (
        "Of a memory's direct effect, 60 % is left in the median layer; removing a matched memory does 5 %"
    )
    assert said("figureb2", layer=[1, 1, 2], direct=[-1.0, -2.0, 1.0], total=[-0.1, 0.5, 2.0]) == (
        "The layers above keep the sign of the direct effect for 67 % of the memories"
    )
    more: dict[str, list] = {"layer": [1, 1, 2, 2] * 2, "series": ["layer", "model"] * 4, "n": [40] * 8}
    more |= {"removed": [1] * 4 + [20] * 4, "mean": [0.2, 0.0, 0.4, 0.1, 0.8, 0.2, 0.6, 0.2]}
    first = "Without the largest memory, 30 % of the layers' predictions change and 5 % of the model's"
    assert said("figureb3", **{name: column[:4] for name, column in more.items()}) == first
    assert said("figureb3", **more) == f"{first}; without 20, 70 % and 20 %"

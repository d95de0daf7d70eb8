"""Test that a figure's headline follows the numbers in its frame."""

import json
from dataclasses import replace

import polars as pl
import pytest
from drawings import SECTIONS, chosen, looking, synthetic

from ff_memories.config import Settings
from ff_memories.figures import draw, render
from ff_memories.figures.draw import NO_DATA
from ff_memories.figures.registry import FIGURES

FOUR = looking("figure4", layers=4)


def said(name, context=FOUR, **columns):
    """Return the headline of a frame with these columns, with ordinary spaces."""
    return draw.DRAWINGS[name].headline(pl.DataFrame(columns), context).replace("\u00a0", " ")


def test_mutations():
    frame = {"layer": [1, 1, 4, 4], "mutation": ["first", "last"] * 2}
    strong, weak = [-0.1, -0.83, -0.2, -0.79], [-0.9, -0.2, -0.8, 0.1]
    assert said("figure3", **frame, mean=strong, median=strong, untrained=[0.1, -0.6, 0.1, -0.5]) == (
        "Removing the last token matters most: −83 % in layer 1, −79 % in layer 4 (random networks: −60 %, −50 %)"
    )
    assert said("figure3", **frame, mean=weak, median=weak).startswith("Removing the first token matters most: −90 %")


def test_agreement_and_ranks():
    layers = {"layer": [1, 2], "mean": [0.01, 0.024]}
    best = "At most 2.4 % of a layer's values predict the next token, in layer 2"
    beside = said("figure4", **layers, chance=[0.0, 0.002], untrained=[0.1, 0.001])
    assert beside == f"{best} (random pairs: 0.2 %, random networks: 0.1 %)"
    assert said("figure4", **layers, chance=pl.Series([None, None], dtype=pl.Float64)) == best
    assert said("figure4", layer=[1], mean=[0.0], chance=[0.0]) == "No value predicts its top trigger's next token"
    last, known = replace(FOUR, target="last"), replace(FOUR, vocab=1000)
    assert "last token" in said("figure4", last, **layers, chance=[0.0, 0.0])
    told = said("figure5", known, layer=[1, 4], median=[500.0, 20.0], untrained=[500.0, 490.0])
    assert told.startswith("Median rank of the next token, of the vocabulary: 2 % in layer 4 to 50 % in layer 1")
    assert told.endswith(" (random networks: 49 %, 50 %)")


LAYERS, TWICE = {"layer": [1, 4]}, {"layer": [1, 1, 4, 4]}
BINS = {"left": [0.0, 0.1, 0.2], "bin": [0.1, 0.2, 0.3], "n": [10, 3, 1]}
CHOICES = {"choice": ["a", "b"], "claim": ["K1", "K2"], "beyond": [False, True], "refused": [False] * 2}
FURTHER: list[tuple[str, dict, str]] = [
    ("figure2", TWICE | {"series": ["shallow", "semantic"] * 2, "mean": [0.6, 0.03, 0.5, 0.07]},
     "Lower layers: 60 % shallow, 3 % semantic; upper: 50 % and 7 %"),
    ("figure6", BINS | {"mean": [0.01, 0.2, 0.4]},
     "Values with a top probability above 0.1 agree in 25 % of cases, the others in 1 %"),
    ("figure7", LAYERS | {"median": [0.3, 0.1]}, "Active memories: median 10 % in layer 4 to 30 % in layer 1"),
    ("figure8", LAYERS | {"mean": [0.6, 0.86], "untrained": [0.5, 0.9]},
     "its layer predicts: 60 % in layer 1 to 86 % in layer 4 (random networks: 50 %, 90 %)"),
    ("figure9", LAYERS | {"mean": [0.02, 0.81], "untrained": [0.01, 0.78]},
     "The residual predicts the output: 2 % in layer 1, 81 % in layer 4 (random networks: 1 %, 78 %)"),
    ("figure9", {"layer": [3], "mean": [0.9], "untrained": [None]},
     "The residual predicts the output: 90 % in layer 3"),
    ("figure10", LAYERS | {"median": [0.1, 0.2]}, "of the output: 10 % in layer 1, 20 % in layer 4"),
    ("figure11", TWICE | {"series": ["residual", "ffn"] * 2, "mean": [0.6, 0.4, 0.9, 0.1]},
     "The largest kind, residual: 60 % in layer 1 to 90 % in layer 4"),
    ("sensitivity", CHOICES | {"changed": [True, False]},
     "1 of 2 verdicts changes under some choice (K1); 1 of 2 numbers moves"),
    ("figureb1", TWICE | {"series": ["the memory", "a matched memory"] * 2, "mean": [0.5, 0.1, 0.7, 0.0]},
     "Of a memory's direct effect, 60 % is left in the median layer; removing a matched memory does 5 %"),
    ("figureb2", {"layer": [1, 1, 2], "direct": [-1.0, -2.0, 1.0], "total": [-0.1, 0.5, 2.0]},
     "The layers above keep the sign of the direct effect for 67 % of the memories"),
]  # fmt: skip


@pytest.mark.parametrize("figure, columns, told", FURTHER)
def test_a_headline_says_its_frames_numbers(figure, columns, told):
    assert said(figure, **columns).endswith(told)


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
    more: dict[str, list] = {"layer": [1, 1, 2, 2] * 2, "series": ["layer", "model"] * 4, "n": [40] * 8}
    more |= {"removed": [1] * 4 + [20] * 4, "mean": [0.2, 0.0, 0.4, 0.1, 0.8, 0.2, 0.6, 0.2]}
    first = "Without the largest memory, 30 % of the layers' predictions change and 5 % of the model's"
    assert said("figureb3", **{name: column[:4] for name, column in more.items()}) == first
    assert said("figureb3", **more) == f"{first}; without 20, 70 % and 20 %"

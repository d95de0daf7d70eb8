"""The released code's columns, against a literal rendering of what that code does: one sentence at a time, float64."""

from typing import Any

import pytest
import torch
from factories import words
from pipeline import config, run_steps, write_inputs
from reference import Reference
from released_columns import assert_cells, check_dim_columns, literal, measured

from contrib.released_code import columns
from ff_memories.corpus import store

TYPES = words(44)
RUNS: dict[str, dict[str, Any]] = {
    "paper's architecture": {"seed": 1},
    "large values": {"seed": 4, "scale": 3.0},
    "untied": {"seed": 6, "tie_adaptive_proj": False},
}


@pytest.fixture(scope="module", params=RUNS, ids=str)
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("released")
    model = write_inputs(folder, TYPES, **RUNS[request.param])
    settings = config(composition__positions="0..N")
    out = run_steps(folder, settings)
    return Reference(model, TYPES), out, measured(out)


def test_every_layer_column_is_the_released_codes(run):
    reference, out, (frame, _) = run
    corpus = store.read(out / "corpus.safetensors")
    positions = set()
    for _, part in frame.sort("example", "layer").group_by("example", maintain_order=True):
        part = part.to_dicts()
        tokens = corpus.sentence(part[0]["sentence"])[: part[0]["position"]].tolist()
        positions.add(len(tokens))
        assert_cells(part, literal(reference, tokens))
    assert 0 in positions
    assert len(frame) == 40 * len(reference.blocks)


def test_every_dim_column_is_the_released_codes(run):
    reference, out, (_, frame) = run
    assert check_dim_columns(reference, out, frame)


def test_scaling_moves_some_memories_predictions(tmp_path):
    """The shortcut for scaled values is needed, and right: tops of v and of m v differ for some tail words."""
    from ff_memories.model.files import checkpoint
    from ff_memories.model.vocabulary import Vocabulary

    write_inputs(tmp_path, TYPES, seed=3)
    description, weights = checkpoint.read(tmp_path / "model.pt")
    vocabulary = Vocabulary(description.output_cutoffs, {n: t.double() for n, t in weights.items()})
    draw = torch.Generator().manual_seed(0)
    values = torch.randn(300, 16, generator=draw, dtype=torch.float64) * 4
    coefficients = torch.relu(torch.randn(9, 300, generator=draw, dtype=torch.float64) * 0.3)
    tops = vocabulary.predict(values).top
    got = columns.scaled_value_tops(vocabulary, values, coefficients, tops, columns.scalable(vocabulary, values))
    every = torch.stack([vocabulary.log_probabilities(values * row[:, None]).argmax(1) for row in coefficients])
    assert torch.equal(got, every)
    active = coefficients > 0
    assert (got[active] != tops.expand_as(got)[active]).any()
    assert (got[~active] == 0).all()

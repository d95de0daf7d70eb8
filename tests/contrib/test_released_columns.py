"""The released code's columns, against a literal rendering of what that code does: one sentence at a time, float64."""

from typing import Any

import pytest
from factories import words
from pipeline import config, run_steps, write_inputs
from reference import Reference
from released_columns import assert_cells, check_dim_columns, literal, measured

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

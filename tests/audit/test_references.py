"""The audit's two references of fairseq checkpoints: fairseq's own model, and the equations without it."""

import importlib.util
import random

import pytest
import torch
from factories import words, write_checkpoint, write_dictionary

from ff_memories.audit.recompute import basis, checks
from ff_memories.audit.references import transformers_oracle
from ff_memories.audit.references.equations import Equations
from ff_memories.audit.references.fairseq_oracle import FairseqOracle
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.model.files import checkpoint

SHAPES = {
    "the paper's": {},
    "one softmax": {"adaptive": False},
    "tied embeddings": {"adaptive": False, "share_decoder_input_output_embed": True},
    "learned positions": {"decoder_learned_pos": True},
    "a final norm": {"no_decoder_final_norm": False},
    "untied tails": {"tie_adaptive_weights": False, "tie_adaptive_proj": False},
    "an odd width": {"decoder_embed_dim": 18},
}
READINGS = ("adaptive", "flat", "head", "random")


@pytest.fixture(params=SHAPES.values(), ids=list(SHAPES))
def files(request, tmp_path):
    types = words(40)
    write_checkpoint(tmp_path / "model.pt", types, **request.param)
    write_dictionary(tmp_path / "dict.txt", types)
    return tmp_path / "model.pt", Dictionary.read(tmp_path / "dict.txt")


def same(one, other):
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("reading", READINGS)
def test_the_equations_give_what_fairseq_gives(files, reading):
    path, types = files
    ours, theirs = Equations(path, reading), FairseqOracle(path, types, reading)
    rng = random.Random(3)
    for length in (0, 1, 2, 17):
        tokens = [rng.randrange(4, len(types)) for _ in range(length)]
        for one, other in zip(ours.layers(tokens), theirs.layers(tokens), strict=True):
            for name in ("residual", "m", "ffn", "output"):
                same(getattr(one, name), getattr(other, name))
            same(one.scores[0], other.scores[0])
            for read in ("of_layer", "of_memory", "of_value"):
                same(getattr(ours, read)(one.output), getattr(theirs, read)(one.output))
    layers, keys = ours.keys
    assert theirs.keys == (layers, keys)
    same(ours.key(layers, keys - 1), theirs.key(layers, keys - 1))
    same(ours.value(1, 0), theirs.value(1, 0))


def test_both_take_the_weights_of_an_untrained_model(tmp_path):
    types = words(40)
    for seed, name in ((1, "model.pt"), (2, "other.pt")):
        write_checkpoint(tmp_path / name, types, seed)
    write_dictionary(tmp_path / "dict.txt", types)
    _, other = checkpoint.read(tmp_path / "other.pt")
    ours = Equations(tmp_path / "model.pt")
    theirs = FairseqOracle(tmp_path / "model.pt", Dictionary.read(tmp_path / "dict.txt"))
    for reference in (ours, theirs):
        reference.draw_again(other)
    for one, again, expected in zip(
        ours.layers([5, 6]), theirs.layers([5, 6]), Equations(tmp_path / "other.pt").layers([5, 6]), strict=True
    ):
        same(one.output, again.output)
        assert torch.equal(one.output, expected.output)


def test_without_fairseq_the_equations_are_the_reference(files, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "fairseq" else find(name, *a))
    path, types = files
    assert isinstance(basis._of_fairseq(path, types, "adaptive", 1), Equations)


@pytest.mark.parametrize("width", [45, 48])
@pytest.mark.parametrize("kind", [torch.nn.LayerNorm, torch.nn.RMSNorm])
def test_norms_of_any_width_are_read_by_their_outputs(kind, width):
    torch.manual_seed(width)
    norm, along, change = kind(width, dtype=torch.float64), *torch.randn(2, width, dtype=torch.float64)
    with torch.no_grad():
        norm.weight.add_(torch.randn(width))
        torch.testing.assert_close(transformers_oracle._scale(norm, width), norm.weight)
    held = lambda x: norm.weight.detach() * (x - x.mean() if kind is torch.nn.LayerNorm else x)
    torch.testing.assert_close(checks._through(held, along) @ change, along @ held(change))

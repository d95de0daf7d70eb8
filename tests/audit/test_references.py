"""The audit's reference of fairseq checkpoints, the equations, against fairseq's own model."""

import random

import pytest
import torch
from factories import words, write_checkpoint, write_dictionary
from fairseq_oracle import FairseqOracle

from ff_memories.audit.recompute import checks
from ff_memories.audit.references import transformers_oracle
from ff_memories.audit.references.equations import Equations
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
        vector = torch.randn(ours.vectors("value", 1).shape[1], generator=torch.Generator().manual_seed(4)).double()
        for layer in range(1, ours.keys[0] + 1):
            one, other = (
                ours.changed(tokens, ours.layers(tokens), layer, vector),
                theirs.layers_changed(tokens, layer, vector),
            )
            same(one.after, other[-1].output[-1])
            same(one.ffn, other[layer - 1].ffn[-1])
    layers, keys = ours.keys
    assert theirs.keys == (layers, keys)
    for of in ("key", "value", "added"):
        same(ours.vectors(of, layers), theirs.vectors(of, layers))


def test_the_equations_take_the_weights_of_an_untrained_model(tmp_path):
    types = words(40)
    for seed, name in ((1, "model.pt"), (2, "other.pt")):
        write_checkpoint(tmp_path / name, types, seed)
    ours, expected = Equations(tmp_path / "model.pt"), Equations(tmp_path / "other.pt")
    ours.draw_again(checkpoint.read(tmp_path / "other.pt")[1])
    for one, other in zip(ours.layers([5, 6]), expected.layers([5, 6]), strict=True):
        assert torch.equal(one.output, other.output)


@pytest.mark.parametrize("width", [45, 48])
@pytest.mark.parametrize("kind", [torch.nn.LayerNorm, torch.nn.RMSNorm])
def test_norms_of_any_width_are_read_by_their_outputs(kind, width):
    torch.manual_seed(width)
    norm, along, change = kind(width, dtype=torch.float64), *torch.randn(2, width, dtype=torch.float64)
    with torch.no_grad():
        norm.weight.add_(torch.randn(width))
        torch.testing.assert_close(transformers_oracle._scale(norm, width), norm.weight)
    held = lambda x: norm.weight.detach() * (x - x.mean() if kind is torch.nn.LayerNorm else x)
    torch.testing.assert_close(checks._through(held, along)(along) @ change, along @ held(change))

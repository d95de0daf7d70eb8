"""The audit's reference of fairseq checkpoints, the equations, against fairseq's own model."""

import random

import pytest
import torch
from factories import words, write_checkpoint
from reference import Reference

from ff_memories.audit import transformers_oracle
from ff_memories.audit.equations import Change, Equations
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


@pytest.fixture(params=SHAPES.values(), ids=list(SHAPES))
def both(request, tmp_path):
    """The equations of a checkpoint, and fairseq's own model of it."""
    types = words(40)
    model, _ = write_checkpoint(tmp_path / "model.pt", types, **request.param)
    return Equations(tmp_path / "model.pt"), Reference(model, types)


def same(one, other):
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@torch.no_grad()
def test_the_equations_give_what_fairseq_gives(both):
    ours, theirs = both
    rng, vector = random.Random(3), torch.randn(ours.about.model, generator=torch.Generator().manual_seed(4)).double()
    for length in (0, 1, 2, 17):
        tokens = [rng.randrange(4, 44) for _ in range(length)]
        seen = ours.layers(tokens)
        for one, block, (r, m, y) in zip(seen, theirs.blocks, theirs.layers(tokens), strict=True):
            for own, other in ((one.residual, r), (one.m, m), (one.ffn, y), (one.output, r + y)):
                same(own, other)
            same(one.scores[0], block.fc1(block.final_layer_norm(r)))
            last = one.output[-1]
            same(ours.of_layer(last), theirs.log_probabilities(last, final=True))
            same(ours.of_value(last), theirs.log_probabilities(last))
        at_last = torch.zeros(length + 1, 1, 1).double()
        at_last[-1] = 1
        for layer, block in enumerate(theirs.blocks, 1):
            hook = block.fc2.register_forward_hook(lambda _, args, out, at_last=at_last: out + at_last * vector)
            found, ((after, ffn),) = theirs.layers(tokens), ours.changed(Change(tokens, seen, layer, vector))
            hook.remove()
            same(after, found[-1][0][-1] + found[-1][2][-1])
            same(ffn, found[layer - 1][2][-1])
    assert ours.keys == (len(theirs.blocks), block.fc1.out_features)
    for of in ("value", "added"):
        same(ours.vectors(of, len(theirs.blocks)), block.fc2.weight.T)


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
    norm, (at, *changes) = kind(width, eps=1e-5, dtype=torch.float64), torch.randn(4, width, dtype=torch.float64)
    with torch.no_grad():
        norm.weight.add_(torch.randn(width))
        torch.testing.assert_close(transformers_oracle._scale(norm, at), norm.weight)
        held = transformers_oracle._held(norm, torch.stack(changes), at)
    centred = lambda x: x - x.mean() if kind is torch.nn.LayerNorm else x
    deviation = (centred(at).square().mean() + 1e-5).sqrt()
    for change, row in zip(changes, held, strict=True):
        torch.testing.assert_close(row, norm.weight.detach() * centred(change) / deviation)

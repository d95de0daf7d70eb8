"""Predictions in tiles equal those of the full log-probabilities, however vectors are read."""

import pytest
import torch
from factories import fairseq_model, words, write_checkpoint

from ff_memories.model import vocabulary
from ff_memories.model.files import checkpoint
from ff_memories.model.vocabulary import Vocabulary

TYPES = words(44)
MODELS = {"adaptive": {}, "untied": {"tie_adaptive_proj": False}, "plain": {"adaptive": False},
          "final norm": {"no_decoder_final_norm": False}}  # fmt: skip


def load(tmp_path, dtype=torch.float64, **options):
    model, _ = write_checkpoint(tmp_path / "model.pt", TYPES, seed=4, **options)
    description, weights = checkpoint.read(tmp_path / "model.pt")
    return model, Vocabulary(description.output_cutoffs, {n: t.to(dtype) for n, t in weights.items()})


def vectors(n, d=16, seed=0):
    draw = torch.Generator().manual_seed(seed)
    scale = torch.rand(n, 1, generator=draw, dtype=torch.float64) * 6
    return torch.randn(n, d, generator=draw, dtype=torch.float64) * scale


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("kind", ["adaptive", "flat", "head", "random"])
def test_tops_probabilities_and_ranks_are_those_of_the_full_distribution(tmp_path, monkeypatch, options, kind):
    monkeypatch.setattr(vocabulary, "TILE", 5)
    monkeypatch.setattr(vocabulary, "ROWS", 7)
    read = load(tmp_path, **options)[1].reading(kind)
    h = vectors(60)
    full = read.log_probabilities(h)
    assert torch.allclose(full.exp().sum(1), torch.ones(60, dtype=torch.float64))
    target = torch.arange(60) % read.size
    target[::7] = -1
    found = read.predict(h, target)
    assert torch.equal(found.top, full.argmax(1))
    assert torch.allclose(found.probability, full.max(1).values.exp())
    known = target >= 0
    own = full.gather(1, target.clamp(0)[:, None])
    assert torch.equal(found.target_rank[known], (full > own).sum(1)[known])
    assert (found.target_rank[~known] == -1).all()
    assert torch.allclose(found.target_probability[known], own.exp().squeeze(1)[known])
    plain = read.predict(h)
    assert torch.equal(plain.top, found.top)
    assert (plain.target_rank == -1).all() and plain.target_probability.isnan().all()
    assert torch.allclose(read.predict(h, target, rank=False).target_probability[known], own.exp().squeeze(1)[known])


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("kind", ["adaptive", "flat", "head", "random"])
def test_types_that_are_never_trained_are_left_out_and_everything_else_stays(tmp_path, monkeypatch, options, kind):
    monkeypatch.setattr(vocabulary, "TILE", 5)
    monkeypatch.setattr(vocabulary, "ROWS", 70)
    read = load(tmp_path, **options)[1].reading(kind)
    h = vectors(400)
    target = torch.arange(400) % read.size
    target[::7] = -1
    before = read.predict(h, target)
    for name in ("top", "probability"):
        assert torch.equal(getattr(before, f"trained_{name}"), getattr(before, name))
    assert torch.equal(before.trained_rank, before.target_rank)
    tops = before.top.unique()
    never = sorted({0, 1, *tops[:: max(1, len(tops) // 6)].tolist()})  # some of what is predicted, in every cluster
    read.leave_out(never)
    found, full = read.predict(h, target), read.log_probabilities(h)
    for name in ("top", "probability", "target_rank", "target_probability"):
        torch.testing.assert_close(getattr(found, name), getattr(before, name), equal_nan=True)
    without = full.index_fill(1, torch.tensor([n for n in never if n < read.size]), -torch.inf)
    assert torch.equal(found.trained_top, without.argmax(1)) and (found.trained_top != found.top).any()
    assert torch.allclose(found.trained_probability, without.max(1).values.exp())
    known = target >= 0
    own = full.gather(1, target.clamp(0)[:, None])
    assert torch.equal(found.trained_rank[known], (without > own).sum(1)[known])
    assert (found.trained_rank[~known] == -1).all()
    assert torch.equal(read.predict(h).trained_top, found.trained_top)


def test_a_target_that_is_never_trained_does_not_stand_above_itself(tmp_path, monkeypatch):
    """Its logit is computed twice, and the second may round up."""
    read = load(tmp_path)[1]
    h, target = vectors(40), torch.full((40,), read.size - 1)
    read.leave_out([read.size - 1])
    plain = read.predict(h, target).trained_rank
    logits_of = vocabulary.Tail.logits_of
    monkeypatch.setattr(vocabulary.Tail, "logits_of", lambda tail, words: logits_of(tail, words) + 1e-12)
    assert torch.equal(read.predict(h, target).trained_rank, plain)
    assert torch.equal(plain, read.predict(h, target).target_rank)


def test_tail_words_are_among_the_tops_tested(tmp_path):
    assert (load(tmp_path)[1].predict(vectors(400)).top >= 12).any()


def test_a_flat_reading_is_softmax_of_projected_embeddings(tmp_path):
    model, read = load(tmp_path)
    bands = [model.decoder.embed_tokens.weights_for_band(i) for i in range(3)]
    rows = [bands[0][0], *(embedding @ projection.T for embedding, projection in bands[1:])]
    expected = torch.log_softmax(vectors(20) @ torch.cat(rows).double().T, 1)
    assert torch.allclose(read.reading("flat").log_probabilities(vectors(20)), expected)
    assert torch.allclose(torch.log_softmax(vectors(20) @ read.word_vectors().T, 1), expected)


def test_a_head_reading_is_a_softmax_of_head_words(tmp_path):
    model, read = load(tmp_path)
    expected = torch.log_softmax(vectors(20) @ model.decoder.embed_tokens.weights_for_band(0)[0].double().T, 1)
    assert torch.allclose(read.reading("head").log_probabilities(vectors(20)), expected)


def test_a_random_reading_is_an_adaptive_softmax_as_initialised_with_the_words_tied(tmp_path):
    from fairseq.modules import AdaptiveSoftmax

    model, read = load(tmp_path)
    theirs = AdaptiveSoftmax(48, 16, [12, 24], 0.0, factor=2, adaptive_inputs=model.decoder.embed_tokens).double()
    ours = read.reading("random", seed=5)
    assert not torch.equal(ours.classes, read.classes)
    with torch.no_grad():
        theirs.head.class_proj.weight.copy_(ours.classes)
        for tail, cluster in zip(theirs.tail, ours.clusters[1:], strict=True):
            tail[0].weight.copy_(cluster.projection)
    theirs.head.word_proj.weight.data = theirs.head.word_proj.weight.double()
    assert torch.allclose(ours.log_probabilities(vectors(20)), theirs.get_log_prob(vectors(20)[None], None)[0])
    assert torch.equal(ours.classes, read.reading("random", seed=5).classes)
    assert not torch.equal(ours.classes, read.reading("random", seed=6).classes)
    bound = (6 / (16 + 2)) ** 0.5
    assert ours.classes.abs().max() <= bound
    assert fairseq_model(TYPES, 9)[0].decoder.adaptive_softmax.head.class_proj.weight.abs().max() <= bound


@pytest.mark.parametrize("whole", [False, True], ids=["as values", "with bias and cap"])
def test_both_signs_of_a_vector_are_read_off_one_product_as_if_each_were_projected(tmp_path, monkeypatch, whole):
    for name, size in (("TILE", 5), ("ROWS", 7), ("IN_CACHE", 100)):
        monkeypatch.setattr(vocabulary, name, size)
    read = load(tmp_path, adaptive=False)[1]
    words = read.clusters[0].embedding
    words.mul_(8).round_()  # whole numbers: every order of a sum gives the same bits
    words[20:25] = words[3]  # equal logits
    read.bias, read.cap = torch.linspace(-4, 4, read.size, dtype=torch.float64), 5.0
    read.leave_out([3, 7])
    assert read.out is None
    h = torch.cat([vectors(30).round(), torch.zeros(2, 16, dtype=torch.float64)])
    target = torch.stack([torch.arange(32) % read.size - 1, torch.arange(32).flip(0)])
    for sign, found, own in zip((1, -1), read.predict_signs(h, target, 2, whole=whole), target, strict=True):
        logits = sign * h @ words.T
        logits = 5.0 * torch.tanh((logits + read.bias) / 5.0) if whole else logits
        p, known, row = torch.softmax(logits, 1), own >= 0, torch.arange(32)
        assert torch.equal(found.top, logits.argmax(1))
        assert torch.allclose(found.probability, p.amax(1))
        above = logits > logits[row, own][:, None]
        assert torch.equal(found.target_rank[known], above.sum(1)[known]) and (found.target_rank[~known] == -1).all()
        assert torch.allclose(found.target_probability[known], p[row, own][known])
        assert torch.equal(found.trained_top, logits.index_fill(1, read.never, -torch.inf).argmax(1))
        above[:, read.never] = False
        assert torch.equal(found.trained_rank[known], above.sum(1)[known])
        plain = read.predict(sign * h, own, whole=whole)
        assert torch.equal(plain.top, found.top) and torch.equal(plain.target_rank, found.target_rank)


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_tops_alone_are_those_of_a_whole_reading(tmp_path, options):
    read = load(tmp_path, **options)[1]
    read.bias = torch.linspace(-4, 4, read.size, dtype=torch.float64) if read.plain else None
    assert torch.equal(read.read_tops(vectors(60)), read.read(vectors(60)).top)


def test_an_unknown_reading_is_refused(tmp_path):
    with pytest.raises(ValueError, match="sideways"):
        load(tmp_path)[1].reading("sideways")

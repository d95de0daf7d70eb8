"""Removed memories: each row equals the whole model run without them, one prefix at a time, in float64."""

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import tiny
import torch
import transformers
from changed import OfFairseq, adding, corpus_of, whole_model

from ff_memories.corpus.store import Corpus
from ff_memories.paper.beyond import removals
from ff_memories.paper.beyond.survey import drawn_prefixes

NUMBERS = [1, 2, 5, 10, 20]


MORE = [pytest.param(name, marks=pytest.mark.more) for name in ("gemma2", "olmo2", "falcon")]


@pytest.fixture(params=["gpt2", "llama", "adaptive", "final norm", *MORE])
def truth(request, tmp_path):
    return whole_model(request.param, tmp_path)


def options(prefixes=12, memories=NUMBERS):
    return SimpleNamespace(prefixes=prefixes, memories=memories)


def table_of(truth, shard=(1, 1), batch_tokens=200, **changes):
    text = corpus_of(truth.decoder.description.vocab)
    return text, removals.table(
        truth.decoder, text, options(**changes), seed=1, batch_tokens=batch_tokens, shard=shard
    ).sort("layer", "prefix", "by", "removed")


class Watched:
    """What a reference model computes at the end of a prefix, and its layers' own predictions."""

    def __init__(self, truth, prefix):
        self.truth, self.norms = truth, {}
        behind = getattr(truth, "row", None) and truth.row.norm_after
        hooks = []
        for layer in range(1, truth.decoder.description.layers + 1):
            at = truth.blocks[layer - 1].get_submodule(behind) if behind else truth.down(layer)
            keep = lambda _, args, out, layer=layer: self.norms.__setitem__(layer, out.flatten(0, -2)[-1].clone())
            hooks.append(at.register_forward_hook(keep))
        self.seen, self.h, self.logits = truth.run(prefix)
        for hook in hooks:
            hook.remove()

    def update(self, layer):
        return self.norms[layer]

    def said_of(self, y):
        """log p of a layer vector by the model's whole output layer."""
        if isinstance(self.truth, OfFairseq):
            return self.truth.said(y, None)
        made = self.truth.made
        logits = torch.nn.functional.linear(self.truth.norm(y[None])[0], *_output(made))
        cap = getattr(made.config, "final_logit_softcapping", None)
        return torch.log_softmax(logits if cap is None else cap * torch.tanh(logits / cap), 0)


def _output(made):
    head = made.get_output_embeddings()
    return head.weight, head.bias


def length(truth, layer, memory):
    """The length of a value, with the scale of the norm behind its layer."""
    return float(truth.decoder.layers[layer - 1].values[memory].norm())


@torch.no_grad()
def test_every_row_is_what_the_whole_model_computes(truth):
    text, made = table_of(truth)
    layers, neurons = truth.decoder.description.layers, truth.decoder.description.keys
    numbers = [n for n in NUMBERS if n <= neurons]
    assert len(made) == 12 * layers * (1 + len(numbers)) and len(numbers) > 3
    for (prefix, layer), part in made.group_by("prefix", "layer", maintain_order=True):
        sentence = int(np.searchsorted(text.offsets, prefix, side="right")) - 1
        tokens, end = text.tokens[text.offsets[sentence] : prefix + 1], text.offsets[sentence + 1]
        base = Watched(truth, tokens)
        m, y = base.seen[layer], base.update(layer)
        sizes = torch.tensor([abs(float(m[i])) * length(truth, layer, i) for i in range(neurons)])
        said = base.said_of(y)
        top, second = said.topk(2).indices.tolist()
        gains = []
        for i in range(neurons):  # by one product with the whole vocabulary for each memory
            change = truth.direct(layer, m[i] * truth.value(layer, i), base.seen)
            logits = truth.linear_part(change, y)
            gains.append(float(logits[top] - logits[second]))
        assert len(set(gains)) > 1
        for row in part.iter_rows(named=True):
            gone = [int(np.argmax(gains))] if row["by"] == "margin" else sizes.topk(row["removed"]).indices.tolist()
            assert row["share"] == pytest.approx(float(sizes[gone].sum() / sizes.sum()), rel=1e-5)
            vector = -sum(m[i] * truth.value(layer, i) for i in gone)
            with adding(truth, layer, vector):
                changed = Watched(truth, tokens)
            without = base.said_of(changed.update(layer))
            gaps = [float(one.topk(2).values.diff().abs()) for one in (said, without)]
            assert min(gaps) < 1e-6 or row["layer_top_changed"] == (int(without.argmax()) != top)
            before, after = truth.said(base.h, base.logits), truth.said(changed.h, changed.logits)
            own = int(before.argmax())
            near = lambda found, expected: found == pytest.approx(expected, rel=1e-4, abs=1e-6)
            assert near(row["top_log_probability"], float(after[own] - before[own]))
            assert near(row["kl"], float((before.exp() * (before - after)).sum()))
            assert row["top_changed"] == (int(after.argmax()) != own)
            if prefix + 1 < end:
                following = int(text.tokens[prefix + 1])
                assert near(row["loss"], float(before[following] - after[following]))
            else:
                assert row["loss"] is None


def test_shards_and_batches_change_no_row(truth):
    whole = table_of(truth)[1]
    parts = pl.concat([table_of(truth, shard=(i, 3))[1] for i in (1, 2, 3)])
    assert whole.equals(parts.sort("layer", "prefix", "by", "removed"))
    other = table_of(truth, batch_tokens=30)[1]
    assert np.allclose(whole["kl"], other["kl"], rtol=1e-5, atol=1e-8)
    assert whole.select("layer", "prefix", "by", "removed", "layer_top_changed").equals(
        other.select("layer", "prefix", "by", "removed", "layer_top_changed")
    )


def test_the_prefixes_are_the_first_that_causal_may_test_and_missing_ones_are_counted():
    text = corpus_of(40)
    sentence, position = drawn_prefixes(text, 5)
    own = removals.tested(text, 5, 7)
    assert own[0].tolist() == sentence[:14:2].tolist() and own[1].tolist() == position[:14:2].tolist()
    assert len(removals.tested(text, 5, 400)[0]) == 25  # half of the validation sentences
    assert removals.reasons(text, 5, options(400, [1, 2, 70]), 50) == {
        "prefixes_missing": 375, "numbers_above_the_layers_memories": 1,
    }  # fmt: skip


def test_a_run_that_removes_nothing_has_an_empty_table(truth):
    _, made = table_of(truth, prefixes=0)
    assert made.is_empty() and made.columns == table_of(truth, prefixes=1)[1].columns


# --------------------------------------------------------------------------------------------------- planted memories


@pytest.fixture
def planted():
    """One layer whose update is known: at every prefix, memory i has coefficient 1 and adds its value.

    Words 0 to 3 are read by coordinates of their own. A prefix's last state has no part in the update.
    """
    config = transformers.GPT2Config(
        vocab_size=4, n_embd=8, n_layer=1, n_head=1, n_inner=4, n_positions=8, bos_token_id=0, eos_token_id=0,
        activation_function="relu", layer_norm_epsilon=1e-12, tie_word_embeddings=False,
    )  # fmt: skip
    config._attn_implementation = "eager"
    made = transformers.GPT2LMHeadModel(config).double().eval().requires_grad_(False)
    for parameter in made.parameters():
        parameter.zero_()
    made.transformer.wte.weight[:, 0] = 1.0
    for norm in (made.transformer.ln_f, made.transformer.h[0].ln_1, made.transformer.h[0].ln_2):
        norm.weight.fill_(1)
    made.transformer.h[0].mlp.c_fc.bias.fill_(1)
    for word in range(4):
        made.lm_head.weight[word] = feature(word)

    def with_values(*values):
        for i, value in enumerate(values):
            made.transformer.h[0].mlp.c_proj.weight[i] = value
        return tiny.analysed(made, tiny.family("gpt2"))

    return with_values


def feature(word, by=1.0):
    """A vector without a mean that promotes one word."""
    out = torch.zeros(8, dtype=torch.float64)
    out[2 * word], out[2 * word + 1] = by, -by
    return out


def of(decoder):
    """{(by, removed): (share, whether the layer's prediction changes)} at one prefix."""
    text = Corpus(np.ones(24, np.int32), np.arange(0, 25, 4), 2)
    made = removals.table(decoder, text, options(1, [1, 2, 3]), seed=1, batch_tokens=99)
    return {row["by"] + str(row["removed"]): (row["share"], row["layer_top_changed"]) for row in made.to_dicts()}


def test_a_layer_with_one_memory_that_makes_its_prediction_loses_it_with_that_memory(planted):
    alone = feature(3, 5.0) - feature(2, 5.0) - feature(1, 5.0)  # word 3 leads with it, and word 1 without it
    found = of(planted(feature(1, 3.0), feature(2, 2.0), alone, 0 * feature(0)))
    assert found["margin1"][1] and found["size1"][1] and found["size3"][1]
    assert found["margin1"] == found["size1"] == (pytest.approx(75**0.5 / (75**0.5 + 3 + 2)), True)


def test_the_largest_memory_need_not_be_the_one_that_makes_the_prediction(planted):
    # word 2's margin over word 1 owes nothing to memory 0
    found = of(planted(feature(1, 9.0) + feature(2, 9.0), feature(2, 1.0), 0 * feature(0), feature(1, 0.5)))
    assert found["size1"] == (pytest.approx(9 * 2**0.5 / (9 * 2**0.5 + 1.5)), False)
    assert found["margin1"] == (pytest.approx(1 / (9 * 2**0.5 + 1.5)), True)
    assert found["size2"][1] and found["size3"] == (1.0, True)


def test_of_equal_memories_the_first_ones_are_removed_and_the_others_keep_the_prediction(planted):
    found = of(planted(feature(1), feature(1), feature(1), feature(2, 0.5)))
    assert [found[f"size{n}"] for n in (1, 2, 3)] == [(pytest.approx(n / 3.5), n == 3) for n in (1, 2, 3)]
    assert found["margin1"] == (pytest.approx(1 / 3.5), False)


def test_a_layer_that_adds_nothing_loses_nothing(planted):
    assert set(of(planted(*[0 * feature(0)] * 4)).values()) == {(0.0, False)}

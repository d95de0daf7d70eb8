"""Changed memories: each equals the whole model run with the change, one prefix at a time, in float64."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import tiny
import torch
import transformers
from changed import adding, corpus_of, whole_model
from factories import convert
from planted import EPSILON, SLOPE
from planted_run import planted

from ff_memories.base.draws import generator
from ff_memories.config.sections import Causal
from ff_memories.corpus.store import Corpus
from ff_memories.model.decoder import Decoder
from ff_memories.model.interventions import (
    Setting,
    logit_changes,
    logit_vectors,
    prediction_changes,
    run_changed,
    with_settings,
)
from ff_memories.paper.beyond import causal
from ff_memories.paper.beyond.survey import Survey, survey

INTERVENTIONS: list[Any] = ["mean", "zero", "resample", "double"]


MORE = [pytest.param(name, marks=pytest.mark.more) for name in ("gemma2", "olmo2", "gpt_neox", "falcon")]


@pytest.fixture(params=["gpt2", "llama", "adaptive", "final norm", *MORE])
def truth(request, tmp_path):
    return whole_model(request.param, tmp_path)


OPTIONS = Causal(keys_per_layer=3, prefixes=3, interventions=INTERVENTIONS)
VALUES = SimpleNamespace(projection="adaptive", projection_seed=1)


def table_of(truth, shard=(1, 1), batch_tokens=200, options=OPTIONS):
    text = corpus_of(truth.decoder.description.vocab)
    return text, *causal.table(truth.decoder, text, options, VALUES, seed=1, batch_tokens=batch_tokens, shard=shard)


@torch.no_grad()
def test_every_row_is_what_the_whole_model_computes(truth):
    text, drawn, made = table_of(truth)
    neurons = truth.decoder.description.keys
    assert len(made) == len(drawn) > 60
    assert set(made["control"]) == set(causal.CONTROLS)
    others = {}
    place = lambda number: int(np.searchsorted(text.offsets, number, side="right")) - 1
    prefix_of = lambda number: text.tokens[text.offsets[place(number)] : number + 1]
    scale = float(made["total"].abs().max())
    for row in made.iter_rows(named=True):
        where = row["other_prefix"] if row["control"] == "inactive" else row["prefix"]
        prefix, layer, memory = prefix_of(where), row["layer"], row["key"]
        base, h, logits = truth.run(prefix)
        which = memory
        if row["control"] == "matched":
            which = row["matched_key"] + neurons * bool(
                truth.decoder.signs == 2 and base[layer][row["matched_key"]] < 0
            )
        own = lambda m, which=which: float(m[which % neurons]) * (1 if which < neurons else -1)
        assert own(base[layer]) == pytest.approx(row["coefficient"], rel=1e-4, abs=1e-6)
        vector = truth.value(layer, which)
        if row["control"] == "direction":
            vector = vector.norm() * torch.from_numpy(causal.direction(1, layer, memory, row["prefix"], len(vector)))
        vector = vector * (row["set_to"] - row["coefficient"])
        with adding(truth, layer, vector):
            _, h2, logits2 = truth.run(prefix)
        change = truth.linear(h2) - truth.linear(h)
        if (layer, memory) not in others:
            other = causal.other_memory(1, layer, memory, neurons)
            others[layer, memory] = truth.promoted(layer, memory), truth.promoted(layer, other)
        promoted, other = others[layer, memory]
        near = lambda found, expected: found == pytest.approx(expected, rel=1e-4, abs=2e-5 * scale)
        assert near(row["total"], float(change[promoted].mean()))
        assert near(row["other_total"], float(change[other].mean()))
        before, after = truth.said(h, logits), truth.said(h2, logits2)
        assert near(row["kl"], float((before.exp() * (before - after)).sum()))
        top = int(before.argmax())
        assert near(row["top_log_probability"], float(after[top] - before[top]))
        assert row["top_changed"] == (int(after.argmax()) != top)
        end = text.offsets[place(where) + 1]
        if where + 1 < end:
            following = int(text.tokens[where + 1])
            assert near(row["loss"], float(before[following] - after[following]))
        else:
            assert row["loss"] is None
        direct = truth.linear_part(truth.direct(layer, vector, base), h)
        assert near(row["direct"], float(direct[promoted].mean()))
        assert near(row["total_frozen"], float(truth.linear_part(h2 - h, h)[promoted].mean()))


def test_shards_and_batches_change_no_row(truth):
    whole = table_of(truth)[2].sort("layer", "key", "prefix", "intervention", "control")
    parts = pl.concat([table_of(truth, shard=(i, 3))[2] for i in (1, 2, 3)])
    assert whole.equals(parts.sort("layer", "key", "prefix", "intervention", "control"))
    other = table_of(truth, batch_tokens=30)[2].sort("layer", "key", "prefix", "intervention", "control")
    assert np.allclose(whole["total"], other["total"], rtol=1e-5, atol=1e-6)


def test_a_run_that_changes_nothing_has_an_empty_table(truth):
    silent = Causal(keys_per_layer=0, prefixes=3, interventions=INTERVENTIONS)
    made = table_of(truth, options=silent)[2]
    assert made.is_empty() and made.schema == table_of(truth)[2].schema


@torch.no_grad()
def test_means_are_of_other_sentences_than_those_tested(truth):
    text = corpus_of(truth.decoder.description.vocab)
    seen = survey(truth.decoder, text, 5, 200, 20)
    rng = generator(5, "causal prefixes")
    sentence = text.train + rng.permutation(50)[:40]
    position = 1 + np.floor(rng.random(40) * text.lengths[sentence]).astype(int)
    assert seen.sentence.tolist() == sentence[::2].tolist()
    found = [truth.run(text.sentence(s)[:p])[0] for s, p in zip(sentence[1::2], position[1::2], strict=True)]
    for layer in range(1, truth.decoder.description.layers + 1):
        m = torch.stack([base[layer] for base in found])
        assert np.allclose(seen.mean[layer - 1], m.mean(0), rtol=1e-5, atol=1e-7)
        active = [m > 0] if truth.decoder.signs == 1 else [m > 0, m < 0]
        assert seen.fires[layer - 1].tolist() == torch.cat(active, 1).sum(0).tolist()


@torch.no_grad()
def test_settings_of_several_layers_give_what_the_whole_model_does_with_all_of_them(truth):
    prefix = corpus_of(truth.decoder.description.vocab).tokens[:9]
    sign = truth.decoder.description.keys * (truth.decoder.signs - 1)  # the last memory is of the other sign, if any
    settings = [Setting(1, 3, 2.0), Setting(3, 5, -1.0, times=True), Setting(1, 7 + sign, 0.5)]
    coefficients, outputs = with_settings(truth.decoder, prefix, settings)
    base, h, _ = truth.run(prefix)
    now = [float(base[1][3]), None, float(base[1][7]) * (-1 if sign else 1)]
    first = (2 - now[0]) * truth.value(1, 3) + (0.5 - now[2]) * truth.value(1, 7 + sign)
    with adding(truth, 1, first):
        now[1] = float(truth.run(prefix)[0][3][5])
        with adding(truth, 3, -2 * now[1] * truth.value(3, 5)):
            _, changed, _ = truth.run(prefix)
    assert np.allclose(coefficients, [(now[0], 2), (now[1], -now[1]), (now[2], 0.5)], rtol=1e-4, atol=1e-6)
    for ours, theirs in zip(outputs, (h, changed), strict=True):
        assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-5 * float(theirs.abs().max()))


def survey_of(coefficients, lengths=None):
    """A survey of one layer, as if its means were of the same prefixes."""
    m = np.array(coefficients, np.float32)
    prefixes, neurons = m.shape
    lengths = np.ones((1, neurons)) if lengths is None else np.array([lengths])
    return Survey(
        np.arange(prefixes), np.ones(prefixes, int), [m], m.mean(0, keepdims=True).astype(float),
        (m > 0).sum(0, keepdims=True), prefixes, lengths,
    )  # fmt: skip


def drawn_of(seen, **changes):
    options: dict[str, Any] = {"keys_per_layer": 2, "prefixes": 2, "interventions": ["mean", "zero"]}
    text = Corpus(np.arange(40, dtype=np.int32), np.arange(0, 41, 4), 0)
    return causal.sample(seen, text, Causal(**options | changes), 1)


def test_memories_that_nothing_can_be_said_of_are_passed_over_and_counted():
    options = Causal(keys_per_layer=2, prefixes=2, interventions=["mean", "zero"])
    silent = drawn_of(survey_of(np.zeros((3, 4))))
    assert causal.reasons(silent, 1, 0, options) == {
        "layers_without_active_prefixes": 1, "memories_missing": 2, "prefixes_missing": 0, "rows_missing": 0,
        "values_of_zero_length": 0,
    }  # fmt: skip
    one = drawn_of(survey_of(np.ones((3, 4)), lengths=[0, 0, 0, 1]))
    assert set(one["key"]) == {3}
    assert set(one["control"]) == {"none", "direction"}  # no other memory has a value, and all prefixes are active
    assert causal.reasons(one, 1, 3, options) == {
        "layers_without_active_prefixes": 0, "memories_missing": 1, "prefixes_missing": 0, "rows_missing": 4,
        "values_of_zero_length": 3,
    }  # fmt: skip
    single = replace(survey_of([[1, 2]]), others=0)  # no mean: of a survey of a single prefix
    made = drawn_of(single, prefixes=1)
    assert set(made.select("intervention", "control").rows()) == {("zero", c) for c in ("none", "matched", "direction")}
    assert causal.reasons(made, 1, 0, options.model_copy(update={"prefixes": 1}))["rows_missing"] == 2 * 2
    assert drawn_of(single, interventions=["mean", "resample"]).is_empty()


def test_a_matched_memory_has_a_value_as_long_and_is_active_as_often():
    m = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 1, 0], [0, 0, 0, 1, 1]])
    assert causal.matched_memory(survey_of(m), 1, 0, 0) == 1
    assert causal.matched_memory(survey_of(m, [1, 9, 1, 1, 1]), 1, 0, 0) in (2, 3)
    assert causal.matched_memory(survey_of(m), 1, 4, 2) == 3  # the only other one that is active there
    assert causal.matched_memory(survey_of(m[:1, :1]), 1, 0, 0) is None


def test_half_of_the_prefixes_have_the_largest_coefficients_and_none_is_silent():
    m = np.array([[5.0], [0.0], [3.0], [4.0], [1.0], [2.0], [-1.0]])
    rows = drawn_of(survey_of(m), keys_per_layer=1, prefixes=4).filter(pl.col("control") == "none")
    coefficients = rows.filter(pl.col("intervention") == "zero")["coefficient"]
    assert {5.0, 4.0} < set(coefficients) <= {5.0, 4.0, 3.0, 2.0, 1.0}
    assert len(coefficients) == 4


# --------------------------------------------------------------------------------------------------- planted memories


def removed(decoder, prefix, layer, memories):
    """What changes if memories are removed together, one group after the other, at the end of one prefix."""
    values = decoder.layers[layer - 1].added
    vector = lambda number, here, m: torch.stack([-(m[i, group] @ values[group]) for i, group in enumerate(memories)])
    base = np.zeros(len(memories), int)
    return run_changed(decoder, [np.array(prefix)], base, np.full(len(memories), layer), vector)


@torch.no_grad()
def test_removing_a_planted_memory_has_its_closed_form(tmp_path):
    truth = planted()
    made, args = truth.model()
    torch.save({"args": args, "model": made.state_dict(), "extra_state": {}}, tmp_path / "model.pt")
    loaded = convert(tmp_path / "model.pt", tmp_path / "m.safetensors", tmp_path / "m.json")
    decoder = Decoder(*loaded, dtype=torch.float64)

    def said(prefix, without=(0, 0)):
        squares, promoted = 3.0, {}
        for layer in range(1, truth.layers + 1):
            strength = (1 + SLOPE * len(prefix)) / math.sqrt(2 * squares / truth.d + EPSILON)
            for key in range(truth.keys):
                if truth.fires(layer, key, prefix) and (layer, key) != without:
                    squares += strength**2
                    for word, amount in truth.promoted(layer, key).items():
                        promoted[word] = promoted.get(word, 0.0) + strength * amount
        return torch.tensor(truth.log_probabilities(promoted, prefix[-1]), dtype=torch.float64)

    for prefix in [(5, 9), (7, 6, 8), (4,), (10, 5, 9, 4, 6)]:
        for layer in range(1, truth.layers + 1):
            key = next(key for key in range(truth.keys) if truth.fires(layer, key, prefix))
            ends = removed(decoder, prefix, layer, [[key]])
            out = prediction_changes(decoder.vocabulary, ends, np.array([5]))
            before, after = said(prefix), said(prefix, (layer, key))
            top = int(before.argmax())
            expected = {"loss": before[5] - after[5], "top_log_probability": after[top] - before[top],
                        "kl": (before.exp() * (before - after)).sum()}  # fmt: skip
            for name, number in expected.items():
                assert float(out[name][0]) == pytest.approx(float(number), rel=1e-5, abs=1e-7)
            assert out["top_changed"][0] == (int(after.argmax()) != top)


@pytest.fixture(scope="module")
def circuits():
    """A model of two layers of features, each a pair of coordinates, so means are zero.

    ``constant`` is so large that norms divide by nearly the same number. Memories 0 and 1 of layer 1 promote ``a``;
    memories 0 and 1 of layer 2 add min(a, 1) to the feature that word 1 is read by. Memory 2 of layer 2 adds to a
    feature that no word is read by, as much as ``constant``.
    """
    size, width = 1000.0, 8
    feature = lambda i, by=1.0: torch.eye(width)[2 * i] * by - torch.eye(width)[2 * i + 1] * by
    config = transformers.GPT2Config(
        vocab_size=3, n_embd=width, n_layer=2, n_head=1, n_inner=3, n_positions=8, bos_token_id=0, eos_token_id=0,
        activation_function="relu", layer_norm_epsilon=1e-12, tie_word_embeddings=False,
    )  # fmt: skip
    config._attn_implementation = "eager"
    made = transformers.GPT2LMHeadModel(config).double().eval().requires_grad_(False)
    for parameter in made.parameters():
        parameter.zero_()
    made.transformer.wte.weight += feature(0, size)
    made.lm_head.weight[1] = feature(2, size)
    norms = [made.transformer.ln_f, *(norm for block in made.transformer.h for norm in (block.ln_1, block.ln_2))]
    for norm in norms:
        norm.weight.fill_(1)
    scale = size * (2 / width) ** 0.5  # a norm divides by it
    first, second = (block.mlp for block in made.transformer.h)
    first.c_fc.bias[:2] = 1
    first.c_proj.weight[:2] = feature(1)
    second.c_fc.weight[:, :2] = feature(1, scale / 2)[:, None]
    second.c_fc.bias.copy_(torch.tensor([0.0, -1.0, 1.0]))
    second.c_proj.weight.copy_(torch.stack([feature(2), -feature(2), feature(3, size)]))
    return tiny.analysed(made, tiny.family("gpt2"))


def effect(decoder, layer, memories):
    ends = removed(decoder, [0, 0], layer, memories)
    words = logit_vectors(decoder.vocabulary, torch.tensor([1])).expand(len(memories), -1)
    return logit_changes(decoder.vocabulary, ends, words, words)


def test_of_a_redundant_pair_one_changes_nothing_and_both_change_much(circuits):
    first, second, both = effect(circuits, 1, [[0], [1], [0, 1]])["total"]
    assert abs(first) < 1e-4 * abs(both)
    assert abs(second) < 1e-4 * abs(both)
    assert both < -1


def test_a_neuron_that_acts_through_the_norm_has_a_total_effect_alone(circuits):
    found = effect(circuits, 2, [[2], [0]])
    assert found["direct"][0] == found["total_frozen"][0] == 0
    assert found["total"][0] == pytest.approx((2**0.5 - 1) * -found["direct"][1] / 2, rel=1e-3)  # a norm √2 as small

"""Models of `transformers`: what is read from them is what they compute, and a row that says otherwise is refused."""

import json
import math
import sys
from dataclasses import asdict, replace
from itertools import chain

import later
import numpy as np
import polars as pl
import pytest
import tiny
import torch
import transformers
from second_device import SecondDevice
from tiny import CONFIGS
from torch import nn

from ff_memories import api
from ff_memories.base import arithmetic
from ff_memories.base.errors import UserError
from ff_memories.config import Settings
from ff_memories.config.sections import Composition, Mutations, Values
from ff_memories.corpus.store import Corpus, Words
from ff_memories.inputs.proved_model import take_in
from ff_memories.model import drawn as drawn_models
from ff_memories.model import families, matmul, proof
from ff_memories.model.batches import packed
from ff_memories.model.families import FAMILIES
from ff_memories.model.matmul import Scoring, attention
from ff_memories.model.proof import TOLERANCES, prove
from ff_memories.model.transformer import load
from ff_memories.model.transformer.describe import describe, matrix, scale_of
from ff_memories.model.transformer.hooked import HookedModel, output_layer
from ff_memories.model.vocabulary import Vocabulary
from ff_memories.paper.keys import mutations
from ff_memories.paper.layers import composition

EXACT = {torch.float32: 1e-5, torch.float64: 1e-6}  # several families compute parts of a layer in float32
LENGTHS = [1, 2, 3, 3, 5, 5, 5, 8, 11, 17, 17, 23, 30, tiny.LONGEST - 1]


def off(ours, theirs):
    """Return the largest difference, in parts of the largest number."""
    assert ours.shape == theirs.shape
    return float((ours - theirs).abs().max() / theirs.abs().max())


def sentences_of(lengths=LENGTHS, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(2, tiny.TYPES, n) for n in lengths]


# ------------------------------------------------------------------------------------------------ proof of the rows


def test_every_row_has_a_small_model():
    assert {tiny.family(name) for name in CONFIGS} == {row for rows in FAMILIES.values() for row in rows}


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_row_is_proved_in_every_precision(name, dtype):
    row = tiny.family(name)
    proof = prove(tiny.model(name, dtype), row)
    checked = {"values", "coefficients", "stream", "readout", "output" if row.reads else "residual"}
    checked |= ({"norm behind"} if row.norm_after else set()) | {"packing" if row.packed else "causal"}
    assert (proof.layers, proof.tokens, set(proof.errors)) == (tiny.LAYERS, 22, checked)
    assert max(proof.errors.values()) <= proof.tolerance or dtype == torch.bfloat16
    assert list(asdict(proof)["errors"].values()) == list(proof.errors.values())


def test_a_proof_leaves_the_model_as_it_was():
    made = tiny.model("llama")
    made.set_attn_implementation(packed.NAME)
    prove(made, tiny.family("llama"))
    assert made.config._attn_implementation == packed.NAME
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in made.modules())
    with pytest.raises(UserError):
        prove(made, replace(tiny.family("llama"), norm=None))
    assert made.config._attn_implementation == packed.NAME


def test_a_proof_holds_beside_the_loop_that_reads_the_same_model():
    ours = tiny.analysed(tiny.model("gpt2"))
    batch = ours.pack(sentences_of([3]))
    ours.layers[0](ours.embed(batch), batch, last=True)
    prove(ours.model, tiny.family("gpt2"))


WRONG: dict[str, tuple[str, dict, str]] = {  # model -> what its row is made to say, and what the refusal names
    "parallel, where it is sequential": ("gpt2", {"wiring": "parallel"}, "layer 1, mlp.c_fc: m = f(K h)"),
    "sequential, where it is parallel": ("gpt_neox", {"wiring": "sequential"}, "layer 1, mlp.dense_h_to_4h: m = f("),
    "the residual of another place": ("gpt2", {"reads": "ln_1"}, "layer 1, ln_1 + mlp.c_proj: o = r + y"),
    "parallel attention as residual": ("phi", {"reads": "input_layernorm"}, "input_layernorm + mlp.fc2: o = r + y"),
    "no norm": ("llama", {"norm": None}, "layer 1, mlp.gate_proj: m = f(K h)"),
    "another norm": ("gpt2", {"norm": "ln_1"}, "layer 1, mlp.c_fc: m = f(K h)"),
    "no norm behind": ("gemma2", {"norm_after": None}, "+ mlp.down_proj: o = r + y"),
    "another norm behind": ("gemma3", {"norm_after": "input_layernorm"}, "input_layernorm: the norm behind reads y'"),
    "a norm behind where there is none": ("llama", {"norm_after": "input_layernorm"}, "the norm behind reads y'"),
    "the first matrix as the last": ("gpt2", {"down": "mlp.c_fc"}, "layer 1, mlp.c_fc: o = r + y does not hold: 160"),
    "attention's matrix": ("llama", {"down": "self_attn.o_proj"}, "+ self_attn.o_proj: o = r + y"),
    "no matrix": ("opt", {"down": "activation_fn"}, "layer 1, activation_fn: it is no matrix"),
    "no such module": ("opt", {"down": "fc3"}, "layer 1: it has no module fc3"),
    "gate and up exchanged": ("qwen3", {"up": "mlp.gate_proj", "gate": "mlp.up_proj"}, "m = f(K h)"),
    "no gate": ("mistral", {"gate": None}, "layer 1, mlp.up_proj: m = f(K h)"),
    "gate and up apart": ("phi3", {"fused": False}, "layer 1, mlp.gate_up_proj: m = f(K h)"),
    "another activation": ("gptj", {"activation": "attn.attn_dropout"}, "layer 1, mlp.fc_in: m = f(K h)"),
    "another readout": ("falcon", {"final_norm": "transformer.h.0.input_layernorm"}, "logits = cap"),
    "no such readout": ("bloom", {"final_norm": "norm"}, "the model: it has no module norm"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_row_is_refused(what):
    name, said, refusal = WRONG[what]
    with pytest.raises(UserError) as refused:
        prove(tiny.model(name), replace(tiny.family(name), **said))
    assert refusal in str(refused.value) and tiny.family(name).architecture in str(refused.value)
    assert "fix: the row of families.py is not this model's" in str(refused.value)


@pytest.mark.parametrize("name", ["gpt2", "phi", "gemma2", "bloom"])
def test_a_single_layer_that_differs_is_found(name):
    made = tiny.model(name)
    down = made.get_submodule(f"{tiny.layers_at(made)}.2.{tiny.family(name).down}")
    plain = down.forward
    down.forward = lambda x: plain(x) * 1.001
    with pytest.raises(UserError, match=r"layer 3, .*y' = m V \+ b.* does not hold: off by 0.001, 1e-05 is allowed"):
        prove(made, tiny.family(name))


def test_other_attention_than_the_models_is_found(monkeypatch):
    monkeypatch.setattr(matmul, "attention", lambda q, k, v, scoring: attention(q, k, v, Scoring(scoring.scale)))
    with pytest.raises(UserError, match="layer 1: a layer gives the same for packed sentences does not hold"):
        made = tiny.model("gemma2", change={"attn_logit_softcapping": 0.05})
        prove(made, tiny.family("gemma2"))


def test_a_cap_that_config_json_lacks_is_that_of_its_class_and_what_layers_are_read_by_is_proved(tmp_path, monkeypatch):
    path = tiny.save(tmp_path / "model", "gemma2") / "config.json"
    content = json.loads(path.read_text())
    assert content.pop("final_logit_softcapping") == 30
    path.write_text(json.dumps(content))
    made, *_, shape, _, _ = take_in(path.parent)
    assert HookedModel(made, shape, tiny.family("gemma2")).vocabulary.cap == 30
    monkeypatch.setattr(Vocabulary, "_whole", lambda self, logits: logits)
    with pytest.raises(UserError, match=r"logits = cap.* does not hold"):
        prove(tiny.model("gemma2", change={"final_logit_softcapping": 0.5}), tiny.family("gemma2"))


def test_a_layer_that_scales_what_it_hands_on_is_refused():
    made = tiny.model("gpt2")
    made.transformer.h[1].register_forward_pre_hook(lambda _, args: (args[0] * 2, *args[1:]))
    with pytest.raises(UserError, match="layer 2: a layer reads the output of the layer below does not hold"):
        prove(made, tiny.family("gpt2"))


def test_numbers_that_are_not_finite_prove_nothing():
    made = tiny.model("gpt2")
    made.transformer.h[2].mlp.c_fc.weight[0, 0] = torch.inf
    with pytest.raises(UserError, match="layer 3"):
        prove(made, tiny.family("gpt2"))


@pytest.mark.parametrize("name, equation", [("gpt_neox", r"layer 2: r = x \+ attention"),
                                            ("gpt2", r"layer 2, .*: o = r \+ y")])  # fmt: skip
def test_a_layer_that_adds_something_besides_is_refused(name, equation):
    made = tiny.model(name)
    layer = made.get_submodule(f"{tiny.layers_at(made)}.1")
    plain = layer.forward
    layer.forward = lambda *args, **kwargs: plain(*args, **kwargs) + 0.01
    with pytest.raises(UserError, match=equation):
        prove(made, tiny.family(name))


@pytest.mark.parametrize("name", ["gpt_neox", "gpt2"])
def test_a_dimension_of_large_numbers_hides_nothing_in_the_others(name):
    made = tiny.model(name)
    made.get_input_embeddings().weight[:, 7] += 10_000
    layer = made.get_submodule(f"{tiny.layers_at(made)}.1")
    plain = layer.forward
    prove(made, tiny.family(name))
    layer.forward = lambda *args, **kwargs: plain(*args, **kwargs) + 0.01 * torch.eye(tiny.MODEL)[3]
    with pytest.raises(UserError, match=r"layer 2.* does not hold"):
        prove(made, tiny.family(name))


# ------------------------------------------------------------------------ parity with `transformers`' own forward


@pytest.mark.parametrize("dtype", EXACT, ids=str)
@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_seen_is_what_transformers_computes_one_sentence_at_a_time(name, dtype):
    made, sentences = tiny.model(name, dtype), sentences_of()
    ours = tiny.analysed(made)
    assert ours.forests == tiny.family(name).packed and ours.dtype == dtype
    seen, o = tiny.run(ours, sentences)
    alone = [tiny.alone(made, tiny.family(name), sentence) for sentence in sentences]
    for index, layer in enumerate(seen):
        for part in ("residual", "coefficients", "update", "output"):
            truth = torch.cat([getattr(layers[index], part) for layers, _ in alone])
            assert off(getattr(layer, part), truth) < EXACT[dtype], (index, part)
    logits = torch.cat([logits for _, logits in alone])
    read = ours.vocabulary.log_probabilities(ours.vocabulary.output(o), whole=True)
    assert off(read, torch.log_softmax(logits, -1)) < EXACT[dtype]
    assert torch.equal(ours.vocabulary.read(o).top, logits.argmax(-1))
    assert torch.equal(ours.forward(ours.pack(sentences)), o)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_sentence_gives_the_same_alone_in_any_batch_and_in_any_order(name):
    ours, sentences = tiny.analysed(tiny.model(name)), sentences_of()
    rows = [len(s) + 1 for s in sentences]
    together = [part.split(rows) for part in (layer.coefficients for layer in tiny.run(ours, sentences)[0])]
    others = [[13], [0], [2, 3], [3, 2], [6, 4, 5, 7], [1, 8, 10, 9, 12]]
    for chosen in others:
        seen, _ = tiny.run(ours, [sentences[i] for i in chosen])
        for layer, before in zip(seen, together, strict=True):
            assert off(layer.coefficients, torch.cat([before[i] for i in chosen])) < 1e-5


@pytest.mark.parametrize("name", CONFIGS)
def test_the_last_layer_stops_at_its_coefficients(name):
    ours, sentences = tiny.analysed(tiny.model(name)), sentences_of([2, 4, 4])
    (*_, below, last), _ = tiny.run(ours, sentences)
    batch = ours.pack(sentences)
    x = ours.embed(batch)
    for layer in ours.layers[:-1]:
        x = layer(x, batch).output
    ran = []
    ours.layers[-1].down.register_forward_hook(lambda *_: ran.append(1))
    seen = ours.layers[-1](x, batch, last=True)
    assert not ran and len(seen.update) == len(seen.output) == 0
    assert torch.equal(x, below.output) and torch.equal(seen.coefficients, last.coefficients)


@pytest.mark.parametrize("name", CONFIGS)
def test_updates_are_the_sums_of_the_values(name):
    """Behind a norm up to a positive factor for each token."""
    made = tiny.model(name)
    ours = tiny.analysed(made)
    for layer, seen in zip(ours.layers, tiny.run(ours, sentences_of([3, 9]))[0], strict=True):
        total = seen.coefficients @ layer.values
        if layer.after is None:
            bias = layer.down.bias
            assert off(total if bias is None else total + bias, seen.update) < 1e-5
        else:
            assert torch.cosine_similarity(total, seen.update).min() > 1 - 1e-5
    both = tiny.analysed(made, signs=2).layers[0].values
    assert torch.equal(both, torch.cat([ours.layers[0].values, -ours.layers[0].values]))


@pytest.mark.parametrize("name", CONFIGS)
def test_mutated_prefixes_give_what_each_gives_alone(name):
    """As a forest, or as plain sentences where the family takes no attention function of ours."""
    made, rng = tiny.model(name), np.random.default_rng(3)
    sentences = [rng.integers(2, 6, n) for n in (4, 9, 14, 9, 20)]  # few types: much begins alike
    corpus = Corpus(np.concatenate(sentences).astype(np.int32), np.cumsum([0, *map(len, sentences)]), len(sentences))
    n = 60
    sentence = rng.integers(0, len(sentences), n)
    position = np.array([rng.integers(1, len(sentences[s]) + 1) for s in sentence])
    rows = pl.DataFrame({
        "layer": rng.integers(1, tiny.LAYERS + 1, n), "key": rng.integers(0, tiny.KEYS, n), "sentence": sentence,
        "position": position, "removed": [rng.integers(1, p + 1) for p in position],
    })  # fmt: skip
    whole = rows.with_columns(rank=pl.lit(1), mutation=pl.lit("random"), coefficient=pl.lit(1.0), removed_tokens=1)
    found = mutations.table(tiny.analysed(made), corpus, whole, Mutations(), 40)["mutated"].to_numpy()
    truth, known = [], {}
    for layer, key, s, p, removed in rows.iter_rows():
        prefix = tuple(np.delete(sentences[s][:p], removed - 1))
        if prefix not in known:
            known[prefix] = tiny.alone(made, tiny.family(name), np.array(prefix, dtype=np.int64))[0]
        truth.append(float(known[prefix][layer - 1].coefficients[-1, key]))
    np.testing.assert_allclose(found, truth, rtol=1e-5, atol=1e-5 * np.abs(truth).max())


@pytest.mark.parametrize("name", ["gpt_neox", "gpt_neox, sequential", "gptj", "falcon", "llama"])
def test_the_residual_is_what_is_added_to_or_what_a_parallel_block_reads(name):
    """Against a brute force, one prefix at a time; layers' outputs do not depend on it."""
    made, row, rng = tiny.model(name), tiny.family(name), np.random.default_rng(4)
    sentences = [rng.integers(2, tiny.TYPES, n) for n in (4, 9, 2, 9, 12, 7)]
    corpus = Corpus(np.concatenate(sentences).astype(np.int32), np.cumsum([0, *map(len, sentences)]), 0)
    drawn = pl.DataFrame({"example": range(6), "sentence": range(6), "position": [3, 9, 1, 8, 5, 7]})
    ours = tiny.analysed(made)
    tops = {"all": np.zeros((tiny.LAYERS, ours.memories), dtype=np.int64)}
    options = lambda residual: Composition(layer_prediction="ffn", residual=residual)
    settings = lambda residual: Settings({"composition": options(residual), "values": Values()})
    look = lambda residual: composition.observe(ours, corpus, drawn, lambda _: tops, settings(residual), 30)
    added, read = look("added"), look("read")
    norm = made.get_submodule(row.final_norm)
    with torch.no_grad():
        for example, (sentence, position) in enumerate(drawn.select("sentence", "position").iter_rows()):
            prefix = sentences[sentence][:position]
            layers, _ = tiny.alone(made, row, prefix)
            x = made.get_input_embeddings().weight[torch.tensor([int(prefix[-1])])]
            for layer, truth in enumerate(layers):
                given = x if row.wiring == "parallel" else truth.residual[-1:]
                for seen, r in ((added, truth.residual[-1:]), (read, given)):
                    said = output_layer(made, norm).logits(r)[0].log_softmax(0)
                    assert seen["residual_top"][example, layer] == int(said.argmax())
                    own = math.log(seen["residual_probability"][example, layer])
                    assert abs(own - float(said[seen["output_top"][example, -1]])) < 1e-4
                x = truth.output[-1:]
    for name in ("active", "effective", "ffn_top", "output_top"):
        assert np.array_equal(added[name], read[name])
    alike = np.array_equal(added["residual_probability"], read["residual_probability"])
    assert (row.wiring == "parallel") == (not alike)


def listed_prefixes(sentences, keys, each, rng):
    """Return a table of triggers: prefixes of any length, the empty one included."""
    rows = [
        (layer, key, rank, 1.0, int(s), int(rng.integers(0, len(sentences[s]) + 1)))
        for layer in range(1, tiny.LAYERS + 1)
        for key in range(keys)
        for rank, s in enumerate(rng.permutation(len(sentences))[:each], 1)
    ]
    return pl.DataFrame(rows, ["layer", "key", "rank", "coefficient", "sentence", "position"], orient="row")


@pytest.mark.parametrize("random, single_token", [("any", "skip"), ("inner", "bos")])
@pytest.mark.parametrize("name", ["gpt2", "llama", "gptj"])
def test_prefixes_without_a_word_give_what_each_gives_alone(name, random, single_token):
    """Against a brute force over lists of words, each a list of tokens."""
    made, rng = tiny.model(name), np.random.default_rng(5)
    texts = [[rng.integers(2, 6, rng.integers(1, 4)).tolist() for _ in range(n)] for n in (1, 2, 5, 7, 3, 9)]
    sentences = [np.array(list(chain(*text))) for text in texts]
    begins = np.array([k == 0 for text in texts for word in text for k in range(len(word))])
    offsets = np.cumsum([0, *map(len, sentences)])
    corpus = Corpus(np.concatenate(sentences).astype(np.int32), offsets, len(sentences), begins)
    triggers = listed_prefixes(sentences, 8, 5, rng)
    options = Mutations(keys_per_layer=8, top=4, random=random, single_token=single_token, unit="word")
    shape = tiny.LAYERS, tiny.KEYS
    chosen, counts = mutations.sample(triggers, *shape, options, 1, math.prod(shape), Words(corpus))
    mutated = mutations.table(tiny.analysed(made), corpus, chosen, options, 40)
    seen, known, expected, short = set(), {}, 0, {"one": 0, "inner": 0}
    rows = mutated.join(triggers, on=["layer", "key", "rank"])
    for row in rows.iter_rows(named=True):
        left, words = row["position"], []
        for word in texts[row["sentence"]]:  # the prefix, its last word perhaps cut short
            words += [word[:left]] if left > 0 else []
            left -= len(word)
        places = range(len(words))
        starts = [1 + sum(map(len, words[:w])) for w in places]
        w = starts.index(row["removed"])
        assert w in {"first": [0], "last": [len(words) - 1], "random": places}[row["mutation"]]
        assert row["mutation"] != "random" or random == "any" or 0 < w < len(words) - 1
        assert row["removed_tokens"] == len(words[w])
        prefix = tuple(chain(*words[:w], *words[w + 1 :]))
        if prefix not in known:
            known[prefix] = tiny.alone(made, tiny.family(name), np.array(prefix, dtype=np.int64))[0]
        truth = known[prefix][row["layer"] - 1].coefficients[-1, row["key"]]
        assert abs(row["mutated"] - float(truth)) < 1e-5 * (1 + abs(float(truth)))
        seen.add((row["layer"], row["key"], row["rank"], row["mutation"]))
    for row in triggers.filter(pl.col("rank") <= 4).iter_rows(named=True):
        ends = np.cumsum([0, *map(len, texts[row["sentence"]])])
        words = int((ends[:-1] < row["position"]).sum())
        names = {"first", "last"} if words >= (2 if single_token == "skip" else 1) else set()
        names |= {"random"} if names and (random == "any" or words > 2) else set()
        assert {mutation for *trigger, mutation in seen if trigger == [row["layer"], row["key"], row["rank"]]} == names
        short["one"] += words == 1
        short["inner"] += bool(names) and "random" not in names
        expected += len(names)
    assert len(rows) == expected
    assert counts["prefixes_of_one_word"] == short["one"]
    assert counts["prefixes_without_inner_word"] == short["inner"]


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_bfloat16_rounds_factors_alone(name):
    """Sums keep their bits, as do norms, the embedding that an output layer shares, and all else."""
    made, sentences = tiny.model(name), sentences_of()
    ours = tiny.analysed(made, precision="bfloat16")
    held = {n: p.dtype for n, p in ours.model.named_parameters()}
    assert {n for n, kind in held.items() if kind == torch.bfloat16} == {
        f"{n}.weight" for n, module in ours.model.named_modules() if matrix(module)
    }
    assert torch.equal(ours.embedding, made.get_input_embeddings().weight)
    seen, _ = tiny.run(ours, sentences)
    for layer in seen:
        assert not torch.equal(layer.coefficients, layer.coefficients.bfloat16().float())
    ours.close()
    rounded = tiny.model(name)  # in float32, with the same matrices
    for module in filter(matrix, rounded.modules()):
        module.weight = nn.Parameter(module.weight.bfloat16().float(), requires_grad=False)
    tokens = torch.from_numpy(sentences[-1][None].astype(np.int64))
    torch.testing.assert_close(ours.model(tokens).logits, rounded(tokens).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama", "gptj"])
def test_bfloat16_is_the_same_on_another_device(name):
    made, sentences = tiny.model(name), sentences_of([3, 5, 5, 9])
    plain, _ = tiny.run(tiny.analysed(made, precision="bfloat16"), sentences)
    with SecondDevice(), torch.inference_mode():
        there = tiny.analysed(made, device="cuda:1", precision="bfloat16")
        seen, o = tiny.run(there, sentences)
        assert str(there.vocabulary.read(o).top.device) == "cuda:1"
        found = [layer.coefficients.cpu() for layer in seen]
    for ours, layer in zip(found, plain, strict=True):
        assert ours.dtype == torch.float32
        assert off(ours, layer.coefficients) < 0.02


def test_a_folder_is_read_in_bfloat16_and_leaves_other_models_as_they_were(tmp_path):
    """The same process computes in float32 before and after."""
    folder = tiny.save(tmp_path / "model", "llama")
    sentences = sentences_of([4, 9])
    exact = api.load_model(folder).decoder
    before, _ = tiny.run(exact, sentences)
    rounded = api.load_model(folder, precision="bfloat16").decoder
    theirs, _ = tiny.run(rounded, sentences)
    after, _ = tiny.run(exact, sentences)
    for one, two, three in zip(before, theirs, after, strict=True):
        assert torch.equal(one.coefficients, three.coefficients)
        assert 0 < off(two.coefficients, one.coefficients) < 0.05
    assert rounded.vocabulary.reading("scaled").clusters[0].embedding.dtype == torch.bfloat16


def test_a_shuffled_model_has_its_output_layer_tied_whatever_the_precision():
    made = tiny.model("gpt2")
    drawn = [
        drawn_models.drawn_by_transformers(tiny.analysed(made, precision=precision), 3, "shuffled-1").state_dict()
        for precision in ("float32", "bfloat16")
    ]
    assert torch.equal(drawn[1]["lm_head.weight"], drawn[1]["transformer.wte.weight"])
    for name, weight in drawn[0].items():
        torch.testing.assert_close(drawn[1][name], weight, rtol=1e-2, atol=0)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_runs_and_is_proved_where_it_lies(name):
    """On a device that refuses tensors of another one."""
    made, sentences = tiny.model(name), sentences_of([3, 5, 5, 9])
    plain, _ = tiny.run(tiny.analysed(made), sentences)
    with SecondDevice():
        there = tiny.analysed(made, device="cuda:1")
        prove(there.model, tiny.family(name))
        with torch.inference_mode():
            seen, o = tiny.run(there, sentences)
            assert str(there.vocabulary.read(o).top.device) == "cuda:1"
        assert all(str(part.device) == "cuda:1" for layer in seen for part in layer)
        found = [layer.coefficients.cpu() for layer in seen]
    for ours, layer in zip(found, plain, strict=True):
        assert off(ours, layer.coefficients) < 1e-5


def test_a_sentence_longer_than_the_model_takes_is_refused():
    ours = tiny.analysed(tiny.model("gpt2"))
    assert ours.max_tokens == tiny.LONGEST - 1
    with pytest.raises(UserError, match="a sentence of 60 tokens; the model takes 59"):
        ours.pack(sentences_of([60]))


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma3", "gptj"])
def test_a_model_is_loaded_from_the_folder_that_transformers_saved(name, tmp_path):
    made, sentences = tiny.model(name), sentences_of()
    made.save_pretrained(tmp_path)
    loaded = load.load(tmp_path, tiny.description(made))
    seen, plain = tiny.run(loaded, sentences)[1], tiny.run(tiny.analysed(made), sentences)[1]
    assert torch.equal(seen, plain)


@pytest.mark.parametrize("name", ["gpt2", "gptj"])
def test_a_closed_model_runs_as_transformers_made_it(name, monkeypatch):
    monkeypatch.setenv(arithmetic.CHOSEN, "portable")
    ours = tiny.analysed(tiny.model(name))
    hooks = lambda: sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in ours.model.modules())
    changed = lambda: sum("forward" in vars(m) for m in ours.model.modules())
    assert hooks() >= 2 * tiny.LAYERS and changed()
    ours.close()
    assert (hooks(), changed()) == (0, 0)
    with pytest.raises(ValueError, match="closed"):
        ours.forward(ours.pack(sentences_of([5])))


@pytest.mark.parametrize("name", ["gpt2", "gemma2"])
def test_layers_are_read_the_same_however_values_are(name):
    ours = tiny.analysed(tiny.model(name))
    h = torch.randn(9, tiny.MODEL, generator=torch.Generator().manual_seed(2))
    own = ours.vocabulary.read(h)
    for kind in ("raw", "scaled"):
        read = ours.vocabulary.reading(kind).read(h)
        assert torch.equal(read.top, own.top) and torch.equal(read.probability, own.probability)
    scaled = ours.vocabulary.reading("scaled").predict(h).probability
    assert not torch.allclose(scaled, ours.vocabulary.reading("raw").predict(h).probability)


# --------------------------------------------------------------------------------------------------------- closed forms

TYPES = 32  # and as many dimensions: a token's vector is its own axis
TRIGGER, PROMOTED, KEY = 7, 11, 5
GATE, UP, BIAS, VALUE = 0.8, -0.5, -0.3, 3.0


def planted(name):
    """Return a model of one layer without attention where one key responds to one token; its up matrix is set later."""
    options: dict = {"vocab_size": TYPES, "bos_token_id": 1, "eos_token_id": 1, "tie_word_embeddings": False}
    if name == "gpt2":
        options |= {"n_embd": TYPES, "n_layer": 1, "n_head": 4, "n_inner": 40, "layer_norm_epsilon": 1e-12,
                    "activation_function": "gelu"}  # fmt: skip
    else:
        options |= {"hidden_size": TYPES, "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4,
                    "num_key_value_heads": 2, "rms_norm_eps": 1e-12}  # fmt: skip
    row = FAMILIES[name][0]
    made = getattr(transformers, row.architecture)(transformers.CONFIG_MAPPING[name](**options)).double().eval()
    for parameter_name, parameter in made.named_parameters():
        parameter.requires_grad_(False)
        parameter.zero_() if parameter.dim() > 1 or "bias" in parameter_name else parameter.fill_(1.0)
    made.get_input_embeddings().weight.copy_(torch.eye(TYPES))
    made.get_output_embeddings().weight.copy_(torch.eye(TYPES))
    return made


def seen_of(made):
    """Prove the row, which is given, and run a sentence whose second token is the trigger."""
    row = FAMILIES[made.config.model_type][0]
    prove(made, row)
    ours = tiny.analysed(made)
    (seen,), o = tiny.run(ours, [np.array([2, TRIGGER, 3])])
    return seen, ours.vocabulary.read(o), ours


def test_a_memory_planted_behind_gelu_has_its_closed_form_where_it_is_negative_too():
    made = planted("gpt2")
    mlp = made.transformer.h[0].mlp
    mlp.c_fc.weight[TRIGGER, KEY], mlp.c_fc.bias[KEY], mlp.c_proj.weight[KEY, PROMOTED] = GATE, BIAS, VALUE
    seen, read, ours = seen_of(made)
    root = (TYPES - 1) ** 0.5  # LayerNorm makes of a token's axis root there and -1 / root elsewhere
    gelu = lambda x: x * 0.5 * (1 + math.erf(x / 2**0.5))
    here, elsewhere = gelu(GATE * root + BIAS), gelu(-GATE / root + BIAS)
    assert elsewhere < 0 < here
    m = seen.coefficients
    assert m[:, KEY].tolist() == pytest.approx([elsewhere, elsewhere, here, elsewhere], abs=1e-9)
    assert seen.update[:, PROMOTED].tolist() == pytest.approx((m[:, KEY] * VALUE).tolist(), abs=1e-9)
    assert int(read.top[2]) == PROMOTED and int(m.count_nonzero()) == 4
    assert int(ours.vocabulary.predict(ours.layers[0].values[KEY : KEY + 1]).top) == PROMOTED


@pytest.mark.parametrize("up", [UP, -UP], ids=["negative", "positive"])
def test_a_memory_planted_behind_a_gate_has_its_closed_form_in_both_signs(up):
    made = planted("llama")
    mlp = made.model.layers[0].mlp
    mlp.gate_proj.weight[KEY, TRIGGER], mlp.up_proj.weight[KEY, TRIGGER] = GATE, up
    mlp.down_proj.weight[PROMOTED, KEY] = VALUE
    seen, read, ours = seen_of(made)
    root = TYPES**0.5  # RMSNorm makes of a token's axis root there, and nothing elsewhere
    here = GATE * root / (1 + math.exp(-GATE * root)) * up * root
    m = seen.coefficients
    assert m[:, KEY].tolist() == pytest.approx([0, 0, here, 0], rel=1e-6)  # RMSNorm computes in float32
    assert int(m.count_nonzero()) == 1 and math.copysign(1, here) == math.copysign(1, up)
    assert float(seen.update[2, PROMOTED]) == pytest.approx(here * VALUE, rel=1e-6)
    assert (int(read.top[2]) == PROMOTED) == (up > 0)  # a negative coefficient demotes what the value promotes
    lowest = ours.vocabulary.log_probabilities(ours.vocabulary.output(seen.output[2:3]), whole=True).argmin()
    assert (int(lowest) == PROMOTED) == (up < 0)
    both = tiny.analysed(made, signs=2)
    assert int(both.vocabulary.predict(-both.layers[0].values[len(m[0]) + KEY][None]).top) == PROMOTED


# -------------------------------------------------------------------------------------------- what no row is there for

REFUSED: dict[str, tuple[dict, str]] = {
    "experts": ({"model_type": "mixtral"}, "mixtral is a mixture of experts: which memories exist"),
    "an encoder": ({"model_type": "bert"}, "bert is an encoder: its prefixes and next tokens are not defined"),
    "an encoder-decoder": ({"model_type": "t5"}, "t5 is an encoder-decoder"),
    "a state-space model": ({"model_type": "mamba"}, "mamba is a state-space or recurrent model"),
    "text and images": ({"model_type": "llava", "text_config": {}}, "a multimodal 'llava' model"),
    "an unknown type": ({"model_type": "gpt99"}, "no row says where the memories of 'gpt99' models are"),
    "no type": ({}, "no row says where the memories of 'None' models are"),
    "a type that is none": ({"model_type": ["gpt2"]}, "no row says where the memories of"),
    "a norm behind the sum": ({"model_type": "opt", "do_layer_norm_before": False}, "do_layer_norm_before is False"),
    "Falcon, sequential": ({"model_type": "falcon", "parallel_attn": False}, "parallel_attn is False"),
    "Falcon with two norms": ({"model_type": "falcon", "new_decoder_architecture": True}, "with new_decoder_arch"),
    "BLOOM's other residual": (
        {"model_type": "bloom", "apply_residual_connection_post_layernorm": True}, "are read with apply_residual",
    ),
    "NeoX, neither": ({"model_type": "gpt_neox", "use_parallel_residual": "yes"}, "use_parallel_residual is 'yes'"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_model_without_a_row_is_refused_with_the_reason(what):
    config, why = REFUSED[what]
    with pytest.raises(UserError, match="fix: ") as refused:
        families.row(config, "folder/config.json")
    assert why in str(refused.value) and str(refused.value).startswith("folder/config.json: ")


@pytest.mark.parametrize("parallel", [True, False])
def test_an_option_of_the_config_chooses_the_row(parallel):
    row = families.row({"model_type": "gpt_neox", "use_parallel_residual": parallel}, "here")
    assert row.wiring == ("parallel" if parallel else "sequential")
    name = "gpt_neox, sequential" if parallel else "gpt_neox"  # each row refuses the other's model
    with pytest.raises(UserError, match=r"layer 1, mlp.dense_h_to_4h: m = f\(K h\).* does not hold"):
        prove(tiny.model(name), replace(row, reads=None))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_models_sizes_are_known_without_its_weights(name):
    made, config = tiny.model(name), tiny.data(tiny.config(name))
    for signs in ("positive", "auto"):
        whole = describe(made, config, tiny.family(name), 0, signs, sys.maxsize)
        assert load.sizes(config, signs, "here") == whole


ODD: dict[str, dict] = {  # families whose attention needs an even rotary part keep it even
    "gpt2": {"n_embd": 45, "n_head": 5, "n_inner": 77},
    "opt": {"hidden_size": 45, "word_embed_proj_dim": 45, "num_attention_heads": 5, "ffn_dim": 77},
    "gpt_neox": {"rotary_pct": 0.5, "num_attention_heads": 5},
    "gptj": {"n_embd": 45, "n_head": 5, "n_inner": 77, "rotary_dim": 4},
    "phi": {"num_attention_heads": 5, "num_key_value_heads": 5, "partial_rotary_factor": 0.5},
    "falcon": {"hidden_size": 50, "num_attention_heads": 5, "ffn_hidden_size": 77},
    "bloom": {"hidden_size": 45, "n_head": 5},
}
ODD_LLAMA: dict = {"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 14}


@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_a_model_of_odd_width_and_odd_heads_is_proved_and_read(name):
    change = ODD.get(tiny.CONFIGS[name][0], ODD_LLAMA)
    if tiny.CONFIGS[name][0] not in ("gpt2", "opt", "gptj", "falcon", "bloom"):
        change = {"hidden_size": 45, "intermediate_size": 77} | change
    made, row = tiny.model(name, change=change), tiny.family(name)
    assert max(prove(made, row).errors.values()) <= 5e-5
    ours = tiny.analysed(made, row)
    assert torch.equal(ours.vocabulary.scale, scale_of(made.get_submodule(row.final_norm), made.config.hidden_size))
    sentences = [np.arange(2, 2 + n) % tiny.TYPES for n in (1, 6, 11)]
    seen, last = tiny.run(ours, sentences)
    begin = 0
    for sentence in sentences:
        truths, logits = tiny.alone(made, row, sentence)
        rows = slice(begin, begin := begin + len(sentence) + 1)
        for one, truth in zip(seen, truths, strict=True):
            assert proof.error(one.coefficients[rows], truth.coefficients) <= 1e-5
        assert proof.error(ours.vocabulary.logits(last[rows]), logits) <= 1e-5


def test_what_a_gated_memory_reads_and_writes_and_what_the_output_layer_hardly_reads_follow_from_the_weights():
    made = tiny.model("llama")
    ours, (layer, *_, last) = tiny.analysed(made, signs=2), [block.mlp for block in made.model.layers]
    up, down = layer.up_proj.weight.numpy(), layer.down_proj.weight.numpy().T
    cosine = (up * down).sum(1) / np.linalg.norm(up, axis=1) / np.linalg.norm(down, axis=1)
    np.testing.assert_allclose(later.cosines(ours)[0], cosine, atol=1e-6)
    values = last.down_proj.weight.numpy().T
    weakest = np.linalg.svd(made.lm_head.weight.numpy() * made.model.norm.weight.numpy())[2][-1]
    share = np.mean((values @ weakest) ** 2 > later.MUCH * (values**2).sum(1))
    assert later.hardly_read(ours) == pytest.approx(share) and 0 < share < 1
    sentences = [np.arange(2, 9), np.arange(5, 17) % tiny.TYPES]
    residuals = [tiny.alone(made, tiny.family("llama"), one)[0][0].residual[1:] for one in sentences]
    norm = made.model.layers[0].post_attention_layernorm
    gates = norm(torch.cat(residuals)).numpy() @ layer.gate_proj.weight.numpy().T
    np.testing.assert_allclose(later.open_gates(ours, sentences)[0], (gates > 0).mean(0), atol=1e-6)

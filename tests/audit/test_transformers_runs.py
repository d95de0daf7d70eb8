"""The audit of runs whose model is one of `transformers`: its reference model, sound tables, and planted faults."""

import dataclasses
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl
import pytest
import tiny
import torch
from audited import audit
from pipeline import run_steps
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models
from transformers_run import KINDS, prepare, settings_of, write_model, write_sentences

from data.train_transformer import tokenizer
from ff_memories.audit import compare
from ff_memories.audit.audit import LEFT_OUT
from ff_memories.audit.audit_inputs import AuditInputs, reference
from ff_memories.audit.equations import Activations, Change
from ff_memories.audit.near_equal import DIFFERS, MATCH
from ff_memories.audit.recompute import ROWS, faults, recomputed
from ff_memories.audit.sampling import Aim
from ff_memories.audit.transformers_oracle import TransformersOracle
from ff_memories.base.errors import UserError
from ff_memories.corpus.store import POSITIONS
from ff_memories.inputs import model_folder
from ff_memories.paper.layers.audit import _fewest
from ff_memories.paper.layers.composition import _active
from ff_memories.workflow.run import Run

SOME = Aim(0.95, 0.05, seed=1)  # 59 rows of each table
FLOAT32_INSIDE = 2e-6  # of the largest number: softmax, RMSNorm or rotary positions in float32


# -------------------------------------------------------------------------------------------------- the reference model


def saved(name, folder):
    """Save a small model with a tokenizer that has a word for every type."""
    made = tiny.model(name)
    made.save_pretrained(folder)
    types = {f"w{i}": i for i in range(made.config.vocab_size)}
    Tokenizer(models.WordLevel(types, unk_token="w0")).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    return made.double()


@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_the_reference_sees_what_transformers_computes(name, tmp_path):
    made, row = saved(name, tmp_path), tiny.family(name)
    oracle = TransformersOracle(tmp_path, f"w{tiny.START}", "auto")
    tokens = torch.randint(0, 97, (12,), generator=torch.Generator().manual_seed(3)).tolist()
    truths, logits = tiny.alone(made, row, torch.tensor(tokens).numpy())
    seen = oracle.several([tokens])[0]
    near = lambda ours, theirs: float((ours - theirs).abs().max() / theirs.abs().max()) < FLOAT32_INSIDE
    assert oracle.keys == (tiny.LAYERS, len(truths[0].coefficients[0]) * (2 if row.gated else 1))
    for layer, (own, truth) in enumerate(zip(seen, truths, strict=True), 1):
        assert own.m.dtype == torch.float64
        assert near(own.residual, truth.residual) and near(own.m, truth.coefficients)
        assert near(own.ffn, truth.update) and near(own.output, truth.output)
        assert near(own.residual + own.ffn, own.output)
        product = torch.stack(own.scores).prod(0)  # of the same sign as m, except that ReLU has none below zero
        assert ((own.m == 0) | (product.sign() == own.m.sign())).all()
        down = made.get_submodule(tiny.layers_at(made))[layer - 1].get_submodule(row.down)
        with torch.no_grad():
            added = down(truth.coefficients) - down(torch.zeros_like(truth.coefficients))
        values = oracle.vectors("value", layer)
        if row.norm_after is None:
            assert near(truth.coefficients @ values, added)
        else:  # up to each row's length, which the norm behind divides by
            ours, theirs = truth.coefficients @ values, truth.update
            assert near(ours / ours.norm(dim=1, keepdim=True), theirs / theirs.norm(dim=1, keepdim=True))
        if row.gated:
            assert torch.equal(own.coefficients(), torch.cat([own.m, -own.m], 1))
        else:
            assert torch.equal(own.coefficients(), own.m)
    for at in (0, -1):
        assert near(oracle.of_layer(seen[-1].output[at]), torch.log_softmax(logits[at], 0))


@pytest.mark.parametrize("name", tiny.CONFIGS)
def test_changes_give_what_all_layers_give_with_them(name, tmp_path):
    """Alone, and together with changes of other layers in sentences of other lengths."""
    saved(name, tmp_path)
    oracle, changes, expected = TransformersOracle(tmp_path, f"w{tiny.START}", "auto"), [], []
    for layer in range(1, tiny.LAYERS + 1):
        tokens = [3, 9, 4, 4, 7][: 5 - 2 * (layer % 2)]
        seen = oracle.several([tokens])[0]
        vector = torch.randn(tiny.MODEL, dtype=torch.float64, generator=torch.Generator().manual_seed(layer))
        down = oracle.blocks[layer - 1].get_submodule(oracle.family.down)
        add = torch.zeros(len(tokens) + 1, tiny.MODEL, dtype=torch.float64)
        add[-1] = vector
        hook = down.register_forward_hook(lambda _, args, out, add=add: out + add)
        again = oracle.several([tokens])[0]
        hook.remove()
        changes.append(Change(tokens, seen, layer, vector))
        expected.append((again[-1].output[-1], again[layer - 1].ffn[-1]))
        assert not torch.equal(expected[-1][0], seen[-1].output[-1])
    close = partial(torch.testing.assert_close, rtol=FLOAT32_INSIDE, atol=FLOAT32_INSIDE)
    close([oracle.changed(change)[0] for change in changes], expected)
    close(oracle.changed(*changes[::-1])[::-1], expected)
    assert torch.equal(oracle.several([tokens])[0][-1].output, seen[-1].output)


def test_values_are_read_by_the_output_matrix_alone_and_scaled_by_the_final_norm(tmp_path):
    made = saved("gemma2", tmp_path)
    v = torch.randn(tiny.MODEL, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    words, scale = made.get_output_embeddings().weight, 1 + made.model.norm.weight
    raw, scaled = (TransformersOracle(tmp_path, f"w{tiny.START}", "auto", kind) for kind in ("raw", "scaled"))
    assert torch.allclose(raw.of_value(v), torch.log_softmax(words @ v, 0), atol=1e-12)
    assert torch.allclose(scaled.of_value(v), torch.log_softmax(words @ (scale * v), 0), atol=1e-5)
    assert torch.equal(raw.of_layer(v), scaled.of_layer(v))


@pytest.mark.parametrize("name, size", [("llama", 1.0), ("llama", 300.0), ("gpt2", 1.0)])
def test_predictions_of_a_token_are_those_of_all_log_probabilities(name, size, tmp_path):
    saved(name, tmp_path)
    oracle, limit, left_out = TransformersOracle(tmp_path, f"w{tiny.START}", "auto"), 1e-4, [3, 4]
    with torch.no_grad():
        oracle.words = torch.cat([oracle.words[:-2], oracle.words[:2] * (1 + 1e-9)]) * size  # near-ties
    values = oracle.vectors("value", 2)
    values[5] = 0
    log_p = oracle.of_memory(torch.cat([values, -values][: oracle.signs]))
    sizes = log_p.abs().amax(1)
    log_p = log_p.index_fill(1, torch.tensor(left_out), -torch.inf)
    may = log_p >= (log_p.amax(1) - limit * (sizes / 100).clamp(min=1))[:, None]
    several = may.sum(1) > 1
    assert several.any()
    for token in {*left_out, *log_p.argmax(1).tolist(), *may.nonzero()[:, 1].tolist()}:
        found, tied = oracle.predicting(2, token, left_out, limit, torch.ones(len(log_p), dtype=torch.bool))
        assert torch.equal(found, log_p.argmax(1) == token) and torch.equal(tied, may[:, token] & several)


@pytest.mark.parametrize("name", ["gpt2", "bloom", "gemma2", "phi3"])
def test_sentences_that_run_together_give_what_each_gives_by_itself(name, tmp_path):
    saved(name, tmp_path)
    oracle, texts = TransformersOracle(tmp_path, f"w{tiny.START}", "auto"), [[3, 9, 4, 4, 7], [8], [], [5, 3, 9]]
    for text, together in zip(texts, oracle.several(texts, 2), strict=True):
        for one, other in zip(oracle.several([text], 2)[0], together, strict=True):
            assert len(one.m) == len(text) + 1
            for part in ("residual", "m", "ffn", "output"):
                torch.testing.assert_close(getattr(one, part), getattr(other, part), rtol=1e-6, atol=1e-9)


def test_signs_and_the_first_token_are_the_configs(tmp_path):
    saved("gpt2", tmp_path)
    both, own = (TransformersOracle(tmp_path, "w5", signs) for signs in ("both", "positive"))
    assert both.start == 5 and both.keys == (tiny.LAYERS, 2 * tiny.KEYS) and own.keys == (tiny.LAYERS, tiny.KEYS)
    assert torch.equal(both.several([[3]])[0][0].coefficients()[:, tiny.KEYS :], -own.several([[3]])[0][0].m)


def test_a_sign_is_unsure_where_a_factor_is_or_where_gelu_vanishes():
    x = torch.zeros(2, 4, dtype=torch.float64)
    gate = torch.tensor([[9.0] * 4, [2.0, 1e-7, -2.0, -6.0]]).double()
    up = torch.tensor([[9.0] * 4, [1.0] * 4]).double()
    m = torch.nn.functional.gelu(gate) * up
    one = Activations(x, m, (gate, up), x, x)
    assert one.unsure(1e-5).tolist() == [False, True, False, False]
    both = dataclasses.replace(one, signs=2)
    assert both.unsure(1e-5).tolist() == [False, True, False, True] * 2
    assert dataclasses.replace(both, m=gate.relu() * up).unsure(1e-5).tolist() == [False, True, False, False] * 2
    assert dataclasses.replace(one, outliers=True).noise(1.0) < one.noise(1.0)


# ----------------------------------------------------------------------------------------------------------------- runs


def basis(folder, name, sample=False, change=None, **changes):
    """Run a small model's steps and read what the audit looks at; ``change(weights)`` changes the model's."""
    settings = prepare(folder, name, **changes)
    if change is not None:
        weights = load_file(folder / "model/model.safetensors")
        change(weights)
        save_file(weights, folder / "model/model.safetensors", {"format": "pt"})
    if sample:
        lines = [line for line in (folder / "validation.txt").read_text().splitlines() if len(line) < 50][:5]
        given = [{"text": line, "random_pos": 3 + n} for n, line in enumerate(lines)]
        (folder / "sample.jsonl").write_text("".join(json.dumps(record) + "\n" for record in given))
        settings["composition"]["sample_file"] = "sample.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        out = run_steps(folder, settings)
        made = lambda path: out / Path(path).name if str(path).startswith("results/") else folder / path
        return AuditInputs.read(Run(settings), (*ROWS, "firing"), made)


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def sound(request, tmp_path_factory):
    return basis(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    return basis(tmp_path_factory.mktemp("words"), "gpt2", mutations__unit="word")


def test_firing_rates_of_a_run_are_the_reference_models(sound):
    firing, corpus = sound.tables["firing"], sound.corpus
    low, high = POSITIONS[sound.config.triggers.positions]
    prefixes, (surely, maybe) = 0, torch.zeros(2, *sound.oracle.keys, dtype=torch.int64)
    for sentence in range(corpus.train):
        tokens = corpus.sentence(sentence).tolist()
        m = torch.stack([own.coefficients()[low : len(tokens) + high + 1] for own in sound.oracle.several([tokens])[0]])
        eps = 1e-6 * m.abs().amax()
        surely, maybe, prefixes = surely + (m > eps).sum(1), maybe + (m > -eps).sum(1), prefixes + m.shape[1]
    layer, key, fired = firing.select("layer", "key", "fired").cast(pl.Int64).to_numpy().T
    assert set(firing["prefixes"]) == {prefixes}
    assert len(set(key.tolist())) == sound.oracle.keys[1], "memories of both signs, if both count"
    least, most = surely.numpy()[layer - 1, key], maybe.numpy()[layer - 1, key]
    assert ((least <= fired) & (fired <= most)).all() and (most - least).sum() < 1e-3 * most.sum()


def assert_sound(given):
    assert faults(given) == []
    found = audit(given, SOME)
    assert [(f.what, f.differ) for f in found] == [(name, []) for name in (*ROWS, LEFT_OUT)]
    for finding in (f for f in found if f.what != LEFT_OUT):
        assert finding.recomputed > 0 and finding.near_ties == 0
        assert finding.largest_difference < 2e-5


def test_sound_tables_match(sound):
    assert_sound(sound)
    memories = sound.oracle.keys[1]
    assert memories == tiny.KEYS * sound.oracle.signs
    assert sound.tables["triggers"]["key"].n_unique() == memories


@pytest.mark.more
@pytest.mark.parametrize(
    "name, changes",
    [
        ("llama", {"values__projection": "scaled", "triggers__signs": "positive", "corpus__segmenter": "line"}),
        ("gemma2", {"triggers__positions": "full", "triggers__per_sentence": "all", "triggers__duplicates": "drop",
                    "values__target": "last", "composition__layer_prediction": "output"}),
        ("llama", {"triggers__keys": 9}),
        ("gpt_neox", {"composition__residual": "read"}),
        ("gpt2", {"values__projection": "scaled", "composition__memories": "all", "values__types": "trained",
                  "mutations__unit": "word", "mutations__single_token": "bos"}),
    ],
)  # fmt: skip
def test_sound_tables_match_whatever_the_config(name, changes, tmp_path):
    assert_sound(basis(tmp_path, name, sample=changes.get("corpus__segmenter") == "line", **changes))


@pytest.mark.more
def test_a_row_may_be_as_far_off_as_float32_is_where_massive_activations_cancel(tmp_path):
    def change(weights):
        width, draws = weights["transformer.wpe.weight"].shape[1], torch.Generator().manual_seed(1)
        massive = 3e3 * torch.randn(width, generator=draws)
        weights["transformer.wpe.weight"] += massive  # of every token's residual, until the first layer takes it away
        weights["transformer.h.0.mlp.c_proj.bias"] -= massive

    given = basis(tmp_path, "gpt2", change=change)
    found = [*audit(given, SOME, ["triggers", "mutations"]), *audit(given, Aim(0.95, 0.6, seed=1), [LEFT_OUT])]
    assert [finding.differ for finding in found] == [[], [], []]
    assert found[0].largest_difference > 1e-4, "told as it is"
    rows = [row for row in given.tables["triggers"].sample(40, seed=1).iter_rows(named=True) if row["layer"] > 1]
    before = given.oracle.several([[1, 2]])[0][-1].m
    for row in rows:
        largest = given.layer(given.corpus.sentence(row["sentence"]), row["layer"]).m[1:].abs().max()
        forged = {**row, "coefficient": row["coefficient"] + 2e-3 * float(largest)}
        assert recomputed("triggers", given, row).state != DIFFERS == recomputed("triggers", given, forged).state
    assert torch.equal(given.oracle.several([[1, 2]])[0][-1].m, before), "float32 was left again"


def test_a_rows_own_error_widens_its_noise_up_to_a_limit_and_an_overflow_does_not(sound):
    x, m = torch.zeros(4, 2).double(), torch.tensor([[9.0, 1.0], [2.0, 3.0], [1.0, 4.0], [1.0, 1.0]]).double()
    off = torch.tensor([[0.0, 0.0], [1e-5, 0.0], [1.0, 0.0], [1.0, torch.inf]]).double()
    one, noise = Activations(x, m, (m,), x, x), list[tuple[float, ...]]()
    usual, other = one.noise(1e-5), dataclasses.replace(one, m=m + off)
    for row, wider in enumerate([usual, usual + 8e-5, 101 * usual, usual]):
        here = iter([one, other, one])  # in float64, in float32, and with the error that this gives
        both = lambda inputs, now, row=row: (inputs.noise(now, row), inputs.own_noise(now, row))
        sound.by_its_own_error(lambda inputs, here=here, both=both: noise.append(both(inputs, next(here))))
        assert noise[-3] == (usual, 0.0) and noise[-1] == pytest.approx((wider, wider))
    exact = dataclasses.replace(sound.near, errors=iter([0.0])).error
    assert one.unsure(1e-5, exact).tolist() == one.unsure(1e-5).tolist(), "its scores are as exact as before"


@pytest.mark.parametrize("signs", [1, 2])
def test_the_fewest_memories_are_active_by_their_sign_as_in_the_step(signs):
    m = torch.tensor([[0.5, -3.0, 4.0, -0.1, 2.0]]).double()
    fires, close = _fewest(Activations(m, m, (m,), m, m, signs), m[0].square(), 0.9)
    assert fires.tolist() == _active(m, m.square(), "share:0.9", signs)[0].tolist() and not close.any()


def opposite(row):
    """Name the memory with the other sign, as if both had been mixed up."""
    return {"key": (row["key"] + tiny.KEYS) % (2 * tiny.KEYS)}


FAULTS = {
    ("triggers", "position"): lambda r: {"position": r["position"] + 1},
    ("values", "top_token"): lambda r: {"top_token": (r["top_token"] + 1) % 256},
    ("values", "agrees_folded"): lambda r: {"agrees_folded": not r["agrees_folded"]},
}  # fmt: skip


@pytest.mark.parametrize("table, column", FAULTS)
def test_a_planted_fault_is_found_in_its_row_and_column(sound, table, column):
    for row in sound.tables[table].gather([5, len(sound.tables[table]) // 2]).iter_rows(named=True):
        assert recomputed(table, sound, row).state == MATCH
        result = recomputed(table, sound, row | FAULTS[table, column](row))
        assert result.state == DIFFERS
        assert column in ("sentence", "position", "removed", "token") or column in result.says


def test_values_agree_folded_where_the_texts_of_both_tokens_do(sound, tmp_path):
    """Row by row, by the texts that the run's tokenizer itself decodes."""
    write_sentences(tmp_path / "train.txt", 160, 1)
    fast = tokenizer(tmp_path / "train.txt", KINDS)
    text = [str(fast.decode([i])).strip().casefold() for i in range(len(fast))]
    alike = lambda a, b: a == b or (text[a] == text[b] != "" and "\ufffd" not in text[a])
    following = sound.tables["triggers"].drop_nulls("next_token")
    rows = sound.tables["values"].drop_nulls("next_token")
    assert sum(alike(i, j) for i in rows["next_token"].unique() for j in range(i)) > 3
    for row in rows.gather_every(20).to_dicts():
        after = following.filter(layer=row["layer"], key=row["key"])["next_token"].to_list()
        for suffix in ("", "_trained"):
            top = row["top_token" + suffix]
            assert row["agrees_folded" + suffix] == alike(row["next_token"], top)
            assert row["agreeing_triggers_folded" + suffix] == sum(alike(token, top) for token in after)


def test_a_table_without_the_columns_of_folded_agreement_differs_in_words(sound):
    frame = sound.tables["values"]
    lacks = frame.drop(name for name in frame.columns if "folded" in name)
    assert recomputed("values", sound, lacks.row(5, named=True)).state == DIFFERS
    name, limits = "tables/values", sound.near.limits
    for one, other in ((frame, lacks), (lacks, frame)):
        said = compare.compare_tables({name: one}, {name: other}, limits)[name].different
        assert len(said) == 4 and said[0] == "values: only one of the runs has the column agreeing_triggers_folded"


def test_a_removed_word_of_other_tokens_is_found(words):
    frame = words.tables["mutations"]
    assert faults(words) == [] and frame["removed_tokens"].max() > 1
    for name in ("first", "last", "random"):
        for row in frame.filter((pl.col("mutation") == name) & (pl.col("removed_tokens") > 1)).head(3).to_dicts():
            assert recomputed("mutations", words, row).state == MATCH
            for column in ("removed", "removed_tokens"):
                for wrong in (row[column] + 1, row[column] - 1):
                    assert recomputed("mutations", words, row | {column: wrong}).state == DIFFERS
    other = frame.with_columns(pl.col("removed_tokens") % 2 + 1)
    changed = replace(words, tables=words.tables | {"mutations": other})
    assert faults(changed) == ["mutations: removed_tokens does not follow from the seed, the text or other tables"]


@pytest.mark.parametrize("table", ["triggers", "values"])
def test_a_memory_of_the_other_sign_is_found(sound, table):
    """With one sign there is no such memory, which is found too."""
    rows = sound.tables[table].filter(pl.col("key") < tiny.KEYS).gather([3, 40])
    for row in rows.iter_rows(named=True):
        assert recomputed(table, sound, row | opposite(row)).state == DIFFERS


def test_other_files_than_the_configs_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_sentences(tmp_path / "train.txt", 40, 1)
    write_model(tmp_path / "model", tmp_path / "train.txt")
    settings, at = settings_of(), lambda path: tmp_path / path
    settings["model"]["files"] = model_folder.digests("model", model_folder.files_of("model"))
    run = Run(settings)
    types = None
    assert isinstance(reference(run, types, at), TransformersOracle)
    weights = tmp_path / "model/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    with pytest.raises(UserError, match=r"model\.safetensors: its SHA-256 is"):
        reference(run, types, at)

"""delphi's cache of latents: read by delphi and as delphi reads it, and computed again one sentence at a time."""

import json
from contextlib import chdir

import numpy as np
import polars as pl
import pytest
from contributed import use
from safetensors.numpy import load_file

from contrib.delphi import export as delphi
from ff_memories import api
from ff_memories.corpus import store

RESULTS, KEYS = "results/small", 160
WINDOW = 32  # the default of delphi's ConstructorConfig.example_ctx_len


def export(out, *keys, others=20):
    options = ("--configfile", "my.yaml", "--others", others, "--device", "cpu", "--threads", 1)
    use("delphi", "export", *options, "--out", out, "--keys", *keys)
    return out


def loaded(folder):
    """Read a module as delphi's TensorBuffer does: latents' locations and activations, and the tokens."""
    [path] = folder.glob("*.safetensors")
    held, first = load_file(path), int(path.name.split("_")[0])
    assert {name: array.dtype.name for name, array in held.items()} == {
        "locations": "uint16", "activations": "float16", "tokens": "int64",
    }  # fmt: skip
    where = held["locations"].astype(np.int64)
    where[:, 2] += first
    assert path.stem == f"0_{KEYS - 1}"
    return where, held["activations"], held["tokens"]


@pytest.fixture(scope="module")
def exported(llama, tmp_path_factory):
    with chdir(llama):
        yield export(tmp_path_factory.mktemp("delphi") / "out", "2/7", "3/12", "2/9", "3/17-")


def test_a_module_per_layer_and_sign_with_its_config(exported):
    folders = {path.name: path for path in (exported / "latents").iterdir()}
    latents = {name: np.unique(loaded(folder)[0][:, 2]).tolist() for name, folder in folders.items()}
    assert latents == {"layers.1.mlp": [7, 9], "layers.2.mlp": [12], "layers.2.mlp.neg": [17]}
    for folder in folders.values():
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        assert config["model_name"] == "model" and config["ctx_len"] == config["cache_ctx_len"] == WINDOW


def test_every_coefficient_is_the_models_one_sentence_at_a_time(llama, exported):
    model = api.load_model(llama / "model")
    corpus = store.read(llama / RESULTS / "corpus" / "corpus.safetensors")
    triggers = pl.read_parquet(llama / RESULTS / "tables" / "triggers.parquet")
    keys = [(2, 7, 1), (2, 9, 1), (3, 12, 1), (3, 17, -1)]
    needed = set(triggers.filter(pl.struct("layer", "key", "sign").map_elements(
        lambda row: tuple(row.values()) in keys, return_dtype=pl.Boolean))["sentence"])  # fmt: skip
    by_tokens = {tuple(corpus.sentence(s).tolist()): s for s in range(corpus.train)}
    for name, layer, sign, keys in (("layers.1.mlp", 2, 1, [7, 9]), ("layers.2.mlp.neg", 3, -1, [17])):
        where, values, tokens = loaded(exported / "latents" / name)
        seen = np.zeros((*tokens.shape, KEYS), dtype=np.float16)
        seen[tuple(where.T)] = values
        assert (np.lexsort(where.T[::-1]) == np.arange(len(where))).all(), "delphi's order"
        found = set()
        assert tokens.shape[1] == WINDOW and not (tokens == tokens[0, 0]).all(axis=1).any(), "every example has text"
        begins = np.flatnonzero(tokens[:, 0] == tokens[0, 0])
        for context, theirs in zip(np.split(tokens, begins[1:]), np.split(seen, begins[1:]), strict=True):
            context, theirs = context.reshape(-1), theirs.reshape(-1, KEYS).astype(np.float32)
            lengths = [n for n in range(1, len(context)) if tuple(context[1 : n + 1].tolist()) in by_tokens]
            own = context[1 : max(lengths) + 1].astype(np.int32)
            found.add(by_tokens[tuple(own.tolist())])
            assert (context[max(lengths) + 1 :] == context[0]).all(), "start tokens fill the last context"
            text = model.decoder.pack([own])
            x = model.decoder.embed(text)
            for block in model.decoder.layers[:layer]:
                out = block(x, text)
                x = out.output
            plain = sign * out.coefficients[1:, :KEYS].detach().numpy()
            for key in keys:
                assert np.allclose(theirs[1 : len(own) + 1, key], np.maximum(plain[:, key], 0), atol=2e-5, rtol=2e-3)
            assert not theirs[0].any() and not theirs[len(own) + 1 :].any()
        texts = lambda numbers: {tuple(corpus.sentence(s).tolist()) for s in numbers}
        assert texts(needed) <= texts(found) and len(begins) > len(needed)


@pytest.mark.more
def test_delphi_itself_takes_every_activation_and_explains_the_text(here, exported, reader):
    latents, config = reader("delphi.latents"), reader("delphi.config")
    constructor, sampler = config.ConstructorConfig(min_examples=1, n_non_activating=0), config.SamplerConfig()
    assert constructor.example_ctx_len == WINDOW
    read = {}
    for record in latents.LatentDataset(exported / "latents", sampler, constructor):
        read[record.latent.module_name, record.latent.latent_index] = record
        assert record.train and all("".join(one.str_tokens).replace("<|endoftext|>", "") for one in record.train)
    assert len(read) == 4
    for (module, latent), record in read.items():
        where, values, tokens = loaded(exported / "latents" / module)
        contexts = {tuple(row) for row in tokens[np.unique(where[where[:, 2] == latent, 0])].tolist()}
        assert {tuple(one.tokens.tolist()) for one in record.examples} == contexts
        total = sum(float(one.activations.double().sum()) for one in record.examples)
        assert total == pytest.approx(values[where[:, 2] == latent].astype(np.float64).sum())


def test_a_long_sentence_has_several_contexts_and_none_without_text():
    corpus = store.Corpus(np.arange(1, 102, dtype=np.int32), np.array([0, 31, 71, 101]), 3)
    tokens, places = delphi.tokens(np.arange(3), corpus, 0)
    assert tokens.shape == (4, WINDOW) and (tokens.reshape(-1)[places] == corpus.tokens).all()
    assert tokens.reshape(-1).tolist() == [*range(32), 0, *range(32, 72), *[0] * 23, 0, *range(72, 102), 0]
    flat = np.concatenate([corpus.tokens, np.zeros(101)])
    flat[101 + 40] = 7  # the second latent, in the second sentence
    where, values = delphi.entries(flat, places, [5, 8])
    assert tokens[where[:, 0], where[:, 1]].tolist() == sorted([*range(1, 102), 41])
    assert where[41].tolist() == [1, 10, 8] and values[41] == 7 and values[:41].tolist() == list(range(1, 42))


@pytest.mark.parametrize("key, said", [
    ("4/1", "layers 1 to 3"), ("1/160", "keys 0 to 159"), ("1/x", "not a key"), ("12", "not a layer and a key"),
])  # fmt: skip
def test_keys_that_are_none_are_refused(here, capsys, tmp_path, key, said):
    with pytest.raises(SystemExit, match="2"):
        export(tmp_path / "x", key)
    assert said in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_fairseq_model_is_refused(fairseq, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(fairseq)
    with pytest.raises(SystemExit, match="2"):
        export(tmp_path / "x", "1/2")
    assert "delphi reads tokens with a tokenizer of transformers" in capsys.readouterr().err

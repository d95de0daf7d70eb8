"""A text that a model of the registry writes: its draws against the library's own probabilities, and what is said."""

import json
from pathlib import Path

import gguf_files
import numpy as np
import polars as pl
import pytest
import tiny
import torch
from factories import words
from pipeline import step, write_inputs
from refusing import CARD, run_corpus

from ff_memories import tables
from ff_memories.base.files import script
from ff_memories.inputs import fetch, from_gguf, model_folder, registry
from ff_memories.judge import wording
from ff_memories.model.files import gguf_file


def test_every_token_is_the_one_that_its_draw_falls_on():
    model = tiny.model("llama", torch.float64).eval()
    uniform = np.random.default_rng(0).random((4, 12))
    found = sampled_text.sample(model, uniform)
    first, ends = model.config.bos_token_id, {model.config.bos_token_id, model.config.eos_token_id}
    for text, draws in zip(found, uniform, strict=True):
        for place, token in enumerate(text):
            said = model(torch.tensor([[first, *text[:place]]])).logits[0, -1].softmax(-1).cumsum(-1)
            assert (said[token - 1] if token else 0) <= draws[place] < said[token] + 1e-9
        assert not ends & set(text) and len(text) <= 12


def test_norms_and_positions_are_in_float64_though_the_library_takes_float32():
    with sampled_text.Float64():
        model = tiny.model("llama", torch.float64).eval()
        x = torch.linspace(-1, 2, model.config.hidden_size, dtype=torch.float64)
        norm, (cos, _) = model.model.norm(x), model.model.rotary_emb(x, torch.tensor([[7]]))
    exact = x / (x.square().mean() + model.config.rms_norm_eps).sqrt() * model.model.norm.weight
    assert torch.allclose(norm, exact, rtol=1e-14, atol=0)
    assert not torch.allclose(model.model.norm(x), exact, rtol=1e-10, atol=0)
    angles = 7 * 10_000.0 ** (-torch.arange(0, cos.shape[-1], 2, dtype=torch.float64) / cos.shape[-1])
    assert torch.allclose(cos[0, 0, : len(angles)], angles.cos(), rtol=1e-13, atol=0)


def test_a_text_ends_where_the_model_ends_it():
    model = tiny.model("llama", torch.float64).eval()
    model.config.eos_token_id = sampled_text.sample(model, np.full((1, 12), 0.5))[0][3]
    assert len(sampled_text.sample(model, np.full((1, 12), 0.5))[0]) <= 3


def test_a_story_is_cut_behind_its_last_whole_sentence():
    assert sampled_text.whole('Tim ran. "Stop!" she said. Then he') == 'Tim ran. "Stop!" she said.'
    assert sampled_text.whole('He said, "No." It cost 3.50 and') == 'He said, "No."'
    assert sampled_text.whole("nothing ends") == ""


sampled_text = script("sampled_text")
REGISTRY = """
[text]
kind = "text"
sampled_from = "it"
folder = "data/text"
files = { train = "a.txt", validation = "b.txt" }
unpacked_bytes = 100
licence = "none"
citation = "nobody"
downloads = []

[it]
kind = "model"
form = "gguf"
sha256 = "SHA"
bytes = 1
folder = "data/it"
unpacked_bytes = 100
licence = "none"
citation = "nobody"
[[it.downloads]]
format = "joined"
parts = [{ name = "x.gguf", urls = ["http://127.0.0.1:9/x.gguf"], sha256 = "SHA" }]
"""


@pytest.fixture
def known(tmp_path, monkeypatch):
    """A registry with a text and the model that writes it, in an empty project."""
    monkeypatch.chdir(tmp_path)
    Path("registry.toml").write_text(REGISTRY.replace("SHA", "0" * 64))
    monkeypatch.setattr(registry, "OWN", Path("registry.toml"))
    monkeypatch.setattr(sampled_text, "STORIES", {"train": 6, "validation": 3})
    registry.sources.cache_clear()
    yield
    registry.sources.cache_clear()


def test_the_text_is_written_once_and_the_same_again(known, monkeypatch):
    gguf_files.save("m.gguf")
    model = from_gguf.model(gguf_file.read(Path("m.gguf")))
    model_folder.write_converted(model, Path(registry.source("it").folder), "it", "0" * 64)
    monkeypatch.setattr(sampled_text, "whole", lambda story: story)  # words of a random model end nowhere
    fetch.fetch("text", registry.source("text"))
    first = [Path(f"data/text/{name}.txt").read_text() for name in "ab"]
    assert all(first) and first[0] != first[1]
    Path("data/text/b.txt").unlink()
    fetch.fetch("text", registry.source("text"))
    assert [Path(f"data/text/{name}.txt").read_text() for name in "ab"] == first


@pytest.mark.parametrize("model", ["it", "another"])
def test_the_corpus_counts_tokens_that_are_the_runs_own_models(known, model):
    write_inputs(Path(), words(44))
    changes = {"source": "text", "train__files": [], "validation__files": []}
    given = run_corpus(Path(), **{f"corpus__{key}": value for key, value in changes.items()})
    Path("info.json").write_text(json.dumps(CARD | {"source": model}))
    step(*given)
    counts = pl.read_parquet("out/counts.parquet")
    assert wording.self_sampled(counts) == (model == "it")
    own = counts.filter(reason=tables.SAMPLED)["n"].to_list()
    assert own == ([tables.read("out/sentences.parquet")["tokens"].sum()] if model == "it" else [])

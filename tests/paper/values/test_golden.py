"""What is known of a checkpoint, checked on a small one: the right one passes, usual mistakes do not."""

import json
import math
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from factories import convert, fairseq_model, words, write_checkpoint
from refusing import ended

from ff_memories import tables
from ff_memories.corpus import store
from ff_memories.corpus.dictionary import SPECIALS, Dictionary
from ff_memories.corpus.store import Corpus, Sentences
from ff_memories.inputs.registry import OWN
from ff_memories.model.loading import read_model
from ff_memories.paper.keys.golden_triggers import endings
from ff_memories.paper.values import golden

TYPES = words(44)
SOURCE = (
    '[small]\nkind = "model"\nfolder = "data/small"\nfiles = {checkpoint = "model.pt", dictionary = "dict.txt"}\n'
    'unpacked_bytes = 1\nlicence = ""\ncitation = ""\ngolden = "known.toml"\ndownloads = []\n'
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small checkpoint with its dictionary, its keepers' numbers, and a text that it finds likely."""
    folder = tmp_path_factory.mktemp("golden")
    types = [w for i in range(0, len(TYPES), 5) for w in sorted(TYPES[i : i + 5])]
    write_checkpoint(folder / "model.pt", types, scale=2)
    convert(folder / "model.pt", folder / "model.safetensors", folder / "model.json")
    write_dictionary(folder / "dict.txt", types)
    decoder = load(folder)
    text = []
    with torch.inference_mode():
        while len(text) < 50:
            h = decoder.forward(decoder.pack([np.array(text, dtype=np.int64)]))[-1:]
            scores = decoder.vocabulary.log_probabilities(decoder.vocabulary.output(h))[0]
            scores[:4] = -torch.inf
            text.append(int(scores.argmax()))
    dictionary = Dictionary.read(folder / "dict.txt")
    (folder / "test.txt").write_text(" " + " ".join(dictionary[t] for t in text) + " \n", encoding="utf-8")
    return folder


def write_dictionary(path, types):
    path.write_text("".join(f"{word} {10 - i // 5}\n" for i, word in enumerate(types)), encoding="utf-8")  # many ties


def load(folder):
    return read_model(folder / "model.safetensors", folder / "model.json")


@pytest.fixture(scope="module")
def known(folder):
    """What is known of it: measured once, as the paper's numbers were."""
    decoder, dictionary = load(folder), Dictionary.read(folder / "dict.txt")
    tops = [{"layer": 1 + i % 3, "key": 2 * i, "token": ""} for i in range(9)]
    own = {
        "parameters": decoder.description.parameters,
        "vocab": 48,
        "perplexity": {"context": 0, "counted": 60, "all": [0, math.inf]},
        "max_probability": [0, 1],
        "top_values": {"values": 10, "from_layer": 2, "share": [0, 1]},
        "tops": tops,
    }
    found, _ = golden.check(decoder, dictionary, folder / "test.txt", own, None)
    for at in tops:
        at["token"] = found["tops"][f"{at['layer']}/{at['key']}"]
    near = lambda x: [0.99 * x, 1.01 * x + 1e-9]
    own["perplexity"] |= {"all": near(found["perplexity"])}
    own["perplexity"]["sample"] = own["perplexity"]["all"]
    return own | {
        "max_probability": near(found["max_probability"]),
        "top_values": own["top_values"] | {"share": near(found["top_values"])},
    }


def faults(decoder, dictionary_file, folder, known):
    return golden.check(decoder, Dictionary.read(dictionary_file), folder / "test.txt", known, None)[1]


def test_the_right_checkpoint_passes(folder, known):
    assert len({at["token"] for at in known["tops"]}) > 3
    assert faults(load(folder), folder / "dict.txt", folder, known) == []


def test_another_size_is_refused_before_anything_else(folder, known):
    (said,) = faults(load(folder), folder / "dict.txt", folder, known | {"parameters": 7})
    assert said.startswith("parameters: ")


def test_a_dictionary_in_the_order_of_the_v1_release_fails(folder, known, tmp_path):
    types = Dictionary.read(folder / "dict.txt").types[len(SPECIALS) :]
    write_dictionary(tmp_path / "dict.txt", [w for i in range(0, len(types), 5) for w in types[i : i + 5][::-1]])
    assert any("(G2)" in fault for fault in faults(load(folder), tmp_path / "dict.txt", folder, known))


def test_another_number_of_heads_fails_by_the_perplexity_alone(folder, known, tmp_path):
    types = Dictionary.read(folder / "dict.txt").types[len(SPECIALS) :]
    write_checkpoint(tmp_path / "model.pt", types, scale=2, decoder_attention_heads=4)  # the same weights
    convert(tmp_path / "model.pt", tmp_path / "model.safetensors", tmp_path / "model.json")
    assert [fault[-4:] for fault in faults(load(tmp_path), folder / "dict.txt", folder, known)] == ["(G2)"]


def test_other_values_fail(folder, known):
    tops = [at | {"token": "the"} for at in known["tops"]]
    assert any("(G3)" in fault for fault in faults(load(folder), folder / "dict.txt", folder, known | {"tops": tops}))


def test_a_few_windows_stand_for_all(folder):
    ids = golden.stream(folder / "test.txt", Dictionary.read(folder / "dict.txt"))
    loss = lambda first, end: (end - first) * math.log(golden.perplexity(load(folder), ids[first:end], 5, 5, None))
    own = sum(loss(s - 5, s + 5) - loss(s - 5, s) for s in (5, 25, 45))  # less those that are context alone
    few = golden.perplexity(load(folder), ids, context=5, counted=5, windows=3)
    assert few == pytest.approx(math.exp(own / 15), rel=1e-5)


def test_perplexity_is_fairseqs(folder):
    model, _ = fairseq_model(Dictionary.read(folder / "dict.txt").types[4:], scale=2)
    ids = golden.stream(folder / "test.txt", Dictionary.read(folder / "dict.txt"))
    loss, n = 0.0, 0
    for start in range(0, len(ids), 40):
        inputs = np.concatenate([[2], ids[max(0, start - 20) : start + 40 - 1]])[: len(ids) + 1]
        target = np.concatenate([ids[max(0, start - 20) : start], ids[start : start + 40]])
        inputs = torch.from_numpy(inputs[: len(target)])[None]
        with torch.no_grad():
            logp = model.get_normalized_probs(model(inputs), log_probs=True, sample=None)[0]
        own = logp[torch.arange(len(target)), torch.from_numpy(target)][min(start, 20) :]
        loss, n = loss - own.sum().item(), n + len(own)
    found = golden.perplexity(load(folder), ids, context=20, counted=40, windows=None)
    assert n == len(ids)
    assert math.isclose(found, math.exp(loss / n), rel_tol=1e-4)


def test_what_comes_with_the_project_names_every_key_that_the_checks_read(known):
    own = tomllib.loads(OWN.with_name("golden.toml").read_text(encoding="utf-8"))
    assert set(known) | {"endings"} == set(own)
    assert set(known["perplexity"]) == set(own["perplexity"])
    assert [len(own["tops"]), len(own["endings"])] == [6, 3]


def test_a_prefix_without_tokens_ends_in_no_word_known_or_unknown():
    triggers = pl.DataFrame({"layer": [1, 1], "key": [3, 3], "rank": [1, 2], "sentence": [0, 1], "position": [0, 2]})
    dictionary = Dictionary(["of", "substitutes"])
    corpus = Corpus(np.full(3, dictionary.ids["of"]), np.array([0, 1, 3]), 2)
    known = {"endings": [{"layer": 1, "key": 3, "words": ["of", "unlisted"]}]}
    assert [(at["found"], at["n"]) for at in endings(triggers, corpus, dictionary, known)] == [(0.5, 2)]


def step(folder, *more):
    return ended("golden", "--source", "small", "--weights", folder / "model.safetensors", "--description",
                 folder / "model.json", "--dictionary", folder / "dict.txt", "--test", folder / "test.txt",
                 "--device", "cpu", "--threads", "1", *more)  # fmt: skip


def test_the_step_leaves_its_findings_only_where_all_is_as_known(folder, known, tmp_path, capsys):
    own = {k: v for k, v in known.items() if k not in ("perplexity", "top_values", "tops")}
    lines = [f"{k} = {json.dumps(v)}" for k, v in own.items()]
    for name in ("perplexity", "top_values"):
        lines += [f"[{name}]", *(f"{k} = {json.dumps(v)}" for k, v in known[name].items())]
    for at in known["tops"]:
        lines += ["[[tops]]", *(f"{k} = {json.dumps(v)}" for k, v in at.items())]
    (tmp_path / "known.toml").write_text("\n".join(lines))
    (tmp_path / "registry.toml").write_text(SOURCE)
    more = ["--registry", str(tmp_path / "registry.toml"), "--out", str(tmp_path / "golden.json")]
    assert step(folder, "--windows", "1000", *more) == 0
    assert json.loads((tmp_path / "golden.json").read_text())["tops"]
    (tmp_path / "golden.json").unlink()
    (tmp_path / "known.toml").write_text("\n".join(lines).replace("parameters = ", "parameters = 1"))
    assert step(folder, *more) == 2
    assert "this is not the known small\n  parameters: " in capsys.readouterr().err
    changed = "\n".join(lines).replace("max_probability = [", "max_probability = [1.5, 2] #")
    (tmp_path / "known.toml").write_text(changed)
    assert step(folder, *more) == 2
    said = capsys.readouterr().err
    assert "this is not the known small\n  max_probability: " in said and "(G4)" in said
    assert not (tmp_path / "golden.json").exists()


def test_the_step_for_triggers_refuses_keys_whose_triggers_end_otherwise(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("dict.txt").write_text("of 2\nsubstitutes 1\n")
    text = Sentences()
    text.add([4, 5, 4], "train.txt", 1, 0)
    store.write(text, Sentences(), "corpus.safetensors")
    rows = [(1, 3, rank, 1.0 / rank, 0, j, None) for rank, j in enumerate((1, 3, 2), 1)]  # two of three end in `of`
    tables.write(pl.DataFrame(rows, schema=tables.TABLES["triggers"].columns, orient="row"), "triggers.parquet")
    registry = tmp_path / "registry.toml"  # absolute: what a path holds is read once in a process
    registry.write_text(SOURCE)
    files = ["--dictionary", "dict.txt", "--corpus", "corpus.safetensors", "--triggers", "triggers.parquet"]
    command = ["golden-triggers", "--source", "small", "--registry", registry, *files, "--out", "found.json"]
    for share, status in ((0.7, 2), (0.6, 0)):
        Path("known.toml").write_text(f'[[endings]]\nlayer = 1\nkey = 3\nwords = ["of"]\nshare = {share}\n')
        assert ended(*command) == status and Path("found.json").exists() == (not status)
    assert "key 3 of layer 1: 67% of 3 triggers end in of, expected at least 70% (G6)" in capsys.readouterr().err
    assert json.loads(Path("found.json").read_text())[0]["n"] == 3

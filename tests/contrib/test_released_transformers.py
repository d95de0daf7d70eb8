"""`triggers` and `sample` on models of `transformers`: texts are read as the run read them."""

import json
import shutil

import polars as pl
import pytest
import yaml
from contributed import says, use
from laid_out import lay_out
from pipeline import run_steps
from transformers_run import prepare

from ff_memories import tables
from ff_memories.corpus import store
from ff_memories.corpus.types import read_types

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def results(request, tmp_path_factory):
    """A small run, ungated and gated; its texts are named by their whole paths."""
    folder = tmp_path_factory.mktemp(request.param)
    settings = prepare(folder, request.param, train=60, validation=30)
    return lay_out(folder, run_steps(folder, settings), "small")


def of(results, *names):
    """Return options that name a run's tables."""
    return [part for name in names for part in (f"--{name}", results / "tables" / f"{name}.parquet")]


def words(results):
    """Return each sentence's words as the corpus has them, by number."""
    corpus = store.read(results / "corpus" / "corpus.safetensors")
    types = read_types(results / "model" / "types.json")
    return {number: types.words(corpus.sentence(number).tolist()) for number in range(len(corpus))}


def test_triggers_have_the_texts_that_the_run_read(results, tmp_path):
    info = json.loads((results / "model" / "info.json").read_text())
    use(
        "released_code",
        "triggers",
        *of(results, "triggers", "sentences"),
        "--info",
        results / "model" / "info.json",
        "--top",
        5,
        "--out",
        tmp_path / "out.jsonl",
    )
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(lines) == info["keys"] == info["signs"] * info["neurons"]
    held, known = tables.read(results / "tables" / "triggers.parquet"), words(results)
    assert held.height > 100
    for layer, key, rank, coefficient, sentence, position in held.select(
        "layer", "key", "rank", "coefficient", "sentence", "position"
    ).iter_rows():
        found = lines[key]["top_values"][layer - 1][rank - 1]
        assert found["text"].split() == known[sentence]
        assert (found["token_indice"], found["fc1_value"]) == (position, coefficient)


def test_a_sample_repeats_the_run(results, tmp_path):
    use("released_code", "sample", *of(results, "sentences", "examples"), "--out", tmp_path / "sample")
    known, sentences = words(results), tables.read(results / "tables" / "sentences.parquet")
    for split in ("train", "validation"):
        numbers = sentences.filter(pl.col("split") == split)["sentence"]
        lines = (tmp_path / "sample" / f"{split}.txt").read_text().splitlines()
        assert [line.split() for line in lines] == [known[number] for number in numbers]
    folder = results.parents[1]
    settings = yaml.safe_load((folder / "my.yaml").read_text())
    settings["composition"]["sample_file"] = "sample.jsonl"
    settings["corpus"]["segmenter"] = "line"
    settings["seed"] = 99
    for name in ("train.txt", "validation.txt", "sample.jsonl"):
        shutil.copyfile(tmp_path / "sample" / name, tmp_path / name)
    shutil.copytree(folder / "model", tmp_path / "model")
    again = tables.read(run_steps(tmp_path, settings) / "examples.parquet").drop("sentence")  # some are there twice
    assert again.equals(tables.read(results / "tables" / "examples.parquet").drop("sentence"))


def test_types_elsewhere_are_named_by_an_option(results, tmp_path, capsys):
    shutil.copyfile(results / "tables" / "sentences.parquet", tmp_path / "sentences.parquet")
    given = ["--sentences", tmp_path / "sentences.parquet", *of(results, "examples"), "--out", tmp_path / "out"]
    assert "changed since the run" in says(capsys, "released_code", "sample", *given)
    use("released_code", "sample", *given, "--dictionary", results / "model" / "types.json")
    assert (tmp_path / "out" / "train.txt").is_file()


def test_a_text_that_did_change_is_refused(results, tmp_path, capsys):
    text = results.parents[1] / "train.txt"
    before = text.read_text()
    text.write_text(before.replace("Anna", "Anna Anna", 1))
    try:
        said = says(capsys, "released_code", "sample", *of(results, "sentences", "examples"), "--out", tmp_path / "out")
    finally:
        text.write_text(before)
    assert "train.txt, line " in said and "changed since the run" in said

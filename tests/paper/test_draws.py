"""What the released code draws at random goes out as files and comes in again: sentence order and positions."""

import json
import random
import re

import numpy as np
import polars as pl
import pytest
from contributed import use
from factories import words
from pipeline import config, run_steps, write_inputs
from reference import rule_sentences
from refusing import says
from running import ROOT, change, command, snakemake

from ff_memories import tables

TYPES = words(44)
RELEASED = dict(fidelity="released", corpus__segmenter="line", composition__sample_file="sample.jsonl")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A released run that drew for itself, and what `sample` made of it."""
    folder = tmp_path_factory.mktemp("draws")
    write_inputs(folder, TYPES, seed=5, decoder_layers=2)
    out = run_steps(folder, config(fidelity="released"))
    use("released_code", "sample", "--sentences", out / "sentences.parquet", "--examples", out / "examples.parquet",
        "--out", out / "sample")  # fmt: skip
    return folder, out


def again(tmp_path, folder, texts, **changes):
    """Run on the same model with other texts and a given sample."""
    for name in ("model.pt", "dict.txt"):
        (tmp_path / name).symlink_to(folder / name)
    for name in ("train.txt", "validation.txt", "sample.jsonl"):
        (tmp_path / name).write_bytes((texts / name).read_bytes())
    return run_steps(tmp_path, config(**RELEASED, **changes))


def test_a_run_given_anothers_draw_repeats_it_whatever_its_seed(run, tmp_path):
    folder, out = run
    new = again(tmp_path, folder, out / "sample", seed=99, composition__examples=7)
    for name in ("triggers", "examples", "composition", "refinement"):
        assert tables.read(new / f"{name}.parquet").equals(tables.read(out / f"{name}.parquet")), name
    assert tables.read(out / "examples.parquet")["position"].min() == 0


def test_the_page_tells_how_to_take_a_draw_out_of_the_released_data_frame(run, tmp_path, monkeypatch):
    folder, out = run
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "train.txt").write_bytes((out / "sample" / "train.txt").read_bytes())
    use("released_code", "layer", "--weights", out / "model.safetensors", "--description", out / "model.json",
        "--corpus", out / "corpus.safetensors", "--examples", out / "examples.parquet", "--sentences",
        out / "sentences.parquet", "--out", texts / "layer.pkl", "--device", "cpu", "--threads", 1)  # fmt: skip
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/exports.md").read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(texts)
    exec(code, {})
    new = again(tmp_path, folder, texts)
    for name in ("composition", "refinement"):
        assert tables.read(new / f"{name}.parquet").equals(tables.read(out / f"{name}.parquet")), name


def test_a_draw_made_elsewhere_decides_examples_and_ties(run, tmp_path):
    """Sentences in an order of one's own, a position for each of them, as the released code draws them."""
    folder, _ = run
    rng, elsewhere = random.Random(1), tmp_path / "elsewhere"
    elsewhere.mkdir()
    order = {s: [" ".join(w) for w in rule_sentences(folder / f"{s}.txt")] for s in ("train", "validation")}
    for split, sentences in order.items():
        rng.shuffle(sentences)
        (elsewhere / f"{split}.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    drawn = [{"text": s, "random_pos": rng.randint(0, len(s.split()))} for s in order["validation"]]
    drawn[3]["text"] = f"  {drawn[3]['text']} "  # blanks around a text say nothing
    (elsewhere / "sample.jsonl").write_text("\n".join(map(json.dumps, drawn)), encoding="utf-8")
    out = again(tmp_path, folder, elsewhere)
    first = len(order["train"])
    examples = tables.read(out / "examples.parquet")
    assert examples["position"].to_list() == [d["random_pos"] for d in drawn]
    assert [order["validation"][s - first] for s in examples["sentence"]] == order["validation"]
    # of equal coefficients the earlier sentence of this order stands first
    triggers = tables.read(out / "triggers.parquet")
    ties = triggers.filter(pl.len().over("layer", "key", "coefficient") > 1)
    assert ties.height
    assert ties.equals(ties.sort("layer", "key", "rank"))
    ordered = ties.group_by("layer", "key", "coefficient").agg(pl.col("sentence"))["sentence"].to_list()
    assert all(list(s) == sorted(s) for s in ordered)


def test_a_text_that_several_sentences_have_stands_for_them_in_turn(tmp_path):
    from ff_memories.corpus import sample

    path = tmp_path / "sample.jsonl"
    path.write_text("".join(json.dumps({"text": "a b", "random_pos": p}) + "\n" for p in (0, 2, 1)), encoding="utf-8")
    frame = sample.read(path, {4: "a b", 7: "c", 9: "a b"}, np.array([0] * 4 + [2] * 6))
    assert frame.rows() == [(0, 4, 0), (1, 9, 2), (2, 4, 1)]


@pytest.mark.parametrize(
    "line, said",
    [
        ('{"text": "no such sentence", "random_pos": 0}', "line 2: no validation sentence has the text"),
        ('{"text": "FIRST", "random_pos": 999}', "line 2: random_pos is 999, but the sentence has"),
    ],
)
def test_a_faulty_sample_is_refused_with_its_line(run, tmp_path, capsys, line, said):
    folder, out = run
    good = (out / "sample/sample.jsonl").read_text(encoding="utf-8").splitlines()[0]
    path = tmp_path / "sample.jsonl"
    path.write_text(good + "\n" + line.replace("FIRST", json.loads(good)["text"]) + "\n", encoding="utf-8")
    made = ("examples", "composition", "refinement", "counts")
    told = says(capsys, "composition", "--config", folder / "config.yaml", "--weights", out / "model.safetensors",
                "--description", out / "model.json", "--corpus", out / "corpus.safetensors", "--values",
                out / "values.parquet", "--sample", path, "--sentences", out / "sentences.parquet",
                *(word for name in made for word in (f"--{name}", "x")))  # fmt: skip
    assert said in told


@pytest.mark.more
def test_snakemake_looks_at_a_given_sample_again_when_it_changes(planted_copy):
    examples = "results/planted/tables/examples.parquet"
    old = tables.read(planted_copy / examples)
    command("python", "-m", "contrib.released_code", "sample", "--sentences",
            "results/planted/tables/sentences.parquet", "--examples", examples, "--out", "sample",
            cwd=planted_copy, PYTHONPATH=str(ROOT))  # fmt: skip
    path = planted_copy / "sample/sample.jsonl"
    path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:5]), encoding="utf-8")
    change(planted_copy, "composition.sample_file", "sample/sample.jsonl")
    snakemake(planted_copy, "--", examples)
    same = pl.exclude("sentence")  # of sentences with the same text, another may stand for it
    assert tables.read(planted_copy / examples).select(same).equals(old.head(5).select(same))
    path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:4]), encoding="utf-8")
    assert "composition" in snakemake(planted_copy, "-n", "--", examples).stdout

"""The demo model's training: fairseq's own tools, resumed where they stopped, and what perplexities mean."""

import json
import math

import pytest
import yaml
from factories import words, write_text
from running import ROOT

from data.demo import train as training
from ff_memories.base.errors import UserError
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.model.files import checkpoint

pytestmark = pytest.mark.more

TYPES = words(30)


def recipe(folder, updates):
    """The project's own recipe, shrunk."""
    plan = yaml.safe_load((ROOT / "config" / "demo_model.yaml").read_text())
    plan["options"] |= {
        "decoder-layers": 2, "decoder-embed-dim": 16, "decoder-input-dim": 16, "decoder-output-dim": 16,
        "decoder-ffn-embed-dim": 32, "adaptive-input-cutoff": "10,20", "adaptive-softmax-cutoff": "10,20",
        "tokens-per-sample": 64, "max-tokens": 128, "warmup-updates": 2, "max-update": updates, "lr": 0.02,
    }  # fmt: skip
    (folder / "recipe.yaml").write_text(yaml.safe_dump(plan))


def train(folder, updates):
    recipe(folder, updates)
    training.train(folder / "recipe.yaml", folder / "train.txt", folder / "valid.txt", folder / "out")


def test_training_goes_on_where_it_stopped_and_ships_a_model_that_is_read(tmp_path, capfd):
    write_text(tmp_path / "train.txt", TYPES, 300, seed=1)
    write_text(tmp_path / "valid.txt", TYPES, 40, seed=2)
    train(tmp_path, 10)
    assert "loaded checkpoint" not in capfd.readouterr().err
    assert (tmp_path / "out/curve.csv").read_text().splitlines()[-1].startswith("10,")
    train(tmp_path, 30)
    assert "loaded checkpoint" in capfd.readouterr().err
    description, _ = checkpoint.read(tmp_path / "out" / "model.pt")
    assert (description.layers, description.model, description.keys) == (2, 16, 32)
    assert description.vocab == len(Dictionary.read(tmp_path / "out" / "dict.txt"))
    found = json.loads((tmp_path / "out" / "perplexities.json").read_text())
    assert set(found) == {"model", "unigram", "bigram"}
    curve = (tmp_path / "out" / "curve.csv").read_text().splitlines()
    assert curve[0] == "updates,perplexity"
    assert int(curve[-1].split(",")[0]) == 30
    half = (tmp_path / "out" / "model.pt").stat().st_size
    assert half < (tmp_path / "out" / "work" / "checkpoints" / "checkpoint_last.pt").stat().st_size / 2


def test_baselines_are_probabilities_that_sum_to_one_and_know_their_text(tmp_path):
    (tmp_path / "dict.txt").write_text("a 4\nb 3\nc 2\nd 0\n")
    (tmp_path / "train.txt").write_text("a b a b c\na b\n")
    dictionary = Dictionary.read(tmp_path / "dict.txt")
    total = 0.0
    for word in ["<s>", "<pad>", "</s>", "<unk>", "a", "b", "c", "d"]:
        # one line of one word: the perplexity of (word, </s>) with and without the word tells the word's probability
        (tmp_path / "valid.txt").write_text(f"{word}\n" if word != "</s>" else "\n")
        found = training.baselines(tmp_path / "train.txt", tmp_path / "valid.txt", dictionary)
        (tmp_path / "end.txt").write_text("\n")
        end = training.baselines(tmp_path / "train.txt", tmp_path / "end.txt", dictionary)["unigram"]
        total += 1 / end if word == "</s>" else 1 / (found["unigram"] ** 2 / end)
    assert math.isclose(total, 1.0)
    (tmp_path / "valid.txt").write_text("a b a b\n")
    seen = training.baselines(tmp_path / "train.txt", tmp_path / "valid.txt", dictionary)
    (tmp_path / "valid.txt").write_text("b b a a\n")
    unseen = training.baselines(tmp_path / "train.txt", tmp_path / "valid.txt", dictionary)
    assert math.isclose(seen["unigram"], unseen["unigram"])
    assert seen["bigram"] < unseen["bigram"]


def test_a_tool_that_fails_says_so():
    with pytest.raises(UserError, match="fairseq train failed with status"):
        training.fairseq("train", "/nowhere", "--no-such-option")

"""A run on planted memories: its model, its texts and its config, all small and all known."""

import random

import torch
import yaml
from factories import write_dictionary
from pipeline import config
from planted import Planted

TYPES = [".", "red", "green", "blue", "cat", "dog", "bird", "runs", "sings", "sleeps", "far", "away"]
TYPES += ["rare", "odd", "lone"]  # the tail of the adaptive softmax
IDS = {word: i for i, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", *TYPES])}
HEAD = 4 + 12
TOP = 9


def promote(**words):
    return {IDS.get(word, 3): amount for word, amount in words.items()}


def planted():
    colours, animals = ("red", "green", "blue"), ("cat", "dog", "bird")
    first = {IDS[c]: promote(cat=1.0, dog=0.6) for c in colours}  # colours promise animals from the start
    first |= {IDS[a]: promote(runs=1.0, sings=0.9) for a in animals}
    second = {IDS[c]: promote(cat=1.0) for c in colours}  # agreement
    second |= {IDS[a]: promote(sleeps=1.0, sings=0.9) for a in animals}  # composition: sings
    second |= {IDS["far"]: promote(away=1.0)}
    third = {IDS["red"]: promote(bird=3.0, cat=0.1), IDS["far"]: promote(away=1.0)}
    third |= {IDS[w]: promote(sleeps=0.8, sings=0.6) for w in ("cat", "away", "lone")}  # weaker than bigrams'
    bigrams = [
        ((IDS["red"], IDS["cat"]), promote(runs=1.0, sings=0.95)),  # with "cat"'s own value: sings, which neither says
        ((IDS["far"], IDS["away"]), {IDS["."]: 1.0}),
        ((IDS["odd"], IDS["lone"]), promote(rare=1.0)),  # a tail word, which no value here can make the top
    ]
    return Planted(TYPES, HEAD, [first, second, third], bigrams)


def write_sentences(path, n, seed):
    rng = random.Random(seed)
    chain = {
        "red": ["cat", "dog"], "green": ["dog", "bird"], "blue": ["bird", "cat"], "far": ["away"], "odd": ["lone"],
        "cat": ["runs", "sleeps"], "dog": ["runs"], "bird": ["sings"],
    }  # fmt: skip
    lines = []
    for _ in range(n):
        words = [rng.choice(TYPES[1:])]
        while len(words) < rng.randint(1, 14):
            words.append(rng.choice(chain.get(words[-1], TYPES[1:])))
        lines.append(" ".join([*words, "."]))
    path.write_text("\n".join(lines + lines[: n // 3]) + "\n", encoding="utf-8")  # with repeated sentences


def prepare(folder):
    """Write the planted checkpoint, its texts, and a config that names them."""
    truth = planted()
    model, args = truth.model()
    torch.save({"args": args, "model": model.state_dict()}, folder / "model.pt")
    write_dictionary(folder / "dict.txt", TYPES)
    write_sentences(folder / "train.txt", 300, 1)
    write_sentences(folder / "validation.txt", 120, 2)
    # no model with the planted weights shuffled: their size makes logits of 10^4, whose rounding shows in probabilities
    settings = config(
        run="planted", baselines__models=3, baselines__shuffled=0, triggers__top=TOP, mutations__top=TOP,
        mutations__keys_per_layer=truth.keys,
        patterns__top=TOP, composition__examples=100,
    )  # fmt: skip
    (folder / "my.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))

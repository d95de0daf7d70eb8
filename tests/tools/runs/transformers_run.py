"""A run whose model is one of `transformers`: a small model with a tokenizer of its own, raw texts and a config."""

import random

import tiny
import torch
import yaml
from pipeline import config

from data.train_transformer import tokenizer

NAMES = ("Anna", "Bert", "Carla", "Dora")
VERBS = ("sees", "feeds", "calls", "paints", "doesn't like")
THINGS = ("a red cat", "the old dog", "two green birds", "NetworkX", "an owl", "his naïve fish", "file_name.py")
ENDS = ("", " at 7.30", " in the house", ", again", " (not here)")
INPUTS = ("model", "train.txt", "validation.txt")
KINDS = 290  # token types: 256 bytes, the separator, and a few pieces


def write_sentences(path, n, seed):
    """Write raw text, one to three sentences a line, some of them again."""
    rng, lines = random.Random(seed), []
    while n > 0:
        here = [
            f"{rng.choice(NAMES)} {rng.choice(VERBS)} {rng.choice(THINGS)}{rng.choice(ENDS)}{rng.choice('..?!')}"
            for _ in range(min(n, rng.randint(1, 3)))
        ]
        lines.append(" ".join(here))
        n -= len(here)
    path.write_text("\n".join([*lines, *lines[:5]]) + "\n", encoding="utf-8")


def write_model(folder, text, name="gpt2", seed=0, dtype=torch.float32, change=None):
    """Save a small random model (``tiny``) and a byte-level tokenizer learned from a text, as `transformers` does."""
    learned = tokenizer(text, KINDS)
    sizes = {"vocab_size": len(learned), "bos_token_id": 0, "eos_token_id": 0, **(change or {})}
    made = tiny.model(name, dtype, seed, sizes)
    made.save_pretrained(folder)
    learned.save_pretrained(folder)
    return made


def settings_of(run="small", **changes):
    """Return the run's config with keys changed, as ``pipeline.config``."""
    sizes = dict(triggers__top=5, mutations__top=4, mutations__keys_per_layer=4, patterns__top=5)
    return config(run=run, corpus__too_long="split", model={"folder": "model"}, **sizes | changes)


def prepare(folder, name="gpt2", train=160, validation=60, **changes):
    """Write model/, train.txt, validation.txt and my.yaml; return the config."""
    write_sentences(folder / "train.txt", train, 1)
    write_sentences(folder / "validation.txt", validation, 2)
    write_model(folder / "model", folder / "train.txt", name)
    made = settings_of(**changes)
    (folder / "my.yaml").write_text(yaml.safe_dump(made, sort_keys=False), encoding="utf-8")
    return made

"""Train the demo run's model with fairseq's own tools, in hours on two cores; what was stopped goes on where it was.

    python -m data.demo.train

``results/train`` then has model.pt, dict.txt, curve.csv (validation perplexity by updates) and perplexities.json, with
those of a unigram and a bigram model to compare it with. docs/index.md says how they become the run's input.
"""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from ff_memories.base.errors import UserError
from ff_memories.base.files import sha256
from ff_memories.config import read_yaml
from ff_memories.corpus.dictionary import EOS, Dictionary
from ff_memories.model.files.checkpoint import load_pickle

THREADS = 2
SAVE_EVERY = 250  # updates between resumable checkpoints: a few minutes on two cores


def fairseq(tool: str, *arguments: str, log: Path | None = None) -> str:
    """Run one of fairseq's tools; copy its output to stderr, append it to ``log``, and return it."""
    env = {**os.environ, "OMP_NUM_THREADS": str(THREADS)}
    command = [sys.executable, "-W", "ignore", "-m", "tools.fairseq_tools", tool, *arguments]
    printed = []
    with subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in process.stdout or ():
            printed.append(line)
            print(line, end="", file=sys.stderr, flush=True)
            if log is not None:
                with log.open("a") as file:
                    file.write(line)
    if process.returncode:
        raise UserError(f"fairseq {tool} failed with status {process.returncode}; last line: {printed[-1:]}")
    return "".join(printed)


def binarise(train: Path, validation: Path, threshold: int, folder: Path) -> None:
    """Build the dictionary and fairseq's binary text, unless they exist."""
    if not (folder / "valid.bin").is_file():
        fairseq("preprocess", "--only-source", "--trainpref", str(train), "--validpref", str(validation),
                "--thresholdsrc", str(threshold), "--destdir", str(folder))  # fmt: skip


def fit(folder: Path, options: dict[str, Any], save: Path) -> Path:
    """Train, or resume from the last checkpoint in ``save``; return the final checkpoint."""
    flags = []
    for name, value in options.items():
        flags += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    save.mkdir(parents=True, exist_ok=True)
    fairseq("train", str(folder), "--task", "language_modeling", *([] if torch.cuda.is_available() else ["--cpu"]),
            *flags, "--save-dir", str(save), "--save-interval-updates", str(SAVE_EVERY), "--keep-interval-updates", "1",
            "--no-epoch-checkpoints", "--no-progress-bar", "--log-interval", "25",
            log=save.parent / "train.log")  # fmt: skip
    return save / "checkpoint_last.pt"


def curve(log: Path) -> str:
    """Return a training log's validation perplexities as CSV: ``updates``, ``perplexity``."""
    found = re.findall(r"valid on 'valid' subset .*?\| ppl ([\d.]+) \| num_updates (\d+)", log.read_text())
    rows = sorted({int(updates): ppl for ppl, updates in found}.items())
    return "updates,perplexity\n" + "".join(f"{updates},{ppl}\n" for updates, ppl in rows)


def perplexity(folder: Path, checkpoint: Path, options: dict[str, Any]) -> float:
    """Return the validation perplexity that fairseq's ``eval_lm`` reports."""
    printed = fairseq(
        "eval_lm", str(folder), "--path", str(checkpoint), "--gen-subset", "valid", "--cpu",
        "--tokens-per-sample", str(options["tokens-per-sample"]), "--sample-break-mode", "none",
        "--max-tokens", str(options["max-tokens"]), "--no-progress-bar",
    )  # fmt: skip
    return float(re.findall(r"Perplexity: ([\d.]+)", printed)[-1])


def shipped(checkpoint: Path, target: Path) -> None:
    """Write only a checkpoint's options and weights, in half precision and with tied weights stored once."""
    loaded = load_pickle(checkpoint)
    state: dict[str, torch.Tensor] = {}
    halves: dict[tuple[Any, ...], torch.Tensor] = {}
    for name, tensor in loaded["model"].items():
        own = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
        state[name] = halves.setdefault(own, tensor.half() if tensor.is_floating_point() else tensor)
    # keep the keys that fairseq's loader expects, so its tools can read the file too
    rest = {"optimizer_history": loaded["optimizer_history"], "last_optimizer_state": None, "extra_state": {"epoch": 0}}
    torch.save({"args": loaded["args"], "model": state, **rest}, target)


def baselines(train: Path, validation: Path, dictionary: Dictionary) -> dict[str, float]:
    """Return the validation perplexities of a unigram and a Kneser-Ney bigram model, with line ends as tokens."""

    def stream(path: Path) -> list[int]:
        out = [EOS]
        for line in path.read_text(encoding="utf-8").splitlines():
            out += [*dictionary.encode(line.split()), EOS]
        return out

    seen, unseen = stream(train), stream(validation)
    unigrams, bigrams = Counter(seen[1:]), Counter(pairwise(seen))
    vocab, total, discount = len(dictionary), len(seen) - 1, 0.75
    contexts = Counter(seen[:-1])
    followers = Counter(first for first, _ in bigrams)
    preceding = Counter(second for _, second in bigrams)

    def continuation(token: int) -> float:
        return (preceding[token] + 1) / (len(bigrams) + vocab)

    def bigram(first: int, second: int) -> float:
        if not contexts[first]:
            return continuation(second)
        rest = discount * followers[first] / contexts[first]
        return max(bigrams[first, second] - discount, 0) / contexts[first] + rest * continuation(second)

    n = len(unseen) - 1
    unigram_loss = -sum(math.log((unigrams[t] + 1) / (total + vocab)) for t in unseen[1:])
    bigram_loss = -sum(math.log(bigram(a, b)) for a, b in pairwise(unseen))
    return {"unigram": math.exp(unigram_loss / n), "bigram": math.exp(bigram_loss / n)}


def train(recipe: Path, text: Path, validation: Path, out: Path) -> None:
    """Train by a recipe (config/demo_model.yaml) on tokenised text, and write what this module's docstring names."""
    plan, work = read_yaml(recipe), out / "work"
    options, binary = plan["options"], work / f"text-{sha256(text, validation)[:12]}"  # a new text gets a new folder
    binarise(text, validation, plan["dictionary"]["thresholdsrc"], binary)
    shipped(fit(binary, options, work / "checkpoints"), out / "model.pt")
    shutil.copyfile(binary / "dict.txt", out / "dict.txt")
    found = baselines(text, validation, Dictionary.read(out / "dict.txt"))
    found["model"] = perplexity(binary, out / "model.pt", options)
    (out / "perplexities.json").write_text(json.dumps({k: round(v, 3) for k, v in found.items()}, indent=1) + "\n")
    (out / "curve.csv").write_text(curve(work / "train.log"))
    print((out / "perplexities.json").read_text())


if __name__ == "__main__":
    text = Path("data/docstrings")  # ff-memories step docstrings, or any run of the demo, writes it
    train(Path("config/demo_model.yaml"), text / "train.txt", text / "validation.txt", Path("results/train"))

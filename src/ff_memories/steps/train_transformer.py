"""Train a small model of `transformers` for a demo run; a run that was stopped continues from its last state."""

import shutil
from pathlib import Path

import torch
import yaml

from ff_memories.base.parameters import Input, Output, Param, Threads
from ff_memories.inputs import training_transformers as training


def run(
    recipe: Input, train: Input, validation: Input, work: Param, threads: Threads, folder: Output, curve: Output
) -> None:
    """Train, and copy the last checkpoint.

    Args:
        recipe: config/demo_gpt2_model.yaml, or one like it
        train, validation: raw text
        work: folder for checkpoints and the state of training
        folder: the trained model and its tokenizer
        curve: validation perplexity by updates, as CSV
    """
    torch.set_num_threads(threads)
    plan = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    measured = training.train(plan, train, validation, Path(work))
    shutil.copytree(Path(work) / str(plan["updates"]), folder, dirs_exist_ok=True)
    rows = "".join(f"{updates},{perplexity:.2f}\n" for updates, perplexity in measured)
    curve.write_text("updates,perplexity\n" + rows)

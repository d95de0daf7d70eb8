"""Train a small model of `transformers` for a demo run; a run that was stopped continues from its last state."""

import shutil
from pathlib import Path

import torch

from ff_memories.base.errors import UserError
from ff_memories.base.parameters import Input, Output, Param, Threads
from ff_memories.config import read_yaml
from ff_memories.inputs.trained import training_transformers as training


def run(
    recipe: Input,
    train: Input,
    validation: Input,
    work: Param,
    threads: Threads,
    folder: Output,
    curve: Output,
    checkpoints: Output,
) -> None:
    """Train, and copy the checkpoints.

    Args:
        recipe: config/demo_gpt2_model.yaml, or one like it
        train, validation: raw text
        work: folder for checkpoints and the state of training
        folder: the trained model and its tokenizer
        curve: validation perplexity by updates, as CSV
        checkpoints: a folder like it for each of the recipe's checkpoints, named after its updates
    """
    torch.set_num_threads(threads)
    plan = read_yaml(recipe)
    measured = training.train(plan, train, validation, Path(work))
    for updates in plan["checkpoints"]:
        if not (Path(work) / str(updates)).is_dir():
            hint = f"correct the recipe's checkpoints, or remove {work} to train from the start"
            raise UserError(f"{work}: has no checkpoint {updates}, and the training is at its end", hint)
        shutil.copytree(Path(work) / str(updates), checkpoints / str(updates), dirs_exist_ok=True)
    shutil.copytree(Path(work) / str(plan["updates"]), folder, dirs_exist_ok=True)
    rows = "".join(f"{updates},{perplexity:.2f}\n" for updates, perplexity in measured)
    curve.write_text("updates,perplexity\n" + rows)

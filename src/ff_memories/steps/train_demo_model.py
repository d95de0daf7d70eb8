"""Train the demo run's language model with fairseq; a run that was stopped goes on where it was."""

import json
import shutil
from pathlib import Path

import yaml

from ff_memories.base.parameters import Input, Output, Param, Threads
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.text import sha256
from ff_memories.inputs import training


def run(
    recipe: Input,
    train: Input,
    validation: Input,
    work: Param,
    threads: Threads,
    checkpoint: Output,
    dictionary: Output,
    perplexities: Output,
    curve: Output,
) -> None:
    """Train, and measure what came of it.

    Args:
        recipe: config/demo_model.yaml
        work: folder for binarised text and checkpoints
        checkpoint: model.pt
        dictionary: dict.txt
        perplexities: perplexities.json
        curve: curve.csv: perplexity by updates
    """
    plan = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    text = Path(work) / f"text-{sha256([train, validation])[:12]}"  # another text is binarised anew
    options = plan["options"]
    training.binarise(train, validation, plan["dictionary"]["thresholdsrc"], text)
    last = training.train(text, options, Path(work) / "checkpoints", threads)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    training.shipped(last, checkpoint)
    shutil.copyfile(text / "dict.txt", dictionary)
    found = training.baselines(train, validation, Dictionary.read(dictionary))
    found["model"] = training.perplexity(text, checkpoint, options, threads)
    perplexities.write_text(json.dumps({k: round(v, 3) for k, v in found.items()}, indent=1) + "\n")
    curve.write_text(training.curve(Path(work) / "train.log"))
    print(perplexities.read_text())

"""Train the demo run's language model with fairseq; an interrupted training resumes from its last checkpoint."""

import json
import shutil
from pathlib import Path

from ff_memories.base.parameters import Input, Output, Param, Threads
from ff_memories.config import read_yaml
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.text import sha256
from ff_memories.inputs.trained import training


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
    """Train, and measure the perplexity.

    Args:
        recipe: the training options, config/demo_model.yaml
        work: folder for binarised text and checkpoints
        checkpoint: file to write: model.pt
        dictionary: file to write: dict.txt
        perplexities: file to write: perplexities.json
        curve: file to write: curve.csv, the validation perplexity by number of updates
    """
    plan = read_yaml(recipe)
    text = Path(work) / f"text-{sha256([train, validation])[:12]}"  # a new text gets a new folder
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

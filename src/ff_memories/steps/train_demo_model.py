"""Train the demo run's language model with fairseq; a run that was stopped goes on where it was."""

import argparse
import json
import shutil
from pathlib import Path

import yaml

from ff_memories.base.options import threads
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.text import sha256
from ff_memories.inputs import training


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recipe", required=True, type=Path, help="config/demo_model.yaml")
    parser.add_argument("--train", required=True, type=Path, help="text file")
    parser.add_argument("--validation", required=True, type=Path, help="text file")
    parser.add_argument("--work", required=True, type=Path, help="folder for binarised text and checkpoints")
    parser.add_argument("--threads", type=threads, default=2)
    parser.add_argument("--checkpoint", required=True, type=Path, help="model.pt to write")
    parser.add_argument("--dictionary", required=True, type=Path, help="dict.txt to write")
    parser.add_argument("--perplexities", required=True, type=Path, help="perplexities.json to write")
    parser.add_argument("--curve", required=True, type=Path, help="curve.csv to write: perplexity by updates")


def run(args: argparse.Namespace) -> None:
    recipe = yaml.safe_load(args.recipe.read_text(encoding="utf-8"))
    text = args.work / f"text-{sha256([args.train, args.validation])[:12]}"  # another text is binarised anew
    options = recipe["options"]
    training.binarise(args.train, args.validation, recipe["dictionary"]["thresholdsrc"], text)
    last = training.train(text, options, args.work / "checkpoints", args.threads)
    args.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    training.shipped(last, args.checkpoint)
    shutil.copyfile(text / "dict.txt", args.dictionary)
    found = training.baselines(args.train, args.validation, Dictionary.read(args.dictionary))
    found["model"] = training.perplexity(text, args.checkpoint, options, args.threads)
    args.perplexities.write_text(json.dumps({k: round(v, 3) for k, v in found.items()}, indent=1) + "\n")
    args.curve.write_text(training.curve(args.work / "train.log"))
    print(args.perplexities.read_text())

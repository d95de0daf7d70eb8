"""Make a trained model a demo run's input: check and copy it, pin its hashes in the config, track it with DVC."""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.inputs import model_folder
from ff_memories.model import checkpoint


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trained", type=Path, default=Path("results/train"), help="the folder that train_demo_model wrote"
    )
    parser.add_argument("--demo", type=Path, default=Path("data/demo"), help="the folder of the demo run's input")
    parser.add_argument(
        "--config", type=Path, default=Path("config/config.yaml"), help="the config file to pin the hashes in"
    )
    parser.add_argument(
        "--transformer",
        metavar="NAME",
        help="the model of `transformers` that train_transformer wrote to results/train/NAME, such as demo_gpt2; "
        "it becomes the input of the run config/NAME.yaml, with - for _",
    )


def run(args: argparse.Namespace) -> None:
    if args.transformer is not None:
        _promote_transformer(args.transformer)
        return
    description, _ = checkpoint.read(args.trained / "model.pt")
    if len(Dictionary.read(args.trained / "dict.txt")) != description.vocab:
        raise UserError(f"{args.trained}/dict.txt is not the dictionary of {args.trained}/model.pt")
    found = json.loads((args.trained / "perplexities.json").read_text())
    if found["model"] >= found["bigram"]:
        raise UserError(
            f"the model's validation perplexity, {found['model']}, is no better than a bigram's, {found['bigram']}",
            "train longer: raise max-update in config/demo_model.yaml",
        )
    args.demo.mkdir(parents=True, exist_ok=True)
    for name in ("model.pt", "dict.txt", "perplexities.json", "curve.csv"):
        shutil.copyfile(args.trained / name, args.demo / name)
    text = args.config.read_text()
    for name, key in (("model.pt", "sha256"), ("dict.txt", "dictionary_sha256")):
        digest = hashlib.sha256((args.demo / name).read_bytes()).hexdigest()
        text, n = re.subn(rf"(?m)^(model:\n(?:  .*\n)*?  {key}: ).*$", rf"\g<1>{digest}", text)
        if n != 1:
            raise UserError(f"{args.config}: no key model.{key} to pin", f"add `{key}: null` to its model section")
    args.config.write_text(text)
    _track(args.demo / "model.pt", args.demo / "dict.txt")
    print(f"{args.demo} now has the model with perplexity {found['model']}; publish it:\n  dvc push {args.demo}/*.dvc")


def _promote_transformer(name: str) -> None:
    """Copy results/train/NAME to data/NAME, with - for _, and pin its files in config/NAME.yaml."""
    trained, run = Path("results/train", name), name.replace("_", "-")
    config, folder = Path("config", f"{run}.yaml"), Path("data", run)
    files = model_folder.files_of(trained)
    model_folder.check(trained, "auto", str(trained))
    lines = [f"    {file}: {digest}\n" for file, digest in model_folder.digests(trained, files).items()]
    text, n = re.subn(r"(?m)^  files:\n(?:    .*\n)*", "  files:\n" + "".join(lines), config.read_text())
    if n != 1:
        raise UserError(f"{config}: no key model.files to pin", "add `files:` to its model section")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in files:
        shutil.copyfile(trained / file, folder / file)
    shutil.copyfile(trained.with_suffix(".csv"), folder.with_suffix(".csv"))
    config.write_text(text)
    _track(folder)
    print(f"{folder} now has the model; publish it:\n  dvc push {folder}.dvc")


def _track(*paths: Path) -> None:
    subprocess.run([Path(sys.executable).with_name("dvc"), "add", "--quiet", *paths], check=True)

"""Measure every checkpoint of the demo's GPT-2, one run after another, and draw them over the training's updates.

    python -m data.train_transformer gpt2       # an hour on two cores
    python -m data.training_steps               # two minutes a run

The atlas lies in ``results/training-steps``, and each run's config in its folder, ``results/demo-gpt2-<updates>``.
"""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from ff_memories import config
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.inputs import model_folder

BASE, DIFFERS = Path("config/demo-gpt2.yaml"), Path("config/training_steps.yaml")
RECIPE, CHECKPOINTS = Path("config/demo_gpt2_model.yaml"), Path("results/train/demo_gpt2-checkpoints")


def in_folder(folder: Path) -> dict[str, Any]:
    """Return a config's section on a model of ``transformers``, pinned by its files' digests."""
    return {"folder": folder.as_posix(), "files": model_folder.digests(folder, model_folder.files_of(folder))}


def write_config(base: Path, differs: Any, name: str, model: dict[str, Any], out: Path) -> None:
    """Write a run's config with another model, and other values for some keys.

    Args:
        differs: the keys with other values.
        name: is added to the run's.
        model: the section on the model.

    Raises:
        UserError: a section stands in one file where the other has a value, or the result is no config.
    """
    data = merged(config.read_yaml(base), differs, str(base))
    data["run"] = f"{data['run']}-{name}"
    data["model"] = model
    config.parse(data, str(base))
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    write_whole(out, f"# {base} with another model, and other values for some keys\n{text}")


def merged(base: Any, differs: Any, name: str) -> dict[str, Any]:
    """Return a config with other values for some of its keys."""
    if not isinstance(base, dict) or not isinstance(differs, dict):
        raise UserError(f"{name}: a section stands where the run's config has a value, or the other way round")
    out = dict(base)
    for key, value in differs.items():
        sections = isinstance(value, dict) or isinstance(base.get(key), dict)
        out[key] = merged(base[key], value, f"{name}: {key}") if sections and key in base else value
    return out


def measure(own: Path, *more: str) -> None:
    """Run what a config describes, as far as its claims; ``more``: other steps to run too."""
    snakemake = ["snakemake", "--cores", "all", "--resources", "gpu=1", "--configfile", str(own), "--", "claims"]
    subprocess.run([*snakemake, *more], check=True)


def main() -> None:
    checkpoints = [str(updates) for updates in config.read_yaml(RECIPE)["checkpoints"]]
    runs = [Path(f"results/demo-gpt2-{updates}") for updates in checkpoints]
    for run, updates in zip(runs, checkpoints, strict=True):
        own = run / "config.yaml"
        write_config(BASE, config.read_yaml(DIFFERS), updates, in_folder(CHECKPOINTS / updates), own)
        measure(own)
    atlas = ["ff-memories", "atlas", *map(str, runs), "--over", "updates", "--out", "results/training-steps"]
    subprocess.run(atlas, check=True)


if __name__ == "__main__":
    main()

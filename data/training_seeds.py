"""Train the demo's model with several seeds, and measure each of these models.

    snakemake --cores all -- docstrings    # the demo's text
    python -m data.training_seeds          # a quarter of an hour for each training on two cores, then minutes a run

``config/training_seeds.yaml`` names the seeds and the updates. ``results/train-seed-<seed>`` has each training, and
``results/demo-seed-<seed>`` its run. A training whose ``model.pt`` is there is not repeated.
"""

from pathlib import Path
from typing import Any

import yaml

from data.demo.train import train
from data.training_steps import measure, write_config
from ff_memories import config
from ff_memories.base.files import sha256, write_whole

STUDY, BASE, RECIPE = Path("config/training_seeds.yaml"), Path("config/config.yaml"), Path("config/demo_model.yaml")
TEXT = Path("data/docstrings")


def recipe(seed: int, updates: int) -> dict[str, Any]:
    """Return the demo's recipe with another seed, and a learning rate that reaches its end after so many updates."""
    demo = config.read_yaml(RECIPE)
    own = {"seed": seed, "total-num-update": updates, "max-update": updates}
    return demo | {"options": demo["options"] | own}


def trained(folder: Path) -> dict[str, Any]:
    """Return a config's section on the model that a training wrote, pinned by its files' digests."""
    files = {"checkpoint": folder / "model.pt", "dictionary": folder / "dict.txt"}
    digests = {"sha256": sha256(files["checkpoint"]), "dictionary_sha256": sha256(files["dictionary"])}
    return {"source": None} | {key: path.as_posix() for key, path in files.items()} | digests


def main() -> None:
    study = config.read_yaml(STUDY)
    for seed in study["seeds"]:
        folder = Path(f"results/train-seed-{seed}")
        if not (folder / "model.pt").is_file():
            write_whole(folder / "recipe.yaml", yaml.safe_dump(recipe(seed, study["updates"]), sort_keys=False))
            train(folder / "recipe.yaml", TEXT / "train.txt", TEXT / "validation.txt", folder)
        own = Path(f"results/demo-seed-{seed}/config.yaml")
        write_config(BASE, study["differs"], f"seed-{seed}", trained(folder), own)
        measure(own)


if __name__ == "__main__":
    main()

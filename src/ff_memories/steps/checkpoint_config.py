"""Write the config of the run of one checkpoint: a whole run's config, with another model and other sizes."""

from typing import Any

import yaml

from ff_memories import config
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import Input, Output, Wildcard
from ff_memories.inputs.models import model_folder


def run(base: Input, differs: Input, checkpoints: Input, updates: Wildcard, out: Output) -> None:
    """Put the checkpoint and the differences into the base, and pin the checkpoint's files by their digests.

    Args:
        base: the config of a whole run, such as config/demo-gpt2.yaml
        differs: the keys that differ, such as config/training_steps.yaml
        checkpoints: a folder of models of `transformers`, each in a folder named after its updates
        updates: the checkpoint, such as 512
        out: the config to write
    """
    data = merged(config.read_yaml(base), config.read_yaml(differs), str(differs))
    folder = checkpoints / updates
    data["run"] = f"{data['run']}-{updates}"
    data["model"] = {"folder": folder.as_posix(), "files": model_folder.digests(folder, model_folder.files_of(folder))}
    _ = config.parse(data, str(differs))
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    write_whole(out, f"# {base} at the checkpoint {updates}, with the keys of {differs}\n{text}")


def merged(base: Any, differs: Any, name: str) -> dict[str, Any]:
    """Return a config with other values for some of its keys.

    Raises ``UserError`` unless both are sections with keys.
    """
    if not isinstance(base, dict) or not isinstance(differs, dict):
        raise UserError(f"{name}: a section stands where the run's config has a value, or the other way round")
    out = dict(base)
    for key, value in differs.items():
        sections = isinstance(value, dict) or isinstance(base.get(key), dict)
        out[key] = merged(base[key], value, f"{name}: {key}") if sections and key in base else value
    return out

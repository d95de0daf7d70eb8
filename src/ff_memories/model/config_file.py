"""A model's config.json, read as data: nothing in it may name code that `transformers` would load."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError

LARGEST = 1 << 20  # bytes
EXPERTS = re.compile(r"(num_local|num|n_routed|moe_num)_experts")
CODE = re.compile(r"auto_map|custom_pipelines|.*(attn|experts)_implementation.*")


def read(folder: Path) -> dict[str, Any]:
    """Return the content of a folder's config.json.

    Raises:
        UserError: there is none, it is no JSON object, it names code, or the weights are quantised.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise UserError(f"{path}: no such file", "give the folder that `transformers` saved the model in")
    if path.stat().st_size > LARGEST:
        raise UserError(f"{path}: larger than {LARGEST >> 20} MiB, which no config.json is")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as fault:
        raise UserError(f"{path}: no JSON ({fault})") from None
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        raise UserError(f"{path}: no JSON object with a model_type", "give the config.json that `transformers` saved")
    for key, value in _entries(content):
        if not value or isinstance(value, bool):
            continue
        if CODE.fullmatch(key):
            raise UserError(f"{path}: {key} names code, and no code of a model's is run", f"remove {key} from the file")
        if key == "quantization_config":
            raise UserError(f"{path}: the weights are quantised", "give the model in float32, float16 or bfloat16")
        if EXPERTS.fullmatch(key) and isinstance(value, int) and value > 1:
            raise UserError(
                f"{path}: a mixture of experts ({key}: {value}); which memories exist depends on the token",
                "use a dense model",
            )
    return content


def _entries(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield the entries of an object and of those within it."""
    if isinstance(content, list):
        for part in content:
            yield from _entries(part)
    elif isinstance(content, dict):
        for name, part in content.items():
            yield name, part
            yield from _entries(part)

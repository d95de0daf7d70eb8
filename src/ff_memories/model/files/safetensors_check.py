"""Which safetensors a folder with a model has, and what is wrong with them, in words of the field and with a way out.

`safetensors` refuses a header that is not its file's; `transformers` compares names and shapes with the model of
config.json before it takes memory for weights (``transformer.load.check``).
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from safetensors import SafetensorError, safe_open

from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
SCANNED = 1 << 30  # bytes of weights that are read before a run, which takes about a second
FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}  # their names in torch
_INNER = "_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module"
WRAPPERS = (rf"^(?:(?:module|{_INNER})\.)+", rf"(?<=\.)(?:{_INNER})\.")  # of torch: no names of a model's weights
CONSTANTS = re.compile(r"\.attn\.(bias|masked_bias)$|rotary_emb\.inv_freq$")  # that older versions saved with weights
AGAIN = "fetch the model's files again, or save it again with model.save_pretrained(folder)"
PLAIN = "give the model in float32, float16 or bfloat16"


class Index(BaseModel):
    """Which file holds each tensor."""

    weight_map: dict[str, str]


def files(folder: Path) -> list[Path]:
    """Return the safetensors that hold a folder's weights, as `transformers` chooses them; some may be missing."""
    if (folder / SINGLE).exists():
        return [folder / SINGLE]
    return [folder / name for name in sorted(shards(folder / INDEX))] if (folder / INDEX).exists() else []


def shards(index: Path) -> set[str]:
    """Return the names of the files that an index of weights names. Raises ``UserError`` where it is no index."""
    names = {*foreign.read_json(index, Index, "fetch the file again").weight_map.values()}
    for name in names:
        if "/" in name or not name.endswith(".safetensors"):
            raise UserError(f"{index}: names {name!r}, which is not a safetensors file beside it", AGAIN)
    return names


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    require_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: cut, damaged, or not safetensors ({error})", AGAIN) from None


def kinds(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the type of each of a folder's weights. Raises ``UserError`` for a damaged file."""
    for path in files(folder):
        with _opened(path) as file:
            for name in file.keys():  # noqa: SIM118
                if not CONSTANTS.search(name):
                    yield name, file.get_slice(name).get_dtype()


def refuse_odd_numbers(folder: Path) -> None:
    """Raise ``UserError`` for weights that are infinite or no numbers; more than ``SCANNED`` bytes are not read."""
    paths = [path for path in files(folder) if path.is_file()]
    for path in paths if sum(path.stat().st_size for path in paths) <= SCANNED else ():
        with _opened(path) as file:
            for name in file.keys():  # noqa: SIM118
                if not file.get_tensor(name).isfinite().all():
                    raise UserError(f"{path}: {name} has weights that are infinite or no numbers", "use another model")


def refuse_others(told: Mapping[str, Any], kind: str, where: str) -> None:
    """Raise ``UserError`` for weights that are not those of the model that config.json describes.

    ``told``: what `transformers` says of loading them (``output_loading_info``); ``kind``: the model's class.
    """
    more = sorted(name for name in told["unexpected_keys"] if not CONSTANTS.search(name))
    if lacking := sorted(told["missing_keys"]):
        besides = f", but have {more[0]}" if more else ""
        raise UserError(f"{where}: the weights lack {lacking[0]}{besides}", AGAIN)
    if more:
        raise UserError(f"{where}: has {more[0]}, which no {kind} of this config.json has", AGAIN)
    for name, stored, wanted in sorted(told["mismatched_keys"]):
        raise UserError(f"{where}: {name} is {tuple(stored)}, by config.json {tuple(wanted)}", AGAIN)
    if faults := sorted(map(str, told["error_msgs"])):
        raise UserError(f"{where}: {faults[0][:200]}", AGAIN)

"""A shard's lists as a file, read back exactly as they were."""

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import atomic_write, require_file
from ff_memories.memories.search.topk import COLUMNS, Entries, TopTriggers


def save(best: TopTriggers, path: str | Path) -> None:
    """Write the lists of a shard, whole or not at all."""
    best.finish()
    every = Entries.cat(best.lists)
    arrays = {name: getattr(every, name).cpu().contiguous() for name in COLUMNS}
    arrays |= {"length": torch.tensor([len(entries) for entries in best.lists]), "fired": best.fired.cpu()}
    shape = {"keys": best.keys, "top": best.top, "copies": best.copies, "precision": best.precision}
    shape |= {} if best.neurons is None else {"neurons": best.neurons}
    with atomic_write(path) as partial:
        save_file(arrays, partial, metadata={"shape": json.dumps(shape)})  # one entry: several come in any order


def merged(paths: Sequence[Path]) -> TopTriggers:
    """Read and merge the lists of all shards."""
    best = load(paths[0])
    for path in paths[1:]:
        best.merge(load(path))
    return best


def load(path: str | Path) -> TopTriggers:
    """Read the lists of a shard. Raises ``UserError`` when the file is missing or damaged."""
    require_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            shape = json.loads(file.metadata()["shape"])
            columns = [file.get_tensor(name) for name in COLUMNS]
            lengths, fired = file.get_tensor("length").tolist(), file.get_tensor("fired")
        best = TopTriggers(len(lengths), **shape)
        best.fired += fired
        for layer, parts in enumerate(zip(*(c.split(lengths) for c in columns), strict=True)):
            best.offer(layer, Entries(*parts))
        best.finish()
    except (OSError, KeyError, ValueError, AttributeError, TypeError, RuntimeError, SafetensorError) as error:
        raise UserError(f"{path}: not a readable shard ({error})", rebuild_hint(path)) from None
    return best

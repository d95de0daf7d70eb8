"""Where a shard stands, kept beside its output now and then: a shard that was killed goes on from there.

The numbers come out the same to the last bit, for the state holds all that the pass has gathered, and batches are
planned anew from the corpus alone. A state names what it was made from and for; one of anything else is not used.
"""

import contextlib
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from ff_memories.base.files import atomic_write
from ff_memories.memories.search.topk import COLUMNS, Entries, TopTriggers


def fingerprint(files: list[str | Path], **choices: Any) -> str:
    """Return a digest of what a shard's result depends on: the content of files, and choices as plain data."""
    whole = hashlib.sha256(json.dumps(choices, sort_keys=True).encode())
    for path in files:
        with open(path, "rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


class Checkpoint:
    """One shard's state in a file.

    Args:
        out: the shard's output; the state lies beside it as ``<out>.state``.
        made_from: the ``fingerprint`` of what it is made from.
        every: seconds between two writes.
    """

    def __init__(self, out: str | Path, made_from: str, every: float = 60):
        self.path = Path(f"{out}.state")
        self.made_from, self.every = made_from, every
        self._last = time.monotonic()

    def resume(self, best: TopTriggers) -> int:
        """Take up the state of a run that was stopped; return how many batches it had done, 0 without one."""
        try:
            with safe_open(self.path, framework="pt", device=str(best.gate.device)) as file:
                told = json.loads(file.metadata()["told"])
                if told["made_from"] != self.made_from:
                    return 0
                lengths, listed = (file.get_tensor(name).tolist() for name in ("length", "listed"))
                columns = [file.get_tensor(name).split(lengths) for name in COLUMNS]
                fired = file.get_tensor("fired")
                best.restore([Entries(*parts) for parts in zip(*columns, strict=True)], file.get_tensor("gate"), listed)
                best.fired = fired
                return told["batches"]
        except (OSError, SafetensorError, KeyError, TypeError, ValueError):
            return 0  # none, or not a state: begin at the beginning

    def step(self, best: TopTriggers, batches: int) -> None:
        """Write the state after so many batches, where it is time to."""
        if time.monotonic() - self._last < self.every:
            return
        held, gate, listed = best.state()
        every = Entries.cat(held)
        arrays = {name: getattr(every, name).contiguous() for name in COLUMNS}
        arrays |= {
            "fired": best.fired,
            "gate": gate,
            "length": torch.tensor([len(e) for e in held]),
            "listed": torch.tensor(listed),
        }
        with atomic_write(self.path) as partial:
            save_file(arrays, partial, metadata={"told": json.dumps({"made_from": self.made_from, "batches": batches})})
        self._last = time.monotonic()

    def remove(self) -> None:
        """Remove the state: the shard is done."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()

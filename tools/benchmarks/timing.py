"""Times side by side: methods take turns batch by batch, so that whatever else the machine does falls on all alike."""

import ctypes
import gc
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class Measured:
    """Medians over rounds, with the smallest and largest."""

    value: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, values: list[float]) -> "Measured":
        return cls(statistics.median(values), min(values), max(values), len(values))


def clock() -> float:
    """Return the time, once the device is done with what it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def in_turns(
    methods: Mapping[str, Callable[[Any], object]],
    batches: Iterable[Any],
    ends: Mapping[str, Callable[[], object]] | None = None,
) -> dict[str, float]:
    """Return {method: seconds} over all batches; ``ends`` are called last, and count."""
    seconds, names = dict.fromkeys(methods, 0.0), list(methods)
    with torch.inference_mode():
        for i, batch in enumerate(batches):
            for name in names[i % len(names) :] + names[: i % len(names)]:
                begun = clock()
                methods[name](batch)
                seconds[name] += clock() - begun
        for name, end in (ends or {}).items():
            begun = clock()
            end()
            seconds[name] += clock() - begun
    return seconds


def ratio(rounds: list[dict[str, float]], above: str, below: str) -> Measured:
    return Measured.of([seconds[above] / seconds[below] for seconds in rounds])


@contextmanager
def peak_memory(device: torch.device) -> Iterator[list[float]]:
    """Yield a list that holds, after the block, how many bytes more than before were in use at once."""
    gc.collect()
    out: list[float] = []
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = float(torch.cuda.memory_allocated())
        yield out
        out.append(float(torch.cuda.max_memory_allocated()) - before)
        return
    ctypes.CDLL(None).malloc_trim(0)  # else what was freed before counts as in use, and new use of it as none (glibc)
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew (Linux)
    before = _status("VmRSS")
    yield out
    out.append(_status("VmHWM") - before)


def _status(name: str) -> float:
    line = next(t for t in Path("/proc/self/status").read_text().splitlines() if t.startswith(name + ":"))
    return float(line.split()[1]) * 1024

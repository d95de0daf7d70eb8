"""Choose sizes of a run's samples with which it ends in a given time, and say what was cut."""

import math
from collections.abc import Callable, Iterator
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.base.progress import duration
from ff_memories.config import Config, parse
from ff_memories.workflow import estimate
from ff_memories.workflow.planning import Planner

# The keys that are cut, and the least that still says something. All of a group are cut by one share of the way, on a
# logarithmic scale, from what the config has to their least. Memories are cut only if samples do not suffice: without
# some of its memories, a run still needs the predictions of all values, for section 5.
SAMPLES = {
    "corpus.train.max_sentences": 500,
    "mutations.keys_per_layer": 4,
    "mutations.top": 10,
    "composition.examples": 100,
    "gallery.keys": 5,
    "causal.keys_per_layer": 2,
    "removals.prefixes": 20,
    "baselines.sentences": 200,
    "baselines.keys_per_layer": 2,
    "baselines.examples": 100,
    "baselines.models": 3,
}
MEMORIES = {"triggers.keys": 32}
LEAST = SAMPLES | MEMORIES
STEPS = 24  # of the bisection
SPARE = 1.1  # of the least time, since a second measurement of the machine differs from the first
ROOM = 0.9  # of the time, because a plan is an estimate


def fit(data: dict[str, Any], planner: Planner, wanted: float, name: str) -> list[str]:
    """Lower the sizes of a config's samples until its run ends in a given time on this machine.

    Args:
        data: the config, changed in place.
        planner: of the same run.
        wanted: seconds.
        name: of the config, in messages.

    Returns:
        Lines that say how long the run takes, what was cut, and how wide the intervals of shares become.

    Raises:
        UserError: even the smallest samples take longer.
    """
    config: Config = parse(data, name)
    whole = {key: full for key in LEAST if isinstance(full := _whole(key, config, planner), int)}
    takes = lambda shares: _elapsed(_with(data, _sizes(whole, shares)), planner, name)
    limit = ROOM * wanted
    if takes({}) <= limit:
        return [f"the run takes about {duration(takes({}))} here: nothing was cut"]
    ladder: tuple[Callable[[float], dict[str, float]], ...] = (
        lambda share: dict.fromkeys(SAMPLES, share),
        lambda share: dict.fromkeys(SAMPLES, 0.0) | dict.fromkeys(MEMORIES, share),
    )
    shares = next((rung for rung in ladder if takes(rung(0.0)) <= limit), None)
    if shares is None:
        least = min(takes(rung(0.0)) for rung in ladder)
        raise UserError(
            f"the run takes about {duration(least)} here with the smallest samples, more than nine tenths of "
            f"{duration(wanted)}",
            f"allow --time {math.ceil(SPARE * least / ROOM / 60)}m or more, or use a smaller model or a faster machine",
        )
    sizes = _sizes(whole, shares(_bisect(lambda share: takes(shares(share)) <= limit)))
    for key, value in sizes.items():
        _put(data, key, value)
    return [f"the run takes about {duration(_elapsed(data, planner, name))} here; to end in {duration(wanted)}:",
            *_said(sizes, whole, planner)]  # fmt: skip


def _elapsed(data: dict[str, Any], planner: Planner, name: str) -> float:
    config: Config = parse(data, name)
    return estimate.elapsed(planner.steps(config), planner.here)


def _bisect(fits: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _whole(key: str, config: Config, planner: Planner) -> Any:
    """Return what a key stands at: its own value, or all that there is; a list of memories is no number."""
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    keys = planner.shape.keys // planner.shape.signs
    if key == "corpus.train.max_sentences":
        every = max(1, planner.tokens["train"] // planner.sentence)
        return min(every, value or every)
    chosen = key in ("gallery.keys", "triggers.keys") and not isinstance(value, dict)
    return min(keys, value or keys) if chosen else value


def _sizes(whole: dict[str, int], shares: dict[str, float]) -> dict[str, int]:
    """Return the cut keys' values at shares of the way from their least (0) to the whole (1)."""
    out = {}
    for key, full in whole.items():
        least, share = LEAST[key], shares.get(key, 1.0)
        if full > least and share < 1 and (size := round(least * (full / least) ** share)) < full:
            out[key] = size
    shown = out.get("gallery.keys", whole.get("gallery.keys", 0))
    if shown > (looked := out.get("triggers.keys", shown)):
        out["gallery.keys"] = looked
    return out


def _with(data: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    made = {name: dict(part) if isinstance(part, dict) else part for name, part in data.items()}
    made["corpus"]["train"] = dict(made["corpus"]["train"])
    for key, value in sizes.items():
        _put(made, key, value)
    return made


def _put(data: dict[str, Any], key: str, value: int) -> None:
    *sections, last = key.split(".")
    for name in sections:
        data = data.setdefault(name, {})
    data[last] = value


def _said(sizes: dict[str, int], whole: dict[str, int], planner: Planner) -> Iterator[str]:
    """Yield a line for each key that was cut; those of numbers of units with the width of a share's interval."""
    units = {
        "triggers.keys": ("memories", planner.shape.layers * planner.shape.signs),
        "composition.examples": ("prefixes", 1),
        "baselines.examples": ("prefixes", 1),
    }
    for key, size in sizes.items():
        what, times = units.get(key, ("", 0))
        width = 98 / math.sqrt(size * times) if times else 0.0  # points: 1.96 standard errors of a half
        tells = f"; a share of {size * times:,} {what} is known to about ± {width:.1f} points" if times else ""
        yield f"  {key}: {size:,} instead of {whole[key]:,}{tells}"

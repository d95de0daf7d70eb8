"""Choose sizes of a run's samples with which it ends in a given time, and say what was cut."""

import math
from collections.abc import Iterator
from copy import deepcopy
from functools import reduce
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.base.progress import duration
from ff_memories.config import Config, parse
from ff_memories.workflow.planning import Planner

# The keys that are cut, and the least that still says something. All are cut by one share of the way, on a logarithmic
# scale, from what the config has to their least. Memories are cut only if samples do not suffice: without some of its
# memories, a run still needs the predictions of all values, for section 5.
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
    whole = {key: size for key in LEAST if isinstance(size := _whole(key, config, planner), int)}
    takes = lambda place: planner.elapsed(parse(_cut(data, _sizes(whole, place)), name))
    if takes(2) <= ROOM * wanted:
        return [f"the run takes about {duration(takes(2))} here: nothing was cut"]
    if (least := min(takes(0), takes(1))) > ROOM * wanted:
        raise UserError(
            f"the run takes about {duration(least)} here with the smallest samples, more than nine tenths of "
            f"{duration(wanted)}",
            f"allow --time {math.ceil(SPARE * least / ROOM / 60)}m or more, or use a smaller model or a faster machine",
        )
    low, high = 0.0, 2.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if takes(middle) <= ROOM * wanted else (low, middle)
    sizes = _sizes(whole, low)
    data |= _cut(data, sizes)
    return [f"the run takes about {duration(takes(low))} here; to end in {duration(wanted)}:",
            *_said(sizes, whole, planner)]  # fmt: skip


def _whole(key: str, config: Config, planner: Planner) -> Any:
    """Return what a key stands at: its own value, or all that there is; a list of memories is no number."""
    value: Any = reduce(getattr, key.split("."), config)
    if key == "corpus.train.max_sentences":
        every = max(1, planner.text.train // planner.text.sentence)
        return min(every, value or every)
    keys = planner.shape.keys // planner.shape.signs
    return min(keys, value or keys) if key.endswith(".keys") and not isinstance(value, dict) else value


def _sizes(whole: dict[str, int], place: float) -> dict[str, int]:
    """Return the cut keys' values: from 2 to 1, samples go to their least, from 1 to 0 the memories looked at."""
    out = {}
    for key, size in whole.items():
        share, least = min(1.0, place) if key in MEMORIES else max(0.0, place - 1), LEAST[key]
        if size > least and (cut := round(least * (size / least) ** share)) < size:
            out[key] = cut
    if "triggers.keys" in out and out.get("gallery.keys", whole.get("gallery.keys", 0)) > out["triggers.keys"]:
        out["gallery.keys"] = out["triggers.keys"]
    return out


def _cut(data: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    """Return a config with other sizes."""
    made = deepcopy(data)
    for key, size in sizes.items():
        *sections, last = key.split(".")
        reduce(lambda place, section: place.setdefault(section, {}), sections, made)[last] = size
    return made


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

"""Which memories a run looks at (``triggers.keys``) and which its gallery shows (``gallery.keys``)."""

from itertools import islice
from typing import Any

import numpy as np
import polars as pl

from ff_memories.base.draws import generator
from ff_memories.base.errors import UserError

Asked = int | dict[int, list[int]] | None  # what the config says: how many of each layer, or which; None for all


def looked_at(asked: Asked, layers: int, neurons: int, signs: int, settings: Any) -> list[tuple[int, int]] | None:
    """Return (layer, key) of the memories that a run looks at (``triggers.keys``), all their signs; ``None`` for all.

    Key ``d_m + i`` is memory i with its sign changed. Every layer has its own random stream, and a smaller sample is
    part of a larger one. The seed of ``settings`` is read only if there is one to draw. Raises ``UserError`` if there
    are not so many memories, or no such one.
    """
    if asked is None:
        return None
    if isinstance(asked, int):
        _refuse_more(asked, neurons, "triggers.keys", "look at all memories")
        draws = (generator(settings.seed, f"trigger keys of layer {layer}") for layer in range(1, layers + 1))
        chosen = [np.sort(draw.permutation(neurons)[:asked]) for draw in draws]
    else:
        chosen = _listed(asked, layers, neurons, "triggers.keys")
    return [
        (layer, int(memory) + sign * neurons)
        for layer, layer_memories in enumerate(chosen, 1)
        for sign in range(signs)
        for memory in layer_memories
    ]


def shown(
    asked: Asked, looked_at: pl.DataFrame, causal: pl.DataFrame, layers: int, neurons: int, seed: int
) -> pl.DataFrame:
    """Return the keys that the gallery shows (``gallery.keys``): ``layer``, ``key``, sorted.

    A random sample gains the memories of the table ``causal``: their pages then show what removing them does. A layer
    with fewer keys gives all of them; both signs of a memory that the run looked at are two. Raises ``UserError`` for a
    memory that the run did not look at, or more than there are.
    """
    memory = pl.col("key").cast(pl.Int64) % neurons
    keys = looked_at.select("layer", "key").unique().sort("layer", "key").with_columns(memory=memory)
    if asked is None:
        return keys.drop("memory")
    in_run = {layer: set(part["memory"]) for (layer,), part in keys.group_by("layer", maintain_order=True)}
    if isinstance(asked, int):
        _refuse_more(asked, neurons, "gallery.keys", "show all memories that the run looked at")
        wanted = set(causal.select("layer", memory).iter_rows())
        for layer, numbers in in_run.items():
            order = generator(seed, f"gallery keys of layer {layer}").permutation(neurons).tolist()
            wanted |= {(layer, number) for number in islice(filter(numbers.__contains__, order), asked)}
    else:
        listed = enumerate(_listed(asked, layers, neurons, "gallery.keys"), 1)
        wanted = {(layer, number) for layer, numbers in listed for number in numbers.tolist()}
        for layer, number in sorted(wanted):
            if number not in in_run.get(layer, ()):
                hint = "list it in triggers.keys too, or leave it out"
                raise UserError(f"gallery.keys: the run did not look at memory {number} of layer {layer}", hint)
    chosen = pl.DataFrame(sorted(wanted), schema={"layer": keys.schema["layer"], "memory": pl.Int64}, orient="row")
    return keys.join(chosen, on=["layer", "memory"], how="semi", maintain_order="left").drop("memory")


def _refuse_more(asked: int, neurons: int, name: str, otherwise: str) -> None:
    if asked > neurons:
        hint = f"lower it, or leave it out to {otherwise}"
        raise UserError(f"{name}: {asked:,} is more than the {neurons:,} memories of a layer", hint)


def _listed(asked: dict[int, list[int]], layers: int, neurons: int, name: str) -> list[np.ndarray]:
    """Return the memories that a config lists, by layer. Raises ``UserError`` for one that the model does not have."""
    if beyond := [layer for layer in asked if not 1 <= layer <= layers]:
        raise UserError(f"{name}: there is no layer {beyond[0]}", f"the model has the layers 1 to {layers}")
    for layer, listed in asked.items():
        if max(listed) >= neurons:
            hint = f"its memories are 0 to {neurons - 1}"
            raise UserError(f"{name}: layer {layer} has no memory {max(listed)}", hint)
    return [np.array(sorted(asked.get(layer, [])), dtype=np.int64) for layer in range(1, layers + 1)]


def of_model(asked: Asked, decoder: Any, settings: Any) -> list[tuple[int, int]] | None:
    """Return what a run looks at in a model, as of ``looked_at``."""
    return looked_at(asked, decoder.description.layers, decoder.description.keys, decoder.signs, settings)


def count(asked: Asked, decoder: Any) -> int:
    """Return how many keys a run looks at in a model, both signs of a memory as two."""
    if isinstance(asked, dict):
        return decoder.signs * sum(map(len, asked.values()))
    return decoder.description.layers * (decoder.memories if asked is None else decoder.signs * asked)


def rows(shown: list[tuple[int, int]] | pl.DataFrame | None, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a frame with ``layer`` and ``key`` that belong to some keys; all for ``None``."""
    if shown is None:
        return frame
    if isinstance(shown, list):
        schema = {name: frame.schema[name] for name in ("layer", "key")}
        shown = pl.DataFrame(shown, schema=schema, orient="row")
    return frame.join(shown, on=["layer", "key"], how="semi", maintain_order="left")

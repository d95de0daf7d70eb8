"""One block of a model, read by hooks.

Sentences run packed (``packed``); where a family takes no attention function of ours, those of equal length together.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from ff_memories.model.batches import packed
from ff_memories.model.batches.prefix_tree import Level
from ff_memories.model.decoder import Batch, LayerOutput
from ff_memories.model.families.families import Family
from ff_memories.model.matmul import widened
from ff_memories.model.transformer.describe import rows_of, scale_of

Arguments = tuple[tuple[Any, ...], dict[str, Any]]  # what a model gives a layer besides its input


class Stop(Exception):
    """Ends a layer at its coefficients."""


class State(threading.local):
    """What one thread's run is about: set by ``embed``, read by the layers.

    ``factor``: what our attention rounds its factors to; ``None``: to nothing.
    """

    def __init__(self, factor: torch.dtype | None = None) -> None:
        self.factor = factor
        self.arguments: list[Arguments] = []  # of each layer
        self.groups: list[tuple[slice, int, list[Arguments]]] = []  # rows of equal sentences, their length, the same
        self.rows = 0
        self.seen: dict[str, torch.Tensor] = {}
        self.last = False


class Layer:
    """One block of the model, read by hooks: ``handles`` remove them."""

    def __init__(self, module: Any, family: Family, index: int, state: State, signs: int):
        self.module, self.family, self.index, self.state, self.signs = module, family, index, state, signs
        self.down = module.get_submodule(family.down)
        self.after = None if family.norm_after is None else module.get_submodule(family.norm_after)
        self.handles = [
            self.down.register_forward_pre_hook(self._coefficients),
            (self.down if self.after is None else self.after).register_forward_hook(self._update),
        ]
        if family.reads is not None:
            self.handles.append(module.get_submodule(family.reads).register_forward_pre_hook(self._residual))

    def _residual(self, _: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        self.state.seen["residual"] = args[0]

    def _coefficients(self, _: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        self.state.seen["coefficients"] = args[0]
        if self.state.last:
            raise Stop

    def _update(self, _: nn.Module, args: tuple[torch.Tensor, ...], out: torch.Tensor) -> None:
        self.state.seen["update"] = out

    @property
    def keys(self) -> torch.Tensor:
        """(d_m, d): key i is row i. Of a gated layer (d_m, 2 d): row i of the gate, then that of ``up``."""
        up = rows_of(self.module.get_submodule(self.family.up))
        if self.family.fused:
            return torch.cat(up.chunk(2), 1)
        if self.family.gate is None:
            return up
        return torch.cat([rows_of(self.module.get_submodule(self.family.gate)), up], 1)

    @property
    def values(self) -> torch.Tensor:
        """(memories, d): value i is row i; with both signs, -v_i is row d_m + i.

        Behind a norm a value is multiplied by that norm's scale: what the model adds is a positive multiple of it.
        """
        v = self.added
        return v if self.after is None else v * scale_of(self.after, v.shape[1])

    @property
    def added(self) -> torch.Tensor:
        """(memories, d): what each memory adds to m V; a value before the norm behind it, if there is one."""
        v = rows_of(self.down).t()
        return torch.cat([v, -v]) if self.signs == 2 else v

    def behind(self, m: torch.Tensor) -> tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor] | None:
        """Return the norm behind the feed-forward layer and what it takes, m V + b2 (rows, d); ``None`` without one."""
        if self.after is None:
            return None
        down, norm = self.down, self.after
        return lambda h: widened(norm(h.to(norm.weight.dtype))), widened(down(m.to(down.weight.dtype)))

    def __call__(
        self,
        x: torch.Tensor,
        batch: Batch | Level,
        *,
        last: bool = False,
        needed: int | None = None,
        out: torch.Tensor | None = None,
    ) -> LayerOutput:
        """Run the layer; arguments and result as of ``decoder.Layer``.

        A gated layer computes its coefficients in memory of its own, so ``out`` is not used.
        """
        found = self._over(x, batch, last)
        m = widened(found["coefficients"])
        if "output" not in found:
            return LayerOutput(found.get("residual", x), m, x[:0], x[:0])
        o, y = found["output"], found["update"]
        return LayerOutput(found["residual"] if "residual" in found else o - y, m, y[:needed], o[:needed])

    def _over(self, x: torch.Tensor, batch: Batch | Level, last: bool) -> dict[str, torch.Tensor]:
        """Return what the hooks read, (rows, n) each, and if not last o, for the layer's input (rows, d)."""
        fit = partial(_first_rows, rows=len(x), of=self.state.rows)
        args, kwargs = self.state.arguments[self.index]
        with packed.over(batch, self.state.factor):
            found = self.run(
                x[None], (tuple(map(fit, args)), {name: fit(given) for name, given in kwargs.items()}), last
            )
        return {name: part.flatten(0, -2) for name, part in found.items()}

    def run(self, x: torch.Tensor, arguments: Arguments, last: bool) -> dict[str, torch.Tensor]:
        """Run the model's own layer on (sentences, tokens, d); return what the hooks read and, if not last, o."""
        self.state.seen, self.state.last = {}, last
        args, kwargs = arguments
        try:
            found = self.module(x, *args, **kwargs)
            self.state.seen["output"] = found[0] if isinstance(found, tuple) else found
        except Stop:
            pass
        finally:
            self.state.last = False
        return self.state.seen


class GroupedLayer(Layer):
    """A block of a model that takes no attention function: sentences of each length run together, and no forest."""

    def _update(self, _: nn.Module, args: tuple[torch.Tensor, ...], out: torch.Tensor) -> None:
        super()._update(_, args, out.clone())  # Falcon adds attention to it in place

    def _over(self, x: torch.Tensor, batch: Batch | Level, last: bool) -> dict[str, torch.Tensor]:
        parts = [
            self.run(x[rows].unflatten(0, (-1, length)), arguments[self.index], last)
            for rows, length, arguments in self.state.groups
        ]
        return {n: torch.cat([part[n].flatten(0, -2) for part in parts]) for n in parts[0]}


def _first_rows(given: Any, rows: int, of: int) -> Any:
    """Return an argument of a layer for its first rows: tensors with a row per token are cut, others are not."""
    if rows == of:
        return given
    if isinstance(given, tuple):
        return tuple(_first_rows(part, rows, of) for part in given)
    if isinstance(given, torch.Tensor):
        if given.dim() > 1 and given.shape[1] == of:
            return given[:, :rows]
        if given.dim() == 1 and given.shape[0] == of:
            return given[:rows]
    return given

"""A model of `transformers` read by hooks: its blocks, and the loop around them.

Sentences go in as batches, and every layer shows what it computes. They run packed (``packed``); where a family takes
no attention function of ours, those of equal length together.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ff_memories.base import arithmetic
from ff_memories.base.arithmetic import Precision
from ff_memories.base.errors import UserError
from ff_memories.model.batches import packed
from ff_memories.model.batches.prefix_tree import PrefixTree
from ff_memories.model.decoder import Batch, LanguageModel, LayerOutput, Rows
from ff_memories.model.families import Family
from ff_memories.model.matmul import linear, widened
from ff_memories.model.transformer import describe
from ff_memories.model.vocabulary import Vocabulary

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
        self.seen: dict[str, Tensor] = {}
        self.last = False


class HookedLayer:
    """One block of the model, read by hooks: ``handles`` remove them.

    Where the model takes no attention function, sentences of each length run together, and no forest.
    """

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

    def _residual(self, _: nn.Module, args: tuple[Tensor, ...]) -> None:
        self.state.seen["residual"] = args[0]

    def _coefficients(self, _: nn.Module, args: tuple[Tensor, ...]) -> None:
        self.state.seen["coefficients"] = args[0]
        if self.state.last:
            raise Stop

    def _update(self, _: nn.Module, args: tuple[Tensor, ...], out: Tensor) -> None:
        self.state.seen["update"] = out if self.family.packed else out.clone()  # Falcon adds attention to it in place

    @property
    def keys(self) -> Tensor:
        """(d_m, d): key i is row i. Of a gated layer (d_m, 2 d): row i of the gate, then that of ``up``."""
        up = describe.rows_of(self.module.get_submodule(self.family.up))
        if self.family.fused:
            return torch.cat(up.chunk(2), 1)
        if self.family.gate is None:
            return up
        return torch.cat([describe.rows_of(self.module.get_submodule(self.family.gate)), up], 1)

    @property
    def values(self) -> Tensor:
        """(memories, d): value i is row i; with both signs, -v_i is row d_m + i.

        Behind a norm a value is multiplied by that norm's scale: what the model adds is a positive multiple of it.
        """
        v = self.added
        return v if self.after is None else v * describe.scale_of(self.after, v.shape[1])

    @property
    def added(self) -> Tensor:
        """(memories, d): what each memory adds to m V; a value before the norm behind it, if there is one."""
        v = describe.rows_of(self.down).t()
        return torch.cat([v, -v]) if self.signs == 2 else v

    def behind(self, m: Tensor) -> tuple[Callable[[Tensor], Tensor], Tensor] | None:
        """Return the norm behind the feed-forward layer and what it takes, m V + b2 (rows, d); ``None`` without one."""
        if self.after is None:
            return None
        down, norm = self.down, self.after
        return lambda h: widened(norm(h.to(norm.weight.dtype))), widened(down(m.to(down.weight.dtype)))

    def __call__(
        self, x: Tensor, batch: Rows, *, last: bool = False, needed: int | None = None, out: Tensor | None = None
    ) -> LayerOutput:
        """Run the layer; arguments and result as of ``decoder.DecoderLayer``.

        A gated layer computes its coefficients in memory of its own, so ``out`` is not used.
        """
        tensors = self._over(x, batch, last)
        m = widened(tensors["coefficients"])
        if "output" not in tensors:
            return LayerOutput(tensors.get("residual", x), m, x[:0], x[:0])
        o, y = tensors["output"], tensors["update"]
        return LayerOutput(tensors["residual"] if "residual" in tensors else o - y, m, y[:needed], o[:needed])

    def _over(self, x: Tensor, batch: Rows, last: bool) -> dict[str, Tensor]:
        """Return what the hooks read, (rows, n) each, and if not last o, for the layer's input (rows, d)."""
        if self.family.packed:
            arguments = _first_rows(self.state.arguments[self.index], len(x), self.state.rows)
            with packed.over(batch, self.state.factor):
                tensors = self.run(x[None], arguments, last)
            return {name: part.flatten(0, -2) for name, part in tensors.items()}
        parts = [
            self.run(x[rows].unflatten(0, (-1, length)), arguments[self.index], last)
            for rows, length, arguments in self.state.groups
        ]
        return {n: torch.cat([part[n].flatten(0, -2) for part in parts]) for n in parts[0]}

    def run(self, x: Tensor, arguments: Arguments, last: bool) -> dict[str, Tensor]:
        """Run the model's own layer on (sentences, tokens, d); return what the hooks read and, if not last, o."""
        self.state.seen, self.state.last = {}, last
        args, kwargs = arguments
        try:
            output = self.module(x, *args, **kwargs)
            self.state.seen["output"] = output[0] if isinstance(output, tuple) else output
        except Stop:
            pass
        finally:
            self.state.last = False
        return self.state.seen


def _first_rows(given: Any, rows: int, of: int) -> Any:
    """Return what a layer is given for its first rows: tensors with a row per token are cut, others are not."""
    if rows == of:
        return given
    if isinstance(given, tuple):
        return tuple(_first_rows(part, rows, of) for part in given)
    if isinstance(given, dict):
        return {name: _first_rows(part, rows, of) for name, part in given.items()}
    return given[:, :rows] if isinstance(given, Tensor) and given.dim() > 1 and given.shape[1] == of else given


class HookedModel(LanguageModel):
    """A language model of `transformers` for analysis; the same interface as ``decoder.Decoder``.

    Where its family can, the model computes with our attention until this is closed; ``precision: bfloat16`` rounds its
    matrices. Where the description's ``signs`` is 2, memory ``d_m + i`` is memory i with its sign changed.
    """

    description: describe.TransformerDescription
    layers: Sequence[HookedLayer]

    def __init__(
        self, model: Any, description: describe.TransformerDescription, family: Family, precision: Precision = "float32"
    ):
        self.model, self.description, self.family, self.precision = model.eval(), description, family, precision
        self.start, self.signs = description.start, description.signs
        self.dtype = torch.float64 if next(model.parameters()).dtype == torch.float64 else torch.float32
        self.device = next(model.parameters()).device
        self.path, self._stack = describe.layers_of(model, description.layers)
        self._state, self._alone = State(torch.bfloat16 if precision == "bfloat16" else None), threading.Lock()
        self._changes = contextlib.ExitStack()
        if family.packed:
            self._changes.callback(model.set_attn_implementation, model.config._attn_implementation)
            model.set_attn_implementation(packed.NAME)
        if precision == "bfloat16":
            hold_matrices(model.float(), torch.bfloat16)
            self._changes.callback(hold_matrices, model, torch.float32)
        if precision == "bfloat16" or (arithmetic.portable() and self.device.type == "cpu"):
            self._changes.enter_context(multiplied_by_ours(model))
        self.forests, self.parallel = family.packed, family.wiring == "parallel"
        self._pairs = not family.packed and returns_pairs(model, self._stack[0])
        self.layers = [HookedLayer(module, family, i, self._state, self.signs) for i, module in enumerate(self._stack)]
        for layer in self.layers:
            for handle in layer.handles:
                self._changes.push(handle)
        self.embedding = model.get_input_embeddings().weight.detach()
        norm = model.get_submodule(family.final_norm)
        self.vocabulary = output_layer(model, norm, precision)
        self.vocabulary.scale = describe.scale_of(norm, description.model)

    def close(self) -> None:
        """Take out of the model what was put in to read it; it then runs as `transformers` made it."""
        self._changes.close()
        self.layers = []

    @property
    def longest(self) -> int:
        """The longest text the model takes, without the start token."""
        return (describe.positions_of(self.model.config) or self.description.max_positions) - 1

    def pack(self, sentences: Sequence[np.ndarray]) -> Batch:
        """Return sentences, sorted by length and without the start token, as a batch on the model's device."""
        if len(sentences) and len(sentences[-1]) > self.longest:
            raise UserError(f"a sentence of {len(sentences[-1])} tokens; the model takes {self.longest}")
        return super().pack(sentences)

    def embed(self, batch: Batch | PrefixTree) -> Tensor:
        """Return the input of the first layer (rows, d), and keep what the model gives each layer besides."""
        if not self.layers:
            raise ValueError("the model is closed")
        state = self._state
        state.rows = len(batch.tokens)
        if self.forests:
            x, state.arguments = self._begin(batch.tokens[None], position_ids=batch.positions[None])
            return x.flatten(0, -2)
        assert isinstance(batch, Batch), "a family without packing runs no forest"
        parts, state.groups = [], []
        for first, sentences, length in batch.groups:
            rows = slice(first, first + sentences * length)
            x, arguments = self._begin(batch.tokens[rows].view(sentences, length))
            state.groups.append((rows, length, arguments))
            parts.append(x.flatten(0, 1))
        return torch.cat(parts)

    def prepared(self, batch: Batch) -> list[Tensor]:
        """Return what layers are given, (rows, n) each: the first one's input, and tensors such as rotary factors."""
        x = self.embed(batch)
        if self.forests:
            return [x, *(part[0] for part in _by_token(self._state.arguments, len(x)))]
        given = [
            [part.expand(len(x[rows]) // length, -1, -1).flatten(0, 1) for part in _by_token(arguments, length)]
            for rows, length, arguments in self._state.groups
        ]
        return [x, *(torch.cat(parts) for parts in zip(*given, strict=True))]

    def prepared_alone(self, tokens: Tensor) -> list[Tensor]:
        """Return the same of one sentence (1, tokens), its start token in front, as the model itself prepares it."""
        x, arguments = self._begin(tokens)
        return [part[0] for part in (x, *_by_token(arguments, tokens.shape[1]))]

    def _begin(self, tokens: Tensor, **more: Tensor) -> tuple[Tensor, list[Arguments]]:
        """Return the input of the first layer (sentences, tokens, d), and what the model gives each layer besides."""
        parent, _, name = self.path.rpartition(".")
        holder = self.model.get_submodule(parent)
        catchers = [_Catcher(self._pairs) for _ in self._stack]
        with self._alone:
            setattr(holder, name, nn.ModuleList(catchers))
            try:
                self.model.base_model(input_ids=tokens, use_cache=False, **more)
            finally:
                setattr(holder, name, self._stack)
        return catchers[0].x, [(c.args, c.kwargs) for c in catchers]


def output_layer(model: Any, norm: Any, precision: Precision = "float32") -> Vocabulary:
    """Return a model's output layer behind a norm; its cap is in the class's config even where config.json lacks it."""
    head = model.get_output_embeddings()
    vocabulary = Vocabulary(head.weight.shape[:1], {"output.head": head.weight.detach()}, precision)
    vocabulary.norm, vocabulary.bias = norm, None if head.bias is None else head.bias.detach()
    vocabulary.cap = getattr(model.config.get_text_config(decoder=True), "final_logit_softcapping", None)
    return vocabulary


def _by_token(arguments: list[Arguments], tokens: int) -> list[Tensor]:
    """Return the tensors (sentences or 1, tokens, n) among what a model gives its layers, each once."""

    def inside(given: Any) -> Iterator[Tensor]:
        if isinstance(given, Tensor) and given.dim() == 3 and given.shape[1] == tokens:
            yield given
        elif isinstance(given, tuple | list | dict):
            for part in given.values() if isinstance(given, dict) else given:
                yield from inside(part)

    return list({id(part): part for part in inside(arguments)}.values())


class _Catcher(nn.Module):
    """Stands in a layer's place while the model prepares its input; keeps what that layer would be given."""

    def __init__(self, pair: bool):
        super().__init__()
        self.pair, self.x = pair, torch.empty(0)
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor | tuple[Tensor, None]:
        self.x, self.args, self.kwargs = x, args, kwargs
        return (x, None) if self.pair else x


def returns_pairs(model: Any, layer: nn.Module) -> bool:
    """Return whether a layer returns its attention weights as well, by what it returns of two tokens."""
    is_pair: list[bool] = []

    def see(_: nn.Module, args: Any, out: Any) -> None:
        is_pair.append(isinstance(out, tuple))
        raise Stop

    with layer.register_forward_hook(see), torch.no_grad(), contextlib.suppress(Stop):
        model.base_model(input_ids=torch.zeros(1, 2, dtype=torch.long, device=model.device), use_cache=False)
    return is_pair[0]


def hold_matrices(model: nn.Module, kind: torch.dtype) -> None:
    """Hold a model's matrices, and nothing else, in a type; ``matmul.linear`` takes bfloat16 for both factors.

    An output layer no longer shares the embedding's weights, which are no factors of a product.
    """
    for module in model.modules():
        if describe.matrix(module):
            weight: Tensor = module.weight.detach()  # type: ignore[operator]
            module.weight = nn.Parameter(weight.to(kind), requires_grad=False)


@contextlib.contextmanager
def multiplied_by_ours(model: nn.Module) -> Iterator[None]:
    """Let every matrix of a model multiply as ``matmul.linear`` does."""

    def forward(module: Any, x: Tensor) -> Tensor:
        return linear(x.flatten(0, -2), describe.rows_of(module), module.bias).unflatten(0, x.shape[:-1])

    matrices = [module for module in model.modules() if describe.matrix(module)]
    for module in matrices:
        module.forward = partial(forward, module)
    try:
        yield
    finally:
        for module in matrices:
            del module.forward

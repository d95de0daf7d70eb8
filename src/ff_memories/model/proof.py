"""Prove by arithmetic that a row of ``families`` says what a loaded model computes.

One forward pass of 22 tokens shows the input and output of every module that the row names. From these and from the
weights, each of ``EQUATIONS`` is computed anew in every layer. A row that names a wrong module, norm, wiring or readout
breaks one of them.
"""

import re
from collections.abc import Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from ff_memories.base.draws import generator
from ff_memories.base.errors import UserError
from ff_memories.model.batches import packed
from ff_memories.model.decoder import Batch
from ff_memories.model.families import Family
from ff_memories.model.files import config_file
from ff_memories.model.matmul import widened
from ff_memories.model.transformer.describe import attention, layers_of, matrix, rows_of
from ff_memories.model.transformer.hooked import output_layer

SENTENCES, ROWS = 2, 11  # what the forward pass runs over
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float64: 1e-6}  # several families sum in float32
LENGTH = re.compile("position|window|chunk|length|context")  # in names of a config's keys
LONGEST = {True: 8193, False: 1025}  # tokens of a sentence that is tried; masks of padded ones take their square
PACKING = 5  # times as much between two ways of computing attention
HINT = "the row of families.py is not this model's; in a clone, python -m tools.model_row FOLDER proposes one"

EQUATIONS = {
    "values": "y' = m V + b",
    "norm behind": "the norm behind reads y'",
    "coefficients": "m = f(K h), or f(G h) * K h in a gated layer, h the norm of what the row says it is",
    "residual": "r = x + attention",
    "output": "o = r + y",
    "stream": "a layer reads the output of the layer below",
    "packing": "a layer gives the same for packed sentences",
    "alone": "a sentence is given to the layers as if it were alone",
    "causal": "a token changes nothing before it",
    "readout": "logits = cap(head(norm(o)) + bias)",
}


@dataclass(frozen=True)
class Proof:
    """What was proved, on how many layers and tokens."""

    architecture: str
    layers: int
    tokens: int
    dtype: str
    tolerance: float
    errors: dict[str, float]  # each equation's largest, in parts of a token's largest number (of sums: largest term)


class Call(NamedTuple):
    """One call of a module: its input and its output, (tokens, n) each."""

    given: torch.Tensor
    made: torch.Tensor


class _Book:
    """Compares, keeps the largest errors, and refuses one that is too large."""

    def __init__(self, name: str, tolerance: float):
        self.name, self.tolerance = name, tolerance
        self.errors: dict[str, float] = {}

    def refuse(self, where: str, what: str) -> UserError:
        return UserError(f"{self.name}: {where}: {what}", HINT)

    def part(self, where: str, module: nn.Module, name: str) -> Any:
        """Return a module's part. Raises ``UserError`` if there is no part of that name."""
        try:
            return module.get_submodule(name)
        except AttributeError:
            raise self.refuse(where, f"it has no module {name}") from None

    def check(self, equation: str, where: str, ours: torch.Tensor, theirs: torch.Tensor, *terms: torch.Tensor) -> None:
        """Raise ``UserError`` unless two (tokens, n) agree; ``terms``: what they are sums of."""
        if ours.shape != theirs.shape:
            shapes = f"{ours.shape[-1]} numbers a token against {theirs.shape[-1]}"
            raise self.refuse(where, f"{EQUATIONS[equation]} does not hold: {shapes}")
        gap, allowed = error(ours, theirs, *terms), self.tolerance * (PACKING if equation == "packing" else 1)
        if not gap <= allowed:
            raise self.refuse(where, f"{EQUATIONS[equation]} does not hold: off by {gap:.1g}, {allowed:g} is allowed")
        self.errors[equation] = max(gap, self.errors.get(equation, 0.0))


@torch.no_grad()
def prove(model: Any, family: Family) -> Proof:
    """Prove that a row holds in every layer of a loaded model. Raises ``UserError`` where an equation does not.

    A model whose attention adds exactly nothing satisfies a sequential and a parallel row alike.
    """
    dtype = next(model.parameters()).dtype
    book = _Book(type(model).__name__, TOLERANCES[dtype])
    layers = list(layers_of(model, model.config.get_text_config(decoder=True).num_hidden_layers)[1])
    names = {name for name in (family.down, family.norm_after, family.reads) if name is not None}
    modules: dict[Hashable, nn.Module] = {}
    for index, layer in enumerate(layers):
        modules[index, ""] = layer
        modules |= {(index, name): book.part(f"layer {index + 1}", layer, name) for name in names}
        modules |= {(index, "." + name): child for name, child in layer.named_children()}
    tokens = some_tokens(model)
    with full_precision(), narrow_windows(model), attention(model, "eager" if family.packed else None):
        all_calls, logits = watch(model, tokens, modules)
    below: Any = None
    for index, layer in enumerate(layers):
        calls = {name: _one(book, index, name, all_calls[index, name]) for name in ("", *names)}
        beside = [call.made for name, _ in layer.named_children() for call in all_calls[index, "." + name]]
        _check_layer(book, f"layer {index + 1}", layer, family, calls, beside)
        if below is not None:
            book.check("stream", f"layer {index + 1}", calls[""].given, below)
        below = calls[""].made
    with full_precision(), narrow_windows(model), attention(model, packed.NAME if family.packed else None):
        if family.packed:
            _check_packing(book, model, tokens, layers, [all_calls[index, ""][0] for index in range(len(layers))])
        else:
            _check_causal(book, model, tokens, logits)
    final = output_layer(model, book.part("the model", model, family.final_norm))  # as layers are read
    book.check("readout", family.final_norm, final.logits(below), logits)
    return Proof(book.name, len(layers), tokens.numel(), str(dtype).removeprefix("torch."), book.tolerance, book.errors)


@contextmanager
def narrow_windows(model: Any) -> Iterator[None]:
    """Make windows of attention so narrow that a short sentence is longer."""
    parts = [part for part in (model.config, *model.modules()) if type(getattr(part, "sliding_window", None)) is int]
    before = [part.sliding_window for part in parts]
    for part, window in zip(parts, before, strict=True):
        part.sliding_window = min(window, ROWS // 2)
    try:
        yield
    finally:
        for part, window in zip(parts, before, strict=True):
            part.sliding_window = window


def _check_layer(
    book: _Book, where: str, layer: nn.Module, family: Family, calls: dict[str, Call], beside: list[torch.Tensor]
) -> None:
    """Check one layer; ``beside``: (tokens, n) outputs of the modules that it is made of."""
    x, o = calls[""]
    m, y = calls[family.down]
    down: Any = layer.get_submodule(family.down)
    if matrix(down) is None:
        raise book.refuse(f"{where}, {family.down}", "it is no matrix")
    added = 0 if down.bias is None else widened(down.bias)
    book.check("values", f"{where}, {family.down}", widened(m) @ widened(rows_of(down).t()) + added, y)
    if family.norm_after is not None:
        given, after = calls[family.norm_after]
        book.check("norm behind", f"{where}, {family.norm_after}", given, y)
        y = after
    if y.shape != o.shape:
        book.check("output", f"{where}, {family.norm_after or family.down}", y, o)  # the shapes alone refuse it
    r = widened(o) - widened(y) if family.reads is None else calls[family.reads].given
    if family.reads is not None:
        book.check("output", f"{where}, {family.reads} + {family.norm_after or family.down}", r + y, o, r, y)
    elif family.wiring == "parallel":
        parts = [part for part in beside if part.shape == x.shape]
        part = min(parts, key=lambda part: error(x + part, r, x, part, y, o), default=x)
        book.check("residual", where, x + part, r, x, part, y, o)
    source = x if family.wiring == "parallel" else r.to(x.dtype)
    formula = coefficients(where, book, layer, family, source)
    book.check("coefficients", f"{where}, {family.gate or family.up}", formula, m)


def coefficients(where: str, book: _Book, layer: nn.Module, family: Family, source: torch.Tensor) -> torch.Tensor:
    """Return m (tokens, d_m) by the row's formula from what the feed-forward layer reads (tokens, d)."""
    part = partial(book.part, where, layer)
    h = source if family.norm is None else part(family.norm)(source)
    up = part(family.up)(h)
    if family.fused:
        gate, up = up.chunk(2, dim=-1)
        return part(family.activation)(gate) * up
    if family.gate is None:
        return part(family.activation)(up)
    return part(family.activation)(part(family.gate)(h)) * up


def _check_packing(book: _Book, model: Any, tokens: torch.Tensor, layers: list[nn.Module], calls: list[Call]) -> None:
    """Check every layer with the product's attention, each from the input that it had one sentence at a time."""
    positions = torch.arange(ROWS, device=tokens.device).repeat(SENTENCES)
    batch = Batch(tokens.flatten(), positions, ((0, SENTENCES, ROWS),))

    modules: dict[Hashable, nn.Module] = dict(enumerate(layers))
    with ExitStack() as hooks, packed.over(batch):
        for layer, call in zip(layers, calls, strict=True):
            hook = layer.register_forward_pre_hook(lambda _, args, given=call.given: (given[None], *args[1:]))
            hooks.enter_context(hook)
        packed_calls, _ = watch(model, batch.tokens[None], modules, position_ids=positions[None])
    for index, call in enumerate(calls):
        # the scale of a token's numbers is that of the input too: a layer that cancels a large one is less exact
        ours, theirs = (torch.cat([made, call.given], -1) for made in (packed_calls[index][0].made, call.made))
        book.check("packing", f"layer {index + 1}", ours, theirs)


def _check_causal(book: _Book, model: Any, tokens: torch.Tensor, logits: torch.Tensor) -> None:
    """Check that tokens behind a sentence do not matter, so it can be padded there."""
    other = tokens.clone()
    other[:, -1] = (tokens[:, -1] + 1) % model.get_input_embeddings().weight.shape[0]
    _, other_logits = watch(model, other, {})
    before = [given.unflatten(0, (SENTENCES, ROWS))[:, :-1].flatten(0, 1) for given in (other_logits, logits)]
    book.check("causal", "its layers", *before)


def prove_lengths(reader: Any) -> float:
    """Prove that what a ``HookedModel`` gives its layers for a sentence does not depend on the sentences beside it.

    One batch has sentences on both sides of every length that the config names. Return the largest error, in parts of
    the largest number. Raises ``UserError`` where the numbers of a sentence depend on its batch.
    """
    lengths = named_lengths(reader)
    rng, types = generator(1, "lengths"), len(reader.embedding)
    texts = [rng.integers(0, types, rows - 1) for rows in lengths]
    with torch.inference_mode():
        batch, worst, first = reader.prepared(reader.pack(texts)), 0.0, 0
        for rows, text in zip(lengths, texts, strict=True):
            tokens = torch.tensor([[reader.start, *text.tolist()]], device=reader.device)
            first += rows
            for ours, theirs in zip(batch, reader.prepared_alone(tokens), strict=True):
                off = error(ours[first - rows : first], theirs)
                if not off <= TOLERANCES[torch.float32]:
                    raise UserError(
                        f"{type(reader.model).__name__}: what it reads of a sentence of {rows} tokens depends on "
                        f"its batch: off by {off:.1g}",
                        "use another model: no numbers of this one would be those of a sentence by itself",
                    )
                worst = max(worst, off)
    return worst


def named_lengths(reader: Any) -> list[int]:
    """Return the numbers of tokens on both sides of every length in a model's config, and two short ones."""

    def numbers(given: Any, named: bool) -> Iterator[int]:
        if isinstance(given, Mapping):
            for name, inner in given.items():
                yield from numbers(inner, named or bool(LENGTH.search(str(name))))
        elif named and type(given) is int:
            yield from (given, given + 1)

    longest = min(reader.description.max_positions, LONGEST[reader.forests])
    named = numbers(reader.model.config.to_dict(), False)
    return sorted({2, ROWS, *(n for n in named if 2 <= n <= longest)})


def some_tokens(model: Any) -> torch.Tensor:
    """Return (sentences, rows) token ids, the same for every model of one vocabulary."""
    vocab = model.get_input_embeddings().weight.shape[0]
    ids = generator(1, "proof").integers(0, vocab, (SENTENCES, ROWS))
    return torch.from_numpy(ids).to(model.get_input_embeddings().weight.device)


def watch(
    model: Any, tokens: torch.Tensor, modules: Mapping[Hashable, nn.Module], **more: torch.Tensor
) -> tuple[dict[Hashable, list[Call]], torch.Tensor]:
    """Run a model; return the calls of modules, and the logits (tokens, vocab).

    Inputs and outputs are copied at once: some layers add in place.
    """
    calls: dict[Hashable, list[Call]] = {key: [] for key in modules}
    given: list[torch.Tensor] = []

    def enter(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given.append(_copy((*args, *kwargs.values())))

    def leave(_: nn.Module, args: Any, made: Any, key: Hashable) -> None:
        calls[key].append(Call(given.pop(), _copy(made)))

    with ExitStack() as hooks:
        for key, module in modules.items():
            hooks.enter_context(module.register_forward_pre_hook(enter, with_kwargs=True))
            hooks.enter_context(module.register_forward_hook(partial(leave, key=key)))
        with config_file.understood(f"{type(model).__name__}: a forward pass of {tokens.numel()} tokens fails"):
            out = model(input_ids=tokens, use_cache=False, **more)
    return calls, out.logits.flatten(0, -2)


def _copy(given: Any) -> torch.Tensor:
    """Return a copy of the first tensor in what a module takes or gives, a row per token."""
    parts = given if isinstance(given, tuple) else (given,)
    tensor = next((part.detach() for part in parts if isinstance(part, torch.Tensor)), torch.empty(0))
    return (tensor.flatten(0, -2) if tensor.dim() > 1 else tensor).clone()


def _one(book: _Book, index: int, name: str, calls: list[Call]) -> Call:
    if len(calls) != 1:
        where = f"layer {index + 1}" + (f", {name}" if name else "")
        raise book.refuse(where, f"it ran {len(calls)} times in one forward pass")
    return calls[0]


def error(ours: torch.Tensor, theirs: torch.Tensor, *terms: torch.Tensor) -> float:
    """Return the largest difference of two (tokens, n), in parts of the largest number of its token.

    Of sums, each number has the largest of its ``terms`` (tokens, n) as its scale: one dimension with large numbers, as
    language models have, hides nothing in the others.
    """
    ours, theirs = widened(ours), widened(theirs)
    scale = torch.stack([widened(x).abs() for x in (theirs, *terms)]).amax(0)
    if not terms:
        scale = scale.amax(-1, keepdim=True)
    return float(((ours - theirs).abs() / scale.clamp_min(torch.finfo(scale.dtype).tiny)).max())


@contextmanager
def full_precision() -> Iterator[None]:
    """Multiply float32 numbers as such on GPUs too."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)

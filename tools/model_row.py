"""Propose the row that a new type of `transformers` model needs, and prove it on one model's weights.

    python -m tools.model_row FOLDER

The folder holds config.json and safetensors. The row says where the memories are; paste it into
``src/ff_memories/model/families.py`` and give the type a model in ``tests/tools/models/tiny.py``.

What a module computes is told by one forward pass of 22 tokens: a module reads what another one gave if the numbers are
the same. ``proof.prove`` then checks the row in every layer.
"""

import sys
from collections.abc import Callable, Hashable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from torch import nn
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from ff_memories.base.errors import UserError
from ff_memories.model.families import FAMILIES, LEFT_OUT, Family, Wiring
from ff_memories.model.files import config_file
from ff_memories.model.proof import EQUATIONS, TOLERANCES, Call, error, full_precision, prove, some_tokens, watch
from ff_memories.model.transformer import load
from ff_memories.model.transformer.describe import attention, layers_of, matrix
from ff_memories.model.transformer.hooked import output_layer

HINT = "this wiring is none that families.py can say; its memories are not the paper's"


class Part(NamedTuple):
    """A module of a layer, and its one call."""

    name: str
    module: nn.Module
    given: torch.Tensor
    made: torch.Tensor


class FeedForward(NamedTuple):
    """Where the coefficients come from: names as in ``Family``, and what ``up`` reads (tokens, d)."""

    up: Part
    gate: str | None
    fused: bool
    activation: str


@torch.no_grad()
def propose(model: Any) -> Family:
    """Return the row of a loaded model, not proved yet.

    Args:
        model: a causal language model of `transformers`, best in float32.

    Raises:
        UserError: no row describes its first layer.
    """
    name, dtype = type(model).__name__, next(model.parameters()).dtype
    path, stack = layers_of(model, model.config.get_text_config(decoder=True).num_hidden_layers)
    inside, last = dict(stack[0].named_modules()), stack[-1]
    outside = {n: m for n, m in model.named_modules() if n and not f"{n}.".startswith(f"{path}.")}
    modules: dict[Hashable, nn.Module] = {("layer", n): module for n, module in inside.items()}
    modules |= {("model", n): module for n, module in outside.items()} | {"last": last}
    packed = bool(model._supports_attention_backend)
    with full_precision(), attention(model, "eager" if packed else None):
        seen, logits = watch(model, some_tokens(model), modules)
    once = lambda where, n: len(seen[where, n]) == 1
    parts = [Part(n, m, *seen["layer", n][0]) for n, m in inside.items() if n and once("layer", n)]
    finder = _Finder(name, parts, seen["layer", ""][0], TOLERANCES[dtype])
    found = finder.find()
    final = [Part(n, m, *seen["model", n][0]) for n, m in outside.items() if once("model", n)]
    top = seen["last"][0].made
    for part in filter(_is_norm, final):
        if finder.same(part.given, top) and finder.same(output_layer(model, part.module).logits(top), logits):
            return Family(name, final_norm=part.name, packed=packed, positions=_positions(model, outside), **found)
    raise UserError(f"{name}: its logits are not those of its output layer behind a norm of the last layer", HINT)


class _Finder:
    """Looks for the memories among the modules of one layer."""

    def __init__(self, name: str, parts: list[Part], layer: Call, tolerance: float):
        self.name, self.parts, self.tolerance = name, parts, tolerance
        self.x, self.o = layer
        self.matrices = [part for part in parts if matrix(part.module)]

    def same(self, a: torch.Tensor, b: torch.Tensor) -> bool:
        return a.shape == b.shape and error(a, b) <= self.tolerance

    def find(self) -> dict[str, Any]:
        """Return the fields of a row that are about a layer."""
        why = f"{self.name}: no matrix outside attention gives as much as a layer; is it a mixture of experts?"
        if any("expert" in part.name for part in self.parts):
            raise UserError(f"{self.name}: a mixture of experts: which memories exist depends on the token", HINT)
        for down in reversed(self.matrices):
            if down.made.shape == self.o.shape and "att" not in down.name.lower():
                try:
                    return self.around(down)
                except UserError as fault:
                    why = str(fault).split("\n")[0]
        raise UserError(why, HINT)

    def around(self, down: Part) -> dict[str, Any]:
        """Return the fields for one candidate of the last matrix. Raises ``UserError`` where it is not the one."""
        refuse: Callable[[str], UserError] = lambda what: UserError(f"{self.name}: {down.name}: {what}")
        forward = next(self.feed_forwards(down), None)
        if forward is None:
            raise refuse("no module's output is what it reads: no activation that is a module, or another formula")
        after = next((p for p in filter(_is_norm, self.parts) if self.same(p.given, down.made)), None)
        y = down.made if after is None else after.made
        r = self.o - y
        norm = next((p for p in filter(_is_norm, self.parts) if self.same(p.made, forward.up.given)), None)
        source = forward.up.given if norm is None else norm.given
        kinds: list[Wiring] = []
        if self.same(source, r):
            kinds.append("sequential")
        if self.same(source, self.x):
            kinds.append("parallel")
        if len(kinds) == 2:
            raise refuse("attention adds nothing, so it cannot be told what the memories read")
        if not kinds:
            raise refuse("it reads neither what its output is added to nor the layer's input (a norm behind the sum?)")
        reads = None if kinds == ["parallel"] else forward.up.name if norm is None else norm.name
        return {
            "down": down.name,
            "up": forward.up.name,
            "activation": forward.activation,
            "reads": reads,
            "norm": None if norm is None else norm.name,
            "gate": forward.gate,
            "fused": forward.fused,
            "norm_after": None if after is None else after.name,
            "wiring": kinds[0],
        }

    def feed_forwards(self, down: Part) -> Iterator[FeedForward]:
        """Yield the formulas that give what a matrix reads: f(up), f(gate) * up, or both from one matrix."""
        m = down.given
        for f in self.parts:
            if matrix(f.module) or f.made.shape != m.shape or f.given.shape != m.shape:
                continue
            if self.same(f.made, m):
                yield from (FeedForward(u, None, False, f.name) for u in self.matrices if self.same(u.made, f.given))
                continue
            for u in self.matrices:
                if u.made.shape == m.shape and self.same(f.made * u.made, m):
                    gates = (g for g in self.matrices if self.same(g.made, f.given) and self.same(g.given, u.given))
                    yield from (FeedForward(u, g.name, False, f.name) for g in gates)
                elif u.made.shape[-1] == 2 * m.shape[-1]:
                    gate, up = u.made.chunk(2, dim=-1)
                    if self.same(gate, f.given) and self.same(f.made * up, m):
                        yield FeedForward(u, None, True, f.name)


def _is_norm(part: Part) -> bool:
    """Whether a module may be a norm: it has no parts, is no matrix and gives as many numbers as it reads."""
    plain = not matrix(part.module) and not list(part.module.children()) and part.given.shape == part.made.shape
    named = "norm" in type(part.module).__name__.lower()
    return plain and (named or any(p.dim() == 1 for p in part.module.parameters()))


def _positions(model: Any, outside: dict[str, nn.Module]) -> int | None:
    """Return how many rows of a model's table of positions stand before the first position's; ``None`` without one."""
    tokens = model.get_input_embeddings()
    tables = [m for m in outside.values() if isinstance(m, nn.Embedding) and m is not tokens]
    return tables[0].num_embeddings - model.config.max_position_embeddings if tables else None


def as_python(kind: str, family: Family) -> str:
    """Return a row as the lines to paste into ``families.FAMILIES``."""
    said = [
        (field.name, value)
        for field in fields(family)
        if (value := getattr(family, field.name)) != field.default or field.default is MISSING
    ]
    lines = ",\n".join(f"            {name}={value!r}" for name, value in said)
    return f'    "{kind}": (\n        Family(\n{lines},\n        ),\n    ),'.replace("'", '"')


def causal_class(kind: str, where: str) -> str:
    """Return the class that `transformers` has for language models of a type. Raises ``UserError`` if it has none."""
    if kind in transformers.CONFIG_MAPPING and kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return str(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind])
    raise UserError(
        f"{where}: transformers {transformers.__version__} has no causal language model of type {kind[:60]!r}",
        "give a decoder, or install a version of `transformers` that has it",
    )


def row_of(folder: Path) -> str:
    """Return the row of a folder's model, with the errors of its proof as comments.

    Raises:
        UserError: no row can say where the model's memories are, or the folder is not a model.
    """
    config = config_file.read(folder)
    kind = config["model_type"]
    if kind in LEFT_OUT:
        raise UserError(f"{folder}: {kind} is {LEFT_OUT[kind]}", "give a decoder with one feed-forward layer each")
    model = load.load_weights(folder, config, causal_class(kind, str(folder)), torch.float32)
    row = propose(model)
    proof = prove(model, row)
    about = f"# {kind}, {proof.layers} layers, {proof.tokens} tokens, {proof.dtype}"
    lines = [f"{about}: at most {proof.tolerance:g} allowed"]
    lines += [f"#   {EQUATIONS[name]}: off by {found:.0e}" for name, found in proof.errors.items()]
    if kind in FAMILIES:
        lines.append(f"# families.py has {'this row' if row in FAMILIES[kind] else 'other rows for this type'}")
    return "\n".join([*lines, as_python(kind, row)])


if __name__ == "__main__":
    try:
        print(row_of(Path(sys.argv[1])))
    except UserError as refused:
        sys.exit(f"error: {refused}")

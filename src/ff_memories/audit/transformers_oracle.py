"""The model as `transformers` computes it, in float64: the audit's reference.

It loads the model's original files and lets the library run its own forward pass with its own eager attention; behind a
change of the last token, the others have what they had before. It shares no loop over layers, hooks, packing, batching,
readout or precision with the package; it does share the reader of the files, the choice of the first token and the
family's row.

Several families compute softmax, RMSNorm or rotary positions in float32 whatever the weights' type: numbers are good to
about 1e-6.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ff_memories.audit.equations import Activations, Change, held
from ff_memories.audit.near_equal import USUAL, Tops
from ff_memories.corpus.tokenizer import start_of
from ff_memories.inputs import model_folder
from ff_memories.model import families
from ff_memories.model.files import config_file
from ff_memories.model.transformer.describe import layers_of, rows_of
from ff_memories.model.transformer.load import load_folder

SAMPLED = 2048  # words, at most, of which one may show that a value does not predict a token


class TransformersOracle:
    """A causal language model of `transformers` in float64.

    Of the config, ``start`` is ``model.start``, ``signs`` is ``triggers.signs``, ``reading`` is ``values.projection``,
    and ``residual`` is ``composition.residual``. ``drawn``: an untrained model of the same shape, which takes the place
    of the files' weights. Raises ``UserError`` if the files in ``folder`` hold no model that a run could read.
    """

    def __init__(
        self, folder: Path, start: str, signs: str, reading: str = "raw", residual: str = "added", drawn: Any = None
    ):
        plain = config_file.read(folder)
        self.family = families.row(plain, str(folder / model_folder.CONFIG))
        model = load_folder(folder, plain, self.family.architecture, torch.float64) if drawn is None else drawn
        self.model: Any = model.double().requires_grad_(False)
        self.head: Any = self.model.get_output_embeddings()
        self.norm: nn.Module = self.model.get_submodule(self.family.final_norm)
        self.blocks = list(layers_of(self.model, self.model.config.num_hidden_layers)[1])
        tokenizer = model_folder.read_tokenizer(folder, self.head.weight.shape[0])
        self.start = start_of(folder, plain, tokenizer, start, str(folder))
        self.signs = 2 if signs == "both" or (signs == "auto" and self.family.gated) else 1
        self.beside = residual == "read" and self.family.wiring == "parallel"
        self.words = self.head.weight
        if reading == "scaled":
            self.words = self.words * _scale(self.norm, self.words[0])
        self._besides: int | None = None  # how much a block gives besides its output, if it gives a tuple
        self._longest = float(self.words.norm(dim=1).max())
        # of a layer's memories, the largest logit among a sample of words, and their tops
        self._tops: dict[tuple[Any, ...], tuple[torch.Tensor, Tops]] = {}

    @property
    def keys(self) -> tuple[int, int]:
        """The numbers of layers and of memories per layer: d_m, or 2 d_m with both signs."""
        return len(self.blocks), self.signs * len(self.vectors("added", 1))

    def vectors(self, of: str, layer: int) -> torch.Tensor:
        """Return what the memories of layer 1..L have (d_m, d); see ``Equations``.

        Behind a norm values are multiplied by that norm's scale: what is added is a positive multiple of them.
        """
        block = self.blocks[layer - 1]
        values = rows_of(block.get_submodule(self.family.down)).t()
        if of == "added" or self.family.norm_after is None:
            return values
        return values * _scale(block.get_submodule(self.family.norm_after), values[0])

    def direct(self, here: Activations, layer: int, vector: torch.Tensor) -> torch.Tensor:
        """Return what a vector (..., d) adds to y, added to m V at the last token, with the norm between held."""
        if self.family.norm_after is None:
            return vector
        block = self.blocks[layer - 1]
        raw = block.get_submodule(self.family.down)(here.m[-1:])[0]
        return _held(block.get_submodule(self.family.norm_after), vector, raw)

    def changed(self, *changes: Change) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Run changed sentences together; see ``Equations``.

        A change moves the last token's numbers alone, so feed-forward layers run no others, and blocks give the other
        tokens what they gave before.
        """
        width, first = 1 + max(len(c.tokens) for c in changes), min(c.layer for c in changes)
        last = torch.tensor([at * width + len(c.tokens) for at, c in enumerate(changes)])

        def before(number: int) -> torch.Tensor:
            """Return what a block, from 1, gave (sentences, width, d); tokens that fill a row stand behind."""
            outputs = (c.seen[number - 1].output for c in changes)
            return torch.stack([F.pad(rows, (0, 0, 0, width - len(rows))) for rows in outputs])

        hooks, changed = list[Any](), {c.layer: self.blocks[c.layer - 1] for c in changes} | {0: self.blocks[-1]}
        ids = [[self.start, *map(int, c.tokens), *[self.start] * (width - 1 - len(c.tokens))] for c in changes]
        try:
            for number, block in enumerate(self.blocks[first - 1 :], first):
                added = torch.stack([c.vector * (c.layer == number) for c in changes])
                moved = last[[c.layer <= number for c in changes]]
                hooks += self._last_alone(block, last, added, moved, partial(before, number))
            with self._given(first, before(first - 1) if first > 1 else None):
                records = dict(zip(changed, self._records(ids, list(changed.values())), strict=True))
        finally:
            for hook in hooks:
                hook.remove()
        return [(records[0]["output"][at], records[c.layer]["ffn"][at]) for c, at in zip(changes, last, strict=True)]

    def _last_alone(
        self, block: nn.Module, last: torch.Tensor, added: torch.Tensor, moved: torch.Tensor, before: Any
    ) -> list[Any]:
        """Have a block run its feed-forward layer for some rows alone, and give all but ``moved`` what it gave before.

        ``added``: (rows, d) what is added to m V.
        """
        shape: list[int] = []

        def cut(_: nn.Module, args: Any) -> Any:
            shape[:] = args[0].shape[:-1]
            return args[0].flatten(0, -2)[last], *args[1:]

        def widen(_: nn.Module, args: Any, out: torch.Tensor) -> torch.Tensor:
            rows = out.new_zeros(math.prod(shape), out.shape[-1])
            rows[last] = out + added
            return rows.view(*shape, -1)

        def restore(_: nn.Module, args: Any, out: Any) -> Any:
            rows, given = out[0] if isinstance(out, tuple) else out, before()
            given.flatten(0, 1)[moved] = rows.flatten(0, 1)[moved]
            return (given, *out[1:]) if isinstance(out, tuple) else given

        read, row = block.get_submodule, self.family
        hooks = [read(name).register_forward_pre_hook(cut) for name in (row.up, row.gate) if name is not None]
        return [*hooks, read(row.down).register_forward_hook(widen), block.register_forward_hook(restore)]

    @contextmanager
    def _given(self, layer: int, given: torch.Tensor | None) -> Iterator[None]:
        """Have the blocks below a layer give what they gave before, without running again."""
        below = self.blocks[: layer - 1]
        for block in below:
            block.forward = lambda *_, **__: given if self._besides is None else (given, *[None] * self._besides)
        try:
            yield
        finally:
            for block in below:
                del block.forward

    @contextmanager
    def in_float32(self) -> Iterator[None]:
        """Compute in float32 meanwhile; the weights are float32's or narrower, so none loses bits."""
        buffers, words = {name: buffer.clone() for name, buffer in self.model.named_buffers()}, self.words
        self.model.float()
        self.words = words.float()
        try:
            yield
        finally:
            self.model.double()
            self.words = words
            for name, buffer in self.model.named_buffers():
                buffer.copy_(buffers[name])

    def several(self, texts: Sequence[Collection[int]], until: int | None = None) -> list[list[Activations]]:
        """Run several sentences (ids without the first token) together; return layers 1 to ``until`` (all) of each."""
        width = max(map(len, texts)) + 1  # tokens that fill a row stand behind its sentence, which does not see them
        ids = [[self.start, *map(int, tokens), *[self.start] * (width - 1 - len(tokens))] for tokens in texts]
        records = self._records(ids, self.blocks[:until])
        out = []
        for first, tokens in zip(range(0, len(texts) * width, width), texts, strict=True):
            rows = slice(first, first + len(tokens) + 1)
            out.append([self._seen({name: part[rows].clone() for name, part in record.items()}) for record in records])
        return out

    def _records(self, ids: list[list[int]], blocks: list[nn.Module]) -> list[dict[str, torch.Tensor]]:
        """Run the model until the last of some blocks; return what their modules read and give (``_watch``)."""
        records: list[dict[str, torch.Tensor]] = [{} for _ in blocks]
        hooks = [hook for block, record in zip(blocks, records, strict=True) for hook in self._watch(block, record)]
        hooks.append(blocks[-1].register_forward_hook(_stop))
        try:
            self.model.base_model(input_ids=torch.tensor(ids), use_cache=False)
        except _Enough:
            pass
        finally:
            for hook in hooks:
                hook.remove()
        return records

    def _watch(self, block: nn.Module, record: dict[str, torch.Tensor]) -> list[Any]:
        """Keep what the row's modules of one block read and give; copies, because some models add in place."""
        row, hooks = self.family, []
        reads = {"input": "", "m": row.down, "residual": row.reads}
        gives = {"output": "", "ffn": row.norm_after or row.down, "up": row.up, "gate": row.gate}

        def read(_: nn.Module, args: Any, kwargs: Any, name: str) -> None:
            record[name] = _rows(args or kwargs.get("hidden_states"))

        def given(_: nn.Module, args: Any, out: Any, name: str) -> None:
            record[name] = _rows(out)
            if name == "output":
                self._besides = len(out) - 1 if isinstance(out, tuple) else None

        for name, at in reads.items():
            if at is not None:
                module = block.get_submodule(at)
                hooks.append(module.register_forward_pre_hook(partial(read, name=name), with_kwargs=True))
        for name, at in gives.items():
            if at is not None:
                hooks.append(block.get_submodule(at).register_forward_hook(partial(given, name=name)))
        return hooks

    def _seen(self, record: dict[str, torch.Tensor]) -> Activations:
        scores: tuple[torch.Tensor, ...] = (record["up"],)
        if self.family.fused:
            scores = record["up"].chunk(2, dim=-1)
        elif self.family.gate is not None:
            scores = (record["gate"], record["up"])
        residual = record["residual"] if "residual" in record else record["output"] - record["ffn"]
        residual = record["input"] if self.beside else residual
        return Activations(residual, record["m"], scores, record["ffn"], record["output"], self.signs, outliers=True)

    def final(self, h: torch.Tensor) -> torch.Tensor:
        """Return a layer's output (d,) behind the final norm."""
        return self.norm(h)

    def held_final(self, change: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """Return what changes (..., d) add behind the final norm, whose deviation is held at that of h (d,)."""
        return _held(self.norm, change, h)

    def linear(self, h: torch.Tensor) -> torch.Tensor:
        """Return the logits (..., vocab) of h (..., d), which is behind the final norm, before bias and cap."""
        return h @ self.head.weight.T

    def word(self, token: int) -> torch.Tensor:
        """Return a token's row (d,) of the output matrix."""
        return self.head.weight[token]

    def of_value(self, h: torch.Tensor) -> torch.Tensor:
        """Return a value vector's log p (vocab,): the output layer's words alone, without norm, bias and cap."""
        return torch.log_softmax(h @ self.words.T, -1)

    of_memory = of_value

    def predicting(
        self, layer: int, token: int, left_out: list[int], limit: float, among: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return which of a layer's values predict a token; see ``Equations``.

        A value that gives any other word a larger logit does not, so only those are multiplied by all words that give
        it the largest logit among a sample of words.
        """
        values = self.vectors("value", layer)
        asked = (layer, tuple(left_out), limit, values.dtype)
        if asked not in self._tops:
            counted = np.setdiff1d(np.arange(len(self.words)), left_out)
            sampled = values @ self.words[counted[:: len(counted) // SAMPLED + 1]].T
            largest = torch.cat([sampled.amax(1), -sampled.amin(1)][: self.signs])
            self._tops[asked] = largest, Tops(partial(self._of_memories, layer), len(among), left_out, limit)
        largest, tops = self._tops[asked]
        size = 2 * values.norm(dim=1).repeat(self.signs) * self._longest + math.log(len(self.words))
        margin = limit * (size / USUAL).clamp(min=1)  # no log p is larger than ``size``
        logits = values @ self.words[token]
        return tops.predicting(token, among & (torch.cat([logits, -logits][: self.signs]) >= largest - margin))

    def _of_memories(self, layer: int, memories: torch.Tensor) -> torch.Tensor:
        """Return the log p (n, vocab) of some of a layer's memories (n,)."""
        values = self.vectors("value", layer)
        sign = 1 - 2 * (memories >= len(values)).to(values.dtype)
        return self.of_memory(sign[:, None] * values[memories % len(values)])

    def of_layer(self, h: torch.Tensor) -> torch.Tensor:
        """Return the log p (..., vocab) of residuals or layers' outputs (..., d), by the model's whole output layer."""
        logits = F.linear(self.norm(h), self.head.weight, self.head.bias)
        cap = getattr(self.model.config, "final_logit_softcapping", None)
        return torch.log_softmax(logits if cap is None else cap * torch.tanh(logits / cap), -1)

    said = of_layer


class _Enough(Exception):
    """Raised behind the last layer that is needed, to leave the others out."""


def _stop(*_: Any) -> None:
    """Leave out what follows a module: its forward hook."""
    raise _Enough


def _rows(found: Any) -> torch.Tensor:
    """Return a copy of the first tensor that a module reads or gives, (rows, n)."""
    tensor: torch.Tensor = found[0] if isinstance(found, tuple) else found
    return tensor.detach().flatten(0, -2).clone()


def _scale(norm: nn.Module, like: torch.Tensor) -> torch.Tensor:
    """Return the scale (d,) of a norm, by its outputs for large numbers of changing sign that have no mean."""
    up, down = (len(like) + 1) // 2, len(like) // 2
    x = torch.tensor([1e6 * down, -1e6 * up], dtype=like.dtype).repeat(up)[: len(like)]
    return (norm(x[None])[0] - norm(-x[None])[0]) / 2 * x.square().mean().sqrt() / x


def _held(norm: nn.Module, change: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Return what changes (..., d) add behind a norm whose deviation is held at that of ``at`` (d,)."""
    epsilon = next(float(getattr(norm, name)) for name in ("eps", "variance_epsilon") if hasattr(norm, name))
    return held(_scale(norm, at), epsilon, isinstance(norm, nn.LayerNorm), change, at)

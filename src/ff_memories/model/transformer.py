"""A language model of `transformers` as a stack of key-value memories, behind the same loop as ``decoder.Decoder``.

`transformers`' own layers compute every number. Here is the loop around them, and hooks that read each layer where its
row of ``families`` says. Sentences run without padding (``packed``); where a family takes no attention function of
ours, they are padded behind (``padded``).
"""

import contextlib
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from torch import nn
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.pytorch_utils import Conv1D

from ff_memories.base import arithmetic
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import require_file
from ff_memories.base.precision import Precision
from ff_memories.base.seeds import generator
from ff_memories.model import headers, packed
from ff_memories.model.converted import Description
from ff_memories.model.decoder import Batch, Seen
from ff_memories.model.families import Family, row
from ff_memories.model.padded import Band, bands
from ff_memories.model.prefix_tree import Level, PrefixTree
from ff_memories.model.products import linear
from ff_memories.model.vocabulary import Vocabulary
from ff_memories.tables import MOST_NEURONS


@dataclass(frozen=True)
class TransformerDescription(Description):
    """What a model of `transformers` is.

    Attributes:
        model_type: its row in ``families``.
        start: id of the token that every sentence begins with.
        gated: whether coefficients are products of a gate, so both signs matter.
        signs: 2 where negative coefficients are memories of their own (``triggers.signs``), else 1.
        config: its config.json, without what could name code.
    """

    model_type: str = ""
    start: int = 0
    gated: bool = False
    signs: int = 1
    config: dict[str, Any] = field(default_factory=dict)


MASK = re.compile(r"\.attn\.(bias|masked_bias)$")  # of causal attention: older versions saved it with GPT-J
CONSTANTS = 1 << 28  # bytes that a model's masks and positions may take, however small it is
Arguments = tuple[tuple[Any, ...], dict[str, Any]]  # what a model gives a layer besides its input


class Stop(Exception):
    """Ends a layer at its coefficients."""


class _State(threading.local):
    """What one thread's run is about: set by ``embed``, read by the layers."""

    def __init__(self) -> None:
        self.arguments: list[Arguments] = []  # of each layer
        self.bands: list[tuple[Band, list[Arguments]]] = []  # the same of each band
        self.rows = 0
        self.seen: dict[str, torch.Tensor] = {}
        self.last = False


class Layer:
    """One block of the model, read by hooks."""

    def __init__(self, module: Any, family: Family, index: int, state: _State, signs: int):
        self.module, self.family, self.index, self.state, self.signs = module, family, index, state, signs
        self.down = module.get_submodule(family.down)
        self.after = None if family.norm_after is None else module.get_submodule(family.norm_after)
        self.down.register_forward_pre_hook(self._coefficients)
        (self.down if self.after is None else self.after).register_forward_hook(self._update)
        if family.reads is not None:
            module.get_submodule(family.reads).register_forward_pre_hook(self._residual)

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
        up = _rows_of(self.module.get_submodule(self.family.up))
        if self.family.fused:
            return torch.cat(up.chunk(2), 1)
        return (
            up
            if self.family.gate is None
            else torch.cat([_rows_of(self.module.get_submodule(self.family.gate)), up], 1)
        )

    @property
    def values(self) -> torch.Tensor:
        """(memories, d): value i is row i; with both signs, -v_i is row d_m + i.

        Behind a norm a value is multiplied by that norm's scale: what the model adds is a positive multiple of it.
        """
        v = self.down.weight if isinstance(self.down, Conv1D) else self.down.weight.t()
        if self.after is not None:
            v = v * scale_of(self.after)
        v = v.detach()
        return torch.cat([v, -v]) if self.signs == 2 else v

    def __call__(
        self, x: torch.Tensor, batch: Batch | Level, *, last: bool = False, needed: int | None = None,
        out: torch.Tensor | None = None,
    ) -> Seen:  # fmt: skip
        """Run the layer; arguments and result as of ``decoder.Layer``.

        A gated layer computes its coefficients in memory of its own, so ``out`` is not used.
        """
        fit = partial(_first_rows, rows=len(x), of=self.state.rows)
        args, kwargs = self.state.arguments[self.index]
        with packed.over(batch):
            found = self.run(
                x[None], (tuple(map(fit, args)), {name: fit(given) for name, given in kwargs.items()}), last
            )
        return _seen({name: part.flatten(0, -2) for name, part in found.items()}, x, needed)

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


def _rows_of(linear: nn.Module) -> torch.Tensor:
    """Return the weights (outputs, inputs) of a linear module."""
    weight: torch.Tensor = linear.weight.detach()  # type: ignore[operator]
    return weight.t() if isinstance(linear, Conv1D) else weight


class PaddedLayer(Layer):
    """A block of a model that takes no attention function: it runs band after band (``padded``), and no forest."""

    def _update(self, _: nn.Module, args: tuple[torch.Tensor, ...], out: torch.Tensor) -> None:
        super()._update(_, args, out.clone())  # Falcon adds attention to it in place

    def __call__(
        self, x: torch.Tensor, batch: Batch | Level, *, last: bool = False, needed: int | None = None,
        out: torch.Tensor | None = None,
    ) -> Seen:  # fmt: skip
        """Run the layer; as ``Layer``."""
        parts = []
        for band, arguments in self.state.bands:
            found = self.run(band.spread(x), arguments[self.index], last)
            parts.append({name: band.gather(part) for name, part in found.items()})
        return _seen({name: torch.cat([part[name] for part in parts]) for name in parts[0]}, x, needed)


def _seen(found: dict[str, torch.Tensor], x: torch.Tensor, needed: int | None) -> Seen:
    """Return what a layer's hooks read, (rows, n) each; ``x`` (rows, d): its input."""
    m = _float32(found["coefficients"])
    if "output" not in found:
        nothing = x[:0]
        return Seen(found.get("residual", x), m, nothing, nothing)
    o, y = found["output"], found["update"]
    return Seen(found["residual"] if "residual" in found else o - y, m, y[:needed], o[:needed])


class Transformer:
    """A language model of `transformers` for analysis; the same interface as ``decoder.Decoder``.

    Attributes:
        forests: whether layers take forests of prefixes (``prefix_tree``), or plain batches alone.

    Args:
        model: the loaded model, its attention function set.
        description: what it is.
        family: its row, which ``proof.prove`` confirmed.

    Where the description's ``signs`` is 2, memory ``d_m + i`` is memory i with its sign changed.
    """

    def __init__(self, model: Any, description: TransformerDescription, family: Family,
                 precision: Precision = "float32"):  # fmt: skip
        self.model, self.description, self.family, self.precision = model.eval(), description, family, precision
        self.source, self.start, self.signs = "", description.start, description.signs
        self.dtype = torch.float64 if next(model.parameters()).dtype == torch.float64 else torch.float32
        self.device = next(model.parameters()).device
        self.path, stack = layers_of(model, description.layers)
        self._state, self._alone = _State(), threading.Lock()
        self._stack = stack
        if arithmetic.portable() and self.device.type == "cpu":
            multiply_portably(model)
        self.forests, self.parallel = family.packed, family.wiring == "parallel"
        kind = Layer if family.packed else PaddedLayer
        self.layers = [kind(module, family, index, self._state, self.signs) for index, module in enumerate(stack)]
        self.embedding = model.get_input_embeddings().weight.detach()
        self.vocabulary = vocabulary_of(model, description, family, precision)

    @property
    def memories(self) -> int:
        """Memories per layer: d_m, or twice that with both signs."""
        return self.signs * self.description.keys

    @property
    def neurons(self) -> int | None:
        """d_m with both signs, which tables then tell from keys; else ``None``."""
        return self.description.keys if self.signs == 2 else None

    @property
    def max_tokens(self) -> int:
        """The longest sentence the model takes, without the start token."""
        return self.description.max_positions - 1

    def pack(self, sentences: Sequence[np.ndarray]) -> Batch:
        """Return sentences, sorted by length and without the start token, as a batch on the model's device."""
        if len(sentences) and len(sentences[-1]) > self.max_tokens:
            raise UserError(f"a sentence of {len(sentences[-1])} tokens; the model takes {self.max_tokens}")
        return Batch.pack(sentences, self.device, self.start)

    def embed(self, batch: Batch | PrefixTree) -> torch.Tensor:
        """Return the input of the first layer (rows, d), and keep what the model gives each layer besides."""
        state = self._state
        state.rows = len(batch.tokens)
        if self.forests:
            x, state.arguments = self._begin(batch.tokens[None], position_ids=batch.positions[None])
            return x.flatten(0, -2)
        assert isinstance(batch, Batch), "a family without packing runs no forest"
        state.bands, parts = [], []
        for band in bands(batch, self.description.max_positions):
            x, arguments = self._begin(band.spread(batch.tokens))
            state.bands.append((band, arguments))
            parts.append(band.gather(x))
        return torch.cat(parts)

    def _begin(self, tokens: torch.Tensor, **more: torch.Tensor) -> tuple[torch.Tensor, list[Arguments]]:
        """Return the input of the first layer (sentences, tokens, d), and what the model gives each layer besides."""
        with self._alone, caught(self.model, self.path, self._stack, not self.forests) as catchers:
            self.model.base_model(input_ids=tokens, use_cache=False, **more)
        return catchers[0].x, [(c.args, c.kwargs) for c in catchers]

    def forward(self, batch: Batch) -> torch.Tensor:
        """Return the last layer's output o^L (rows, d), before the model's final norm."""
        x = self.embed(batch)
        for layer in self.layers:
            x = layer(x, batch).output
        return x


def load(
    folder: Path,
    description: TransformerDescription,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    precision: Precision = "float32",
) -> Transformer:
    """Load a model from a folder with ``model.safetensors``, which the model step wrote.

    Args:
        dtype: of all numbers; float64 is for tests. ``precision: bfloat16`` computes in bfloat16 throughout.

    Raises:
        UserError: the weights are not those of the description.
    """
    family = row(description.config, str(folder))
    kind = torch.bfloat16 if precision == "bfloat16" else dtype
    attention = packed.NAME if family.packed else "eager"
    model = load_weights(folder, description.config, family.architecture, kind, attention)
    made = Transformer(model.to(device), description, family, precision)
    made.source = str((folder / "model.safetensors").resolve())
    return made


def around(
    model: Any, description: TransformerDescription, family: Family, device: str = "cpu",
    precision: Precision = "float32",
) -> Transformer:  # fmt: skip
    """Return the loop around a model that is loaded in float32; it computes with our attention from now on."""
    if family.packed:
        model.set_attn_implementation(packed.NAME)
    kind = torch.bfloat16 if precision == "bfloat16" else torch.float32
    return Transformer(model.to(device, kind), description, family, precision)


def read_description(path: Path) -> TransformerDescription:
    """Read a model.json. Raises ``UserError`` where it is not that of a model of `transformers`."""
    require_file(path)
    try:
        return TypeAdapter(TransformerDescription).validate_json(path.read_bytes(), strict=True)
    except (OSError, ValidationError) as error:
        raise UserError(f"{path}: not a model's description ({str(error)[:200]})", rebuild_hint(path)) from None


def causal_class(kind: str, where: str) -> str:
    """Return the class that `transformers` has for language models of a type. Raises ``UserError`` if it has none."""
    if kind in transformers.CONFIG_MAPPING and kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return str(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind])
    raise UserError(
        f"{where}: transformers {transformers.__version__} has no causal language model of type {kind[:60]!r}",
        "give a decoder, or install a version of `transformers` that has it",
    )


def load_weights(
    folder: Path, config: dict[str, Any], architecture: str, dtype: torch.dtype | str, attention: str
) -> Any:
    """Load weights into a class of `transformers`.

    Raises:
        UserError: a weight is missing, unexpected or of another shape: `transformers` would draw it at random.
    """
    stored = headers.check(folder, config, str(folder))
    if stored:  # without any, the library names the files that it looked for
        _refuse_larger(_without_weights(config, architecture, str(folder)), stored, str(folder))
    verbosity = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    try:
        made = _class_config(config)
        model, told = getattr(transformers, architecture).from_pretrained(
            folder, config=made, dtype=dtype, attn_implementation=attention, use_safetensors=True,
            local_files_only=True, output_loading_info=True, ignore_mismatched_sizes=True,
            generation_config=transformers.GenerationConfig(),  # nothing is generated, and none is looked for
        )  # fmt: skip
    except (OSError, ValueError, RuntimeError, LookupError, TypeError, AttributeError, ArithmeticError,
            SafetensorError, StrictDataclassError) as error:  # fmt: skip
        first = (str(error) or type(error).__name__).splitlines()[0][:300]
        raise UserError(f"{folder}: not a readable {config['model_type']} model ({first})") from None
    finally:
        transformers.utils.logging.set_verbosity(verbosity)
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if found := [key for key in told.get(what, ()) if what != "unexpected_keys" or not MASK.search(str(key))]:
            names = ", ".join(sorted(map(str, found))[:3])
            raise UserError(
                f"{folder}: {len(found)} {what.replace('_', ' ')}: {names}",
                "give the folder with all weights that `transformers` saved with this config.json",
            )
    return model.eval().requires_grad_(False)


def describe(
    model: Any, config: dict[str, Any], family: Family, start: int, signs: str, longest: int
) -> TransformerDescription:
    """Return what a loaded model is.

    Args:
        config: its config.json.
        start: id of the token that every sentence begins with.
        signs: ``triggers.signs``.
        longest: tokens at most, whatever the model's positions.
    """
    made, head = model.config, model.get_output_embeddings().weight
    layers = layers_of(model, made.num_hidden_layers)[1]
    down = layers[0].get_submodule(family.down)
    size = matrix(down)
    if size is None or size[1] != head.shape[1]:
        raise UserError(f"{family.down}: not a matrix to the model's width of {head.shape[1]}")
    both = signs == "both" or (signs == "auto" and family.gated)
    if both and size[0] > MOST_NEURONS:
        raise UserError(
            f"triggers.signs: {size[0]:,} memories per layer are too many for both signs, at most {MOST_NEURONS:,}",
            "set triggers.signs: positive",
        )
    window = getattr(made, "sliding_window", None) if getattr(made, "use_sliding_window", True) else None
    limits = [getattr(made, name, None) for name in ("max_position_embeddings", "seq_length")]
    positions = min([n for n in (*limits, window, longest) if n])
    unique = {p.data_ptr(): p.numel() for p in model.parameters()}
    return TransformerDescription(
        layers=len(layers), model=head.shape[1], keys=size[0], heads=made.num_attention_heads, vocab=head.shape[0],
        input_cutoffs=(head.shape[0],), adaptive_input=False, output_cutoffs=(head.shape[0],), adaptive_output=False,
        learned_positions=config["model_type"] in ("gpt2", "opt"), final_norm=True, max_positions=positions,
        embedding_scale=1.0, parameters=sum(unique.values()), aliases={}, model_type=config["model_type"], start=start,
        gated=family.gated, signs=2 if both else 1, config=config,
    )  # fmt: skip


def feed_forward(model: Any, family: Family) -> dict[str, Any]:
    """Return what decides how a claim is measured on a loaded model, for its ``info.json``.

    ``activation``: the activation function's name; ``inactive_memories``: whether it is exactly zero below zero, and no
    gate makes coefficients negative; ``wiring``, and ``norm_after``, whether a norm stands behind the values: see
    ``Family``; ``readout_bias``: whether the final norm or the output layer adds a bias.
    """
    layer = layers_of(model, model.config.num_hidden_layers)[1][0]
    function = layer.get_submodule(family.activation)
    below = torch.linspace(-8, -0.01, 100)
    added = [getattr(module, "bias", None) for module in (
        model.get_submodule(family.final_norm), model.get_output_embeddings())]  # fmt: skip
    return {
        "activation": _activation_name(model.config, function),
        "inactive_memories": not family.gated and not bool(function(below).any()),
        "wiring": family.wiring,
        "norm_after": family.norm_after is not None,
        "readout_bias": any(bias is not None and bool(bias.any()) for bias in added),
    }


def _activation_name(config: Any, function: torch.nn.Module) -> str:
    """Return an activation function's name in a model's config, or else its class's."""
    names = (
        getattr(config, name, None) for name in ("hidden_activation", "hidden_act", "activation_function", "activation")
    )
    return next((name for name in names if isinstance(name, str)), type(function).__name__)


def sizes(config: dict[str, Any], signs: str, where: str) -> TransformerDescription:
    """Return what a model is by its config.json alone; no weights are made or read, and its start token is not known.

    Raises:
        UserError: there is no row for the model, or the config is not that of such a model.
    """
    family = row(config, where)
    model = _without_weights(config, family.architecture, where)
    found = describe(model, config, family, 0, signs, sys.maxsize)
    return replace(found, parameters=sum(p.numel() for p in model.parameters()))


def _without_weights(config: dict[str, Any], architecture: str, where: str) -> Any:
    """Return a model with names and shapes alone. Raises ``UserError`` where the config is not that of such a model."""
    try:
        with torch.device("meta"):
            return getattr(transformers, architecture)._from_config(_class_config(config))
    except (ValueError, RuntimeError, LookupError, TypeError, AttributeError, ArithmeticError,
            StrictDataclassError) as error:  # fmt: skip
        first = (str(error) or type(error).__name__).splitlines()[0][:300]
        raise UserError(f"{where}: not the config of a {config['model_type']} model ({first})") from None


def _refuse_larger(model: Any, stored: dict[str, headers.Part], where: str) -> None:
    """Raise ``UserError`` for a model with far more weights than its files hold, or with absurdly large constants."""
    wanted, held = sum(p.numel() for p in model.parameters()), sum(prod(part.shape) for part in stored.values())
    if wanted > 2 * held:  # of fewer, those that are missing are named once the others are loaded
        raise UserError(
            f"{where}: config.json describes {wanted:,} weights, the files hold {held:,}",
            "give the folder with all weights that `transformers` saved with this config.json",
        )
    if (constants := sum(b.numel() * b.element_size() for b in model.buffers())) > max(CONSTANTS, 4 * wanted):
        raise UserError(
            f"{where}: config.json asks for {constants / 1e9:,.1f} GB of constants, which no such model has",
            "give the config.json that was saved with the model",
        )


def own_weights(model: Any) -> dict[str, torch.Tensor]:
    """Return a model's weights as they are saved, tied ones once."""
    out: dict[str, torch.Tensor] = {}
    seen: set[tuple[int, tuple[int, ...]]] = set()
    for name, tensor in model.state_dict().items():
        place = (tensor.data_ptr(), tuple(tensor.shape))
        if place not in seen:
            seen.add(place)
            out[name] = tensor
    return out


def fresh(own: Transformer, seed: int, draw: int) -> Transformer:
    """Return a model as `transformers` draws its weights before training; ``draw``: which of several."""
    model = drawn(own, seed, draw, packed.NAME if own.family.packed else "eager")
    return Transformer(model.to(own.device), own.description, own.family, own.precision)


def drawn(own: Transformer, seed: int, draw: int, attention: str) -> Any:
    """Return the same as `transformers`' own model, with numbers of the type that the run's model has."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(seed, f"untrained weights {draw}").integers(2**62)))
        model = getattr(transformers, own.family.architecture)._from_config(
            _class_config(own.description.config), attn_implementation=attention, dtype=torch.float32
        )
    return model.eval().requires_grad_(False).to(next(own.model.parameters()).dtype)


def _class_config(config: dict[str, Any]) -> Any:
    """Return a config.json as the object that its model class takes."""
    return transformers.CONFIG_MAPPING[config["model_type"]](
        **{name: value for name, value in config.items() if name not in ("model_type", "dtype", "torch_dtype")}
    )


def layers_of(model: nn.Module, depth: int) -> tuple[str, nn.ModuleList]:
    """Return the name and the list of a model's blocks. Raises ``UserError`` where there is none of that depth."""
    found = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == depth and len({type(part) for part in module}) == 1
        and any(matrix(part) for part in module[0].modules())
    ]  # fmt: skip
    if not found:
        raise UserError(f"{type(model).__name__}: no list of {depth} layers in it")
    return found[-1]


def matrix(module: nn.Module) -> tuple[int, int] | None:
    """Return (inputs, outputs) of a module that multiplies by a matrix; ``None`` for others."""
    if isinstance(module, nn.Linear):
        return module.in_features, module.out_features
    return (module.nx, module.nf) if isinstance(module, Conv1D) else None


def scale_of(norm: Any) -> torch.Tensor:
    """Return the scale (d,) of a norm. Raises ``UserError`` where it is neither its weight nor one plus that."""
    weight = norm.weight.detach()
    x = torch.full_like(weight, 1000.0)
    x[1::2] = -1000.0
    scale = (norm(x[None])[0] - norm(-x[None])[0]) / 2 * x.sign()
    for candidate in (weight, 1 + weight):
        if torch.allclose(candidate.float(), scale.float(), rtol=1e-2 if weight.dtype == torch.bfloat16 else 1e-4):
            return candidate
    raise UserError(f"{type(norm).__name__}: its scale is neither its weight nor one plus its weight")


def vocabulary_of(model: Any, description: TransformerDescription, family: Family, precision: Precision) -> Vocabulary:
    """Return the model's final norm and output layer as a vocabulary."""
    head = model.get_output_embeddings()
    found = Vocabulary(description, {"output.head": head.weight.detach()}, precision=precision)
    norm = model.get_submodule(family.final_norm)
    found.norm = norm
    found.scale = scale_of(norm)
    found.bias = None if head.bias is None else head.bias.detach()
    found.cap = description.config.get("final_logit_softcapping")
    return found


class _Catcher(nn.Module):
    """Stands in a layer's place while the model prepares its input; keeps what that layer would be given."""

    def __init__(self, layer: nn.Module, pair: bool):
        super().__init__()
        self.layer, self.pair = layer, pair
        self.x = torch.empty(0)
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:  # what the model looks up on its layers
            return getattr(super().__getattr__("layer"), name)

    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor | tuple[torch.Tensor, None]:
        self.x, self.args, self.kwargs = x, args, kwargs
        return (x, None) if self.pair else x


@contextlib.contextmanager
def caught(model: nn.Module, path: str, stack: nn.ModuleList, pairs: bool) -> Iterator[list[_Catcher]]:
    """Put catchers in the place of a model's layers.

    ``pairs``: whether layers return their attention weights as well, as those do that take no attention function.
    """
    parent, _, name = path.rpartition(".")
    holder = model.get_submodule(parent)
    catchers = [_Catcher(layer, pairs) for layer in stack]
    setattr(holder, name, nn.ModuleList(catchers))
    try:
        yield catchers
    finally:
        setattr(holder, name, stack)


def multiply_portably(model: nn.Module) -> None:
    """Make every matrix of a model multiply as ``products.linear`` does."""

    def forward(module: Any, x: torch.Tensor) -> torch.Tensor:
        weight = module.weight.t() if isinstance(module, Conv1D) else module.weight
        return linear(x.flatten(0, -2), weight, module.bias).unflatten(0, x.shape[:-1])

    for module in model.modules():
        if matrix(module):
            module.forward = partial(forward, module)


def _float32(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


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

"""What a model of `transformers` is: its sizes, its parts, and what decides how a claim is measured on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from ff_memories.base.errors import UserError
from ff_memories.model.families import Family
from ff_memories.model.files.config_file import SAVED
from ff_memories.model.files.converted import Description
from ff_memories.tables import MOST_NEURONS


@dataclass(frozen=True)
class TransformerDescription(Description):
    """What a model of `transformers` is."""

    model_type: str = ""  # its row in ``families``
    start: int = 0  # id of the token that every sentence begins with
    gated: bool = False  # whether coefficients are products of a gate, so both signs matter
    signs: int = 1  # 2 where negative coefficients are memories of their own (``triggers.signs``)
    config: dict[str, Any] = field(default_factory=dict)  # its config.json, without what could name code


def describe(
    model: Any, config: dict[str, Any], family: Family, start: int, signs: str, longest: int
) -> TransformerDescription:
    """Return what a loaded model is; ``longest``: tokens at most, whatever its positions."""
    settings, head = model.config, model.get_output_embeddings().weight
    layers = layers_of(model, settings.num_hidden_layers)[1]
    down = layers[0].get_submodule(family.down)
    size = matrix(down)
    if size is None or size[1] != head.shape[1]:
        raise UserError(f"{family.down}: not a matrix to the model's width of {head.shape[1]}")
    both = signs == "both" or (signs == "auto" and family.gated)
    if both and size[0] > MOST_NEURONS:
        what = f"{size[0]:,} memories per layer are too many for both signs, at most {MOST_NEURONS:,}"
        raise UserError(f"triggers.signs: {what}", "set triggers.signs: positive")
    window = getattr(settings, "sliding_window", None) if getattr(settings, "use_sliding_window", True) else None
    positions = min([n for n in (positions_of(settings), window, longest) if n])
    return TransformerDescription(
        layers=len(layers),
        model=head.shape[1],
        keys=size[0],
        heads=settings.num_attention_heads,
        vocab=head.shape[0],
        input_cutoffs=(head.shape[0],),
        adaptive_input=False,
        output_cutoffs=(head.shape[0],),
        adaptive_output=False,
        learned_positions=family.positions is not None,
        final_norm=True,
        max_positions=positions,
        embedding_scale=1.0,
        parameters=sum(p.numel() for p in model.parameters()),
        aliases={},
        model_type=config["model_type"],
        start=start,
        gated=family.gated,
        signs=2 if both else 1,
        config=config,
    )


def positions_of(config: Any) -> int:
    """Return how many positions a model has, with one set of rotary factors (LongRoPE has another for longer texts).

    Returns 0 where its config does not say. Raises ``UserError`` where it does not say how far the first set goes.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = [given for given in (rope, *rope.values()) if isinstance(given, dict)]
    long = [kind for kind in kinds if kind.get("rope_type") == "longrope"]
    if any("original_max_position_embeddings" not in kind for kind in long):
        raise UserError("config.json: longrope without original_max_position_embeddings", SAVED)
    named = [getattr(config, name, None) for name in ("max_position_embeddings", "seq_length")]
    named += [kind["original_max_position_embeddings"] for kind in long]
    return min([n for n in named if n], default=0)


def feed_forward(model: Any, family: Family) -> dict[str, Any]:
    """Return what decides how a claim is measured on a loaded model, for its ``info.json``.

    ``activation``: the activation function's name in the config, or else its class's; ``inactive_memories``: whether
    it is exactly zero below zero, and no gate makes coefficients negative; ``wiring``, and ``norm_after``, whether a
    norm stands behind the values: see ``Family``; ``readout_bias``: whether the final norm or the output layer adds a
    bias.
    """
    config = model.config
    function = layers_of(model, config.num_hidden_layers)[1][0].get_submodule(family.activation)
    keys = ("hidden_activation", "hidden_act", "activation_function", "activation")
    names = (name for name in (getattr(config, key, None) for key in keys) if isinstance(name, str))
    below = torch.linspace(-8, -0.01, 100)
    readout = model.get_submodule(family.final_norm), model.get_output_embeddings()
    added = [getattr(module, "bias", None) for module in readout]
    return {
        "activation": next(names, type(function).__name__),
        "inactive_memories": not family.gated and not bool(function(below).any()),
        "wiring": family.wiring,
        "norm_after": family.norm_after is not None,
        "readout_bias": any(bias is not None and bool(bias.any()) for bias in added),
    }


def layers_of(model: nn.Module, depth: int) -> tuple[str, nn.ModuleList]:
    """Return the name and the list of a model's blocks. Raises ``UserError`` where there is none of that depth."""
    blocks = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList)
        and len(module) == depth
        and len({type(part) for part in module}) == 1
        and any(matrix(part) for part in module[0].modules())
    ]
    if not blocks:
        raise UserError(f"{type(model).__name__}: no list of {depth} layers in it")
    return blocks[-1]


def matrix(module: nn.Module) -> tuple[int, int] | None:
    """Return (inputs, outputs) of a module that multiplies by a matrix; ``None`` for others."""
    if isinstance(module, nn.Linear):
        return module.in_features, module.out_features
    return (module.nx, module.nf) if isinstance(module, Conv1D) else None


def rows_of(module: Any) -> torch.Tensor:
    """Return the weights (outputs, inputs) of a module that multiplies by a matrix."""
    weight: torch.Tensor = module.weight.detach()
    return weight.t() if isinstance(module, Conv1D) else weight


def scale_of(norm: Any, width: int) -> torch.Tensor:
    """Return the scale (d,) of a norm; without one, ones. Raises ``UserError`` where it is not understood."""
    given = getattr(norm, "weight", None)
    weight = torch.ones(width) if given is None else given.detach()
    x = torch.full_like(weight, 1000.0)
    x[1::2] *= -len(x[::2]) / len(x[1::2])  # without a mean, whatever the width
    scale = (norm(x[None])[0] - norm(-x[None])[0]) / 2 * x.float().square().mean().sqrt() / x
    for candidate in (weight, 1 + weight):
        if torch.allclose(candidate.float(), scale.float(), rtol=1e-2 if weight.dtype == torch.bfloat16 else 1e-4):
            return candidate
    raise UserError(f"{type(norm).__name__}: its scale is neither its weight nor one plus its weight")


@contextmanager
def attention(model: Any, name: str | None) -> Iterator[None]:
    """Let a model compute with an attention function; ``None``: with its own."""
    before = model.config._attn_implementation
    model.set_attn_implementation(name or before)
    try:
        yield
    finally:
        model.set_attn_implementation(before)

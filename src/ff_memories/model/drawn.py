"""The models that a run is compared with: as its own is before training, or with its matrices' entries shuffled.

A step is given such a model as a description that names it (``steps.models``); its weights are drawn when it is loaded.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ff_memories.base import foreign
from ff_memories.base.draws import generator
from ff_memories.base.errors import UserError
from ff_memories.config.sections import SAME_SAMPLE, SHUFFLED, UNTRAINED
from ff_memories.model.decoder import Decoder, LanguageModel
from ff_memories.model.files import converted
from ff_memories.model.files.converted import Description, Weights

EMBEDDING = r"input\.\d+\.embedding|positions"  # names of weights with a row for each token or position


def named(description: Path) -> tuple[str, int] | None:
    """Return the name and the seed of the model that a description is of; ``None`` for a run's own model."""
    identity = foreign.read_json(description, dict[str, Any], text=True).get("drawn")
    return None if identity is None or identity[0] == SAME_SAMPLE else (str(identity[0]), int(identity[1]))


def untrained(description: Description, weights: Weights, seed: int, draw: int = 1) -> Weights:
    """Return weights of the same names and shapes as fairseq gives a model before training; what is tied stays tied.

    Embeddings are normal with variance one over their width, other matrices uniform as of Glorot and Bengio (2010),
    those of queries, keys and values with half the variance. Biases are 0, but for those three uniform, and scales 1.
    ``draw``: which of several such models.
    """
    draws = torch.Generator().manual_seed(int(generator(seed, f"untrained weights {draw}").integers(2**62)))

    def uniform(shape: torch.Size, most: float) -> torch.Tensor:
        return (2 * torch.rand(shape, generator=draws) - 1) * most

    def fresh(name: str) -> torch.Tensor:
        shape, attends = weights[name].shape, ".qkv." in name
        if len(shape) == 1:
            if attends:
                return uniform(shape, (shape[0] / 3) ** -0.5)
            return torch.zeros(shape) if name.endswith("bias") else torch.ones(shape)
        if re.fullmatch(EMBEDDING if description.adaptive_output else f"{EMBEDDING}|output.head", name):
            return torch.randn(shape, generator=draws) * shape[1] ** -0.5
        fans = (shape[0] / 3 if attends else shape[0]) + shape[1]
        return uniform(shape, ((3 if attends else 6) / fans) ** 0.5)

    untied = {name: fresh(name) for name in sorted(weights.keys() - description.aliases.keys())}
    return _tied(untied, description, weights)


def shuffled(description: Description, weights: Weights, seed: int, draw: int = 1) -> Weights:
    """Return weights whose matrices have their entries in a random order; biases and scales stay, as does what is tied.

    Such a model has the scale that training gave to each matrix, and nothing that it learned beside. ``draw``: which of
    several.
    """
    untied = {name: weights[name] for name in sorted(weights.keys() - description.aliases.keys())}
    return _tied(dict(in_random_order(untied, seed, draw)), description, weights)


def in_random_order(weights: Weights, seed: int, draw: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every weight by name, the entries of each matrix in a random order. The order of names matters."""
    draws = torch.Generator().manual_seed(int(generator(seed, f"shuffled weights {draw}").integers(2**62)))
    for name, own in weights.items():
        moved = own.flatten()[torch.randperm(own.numel(), generator=draws).to(own.device)] if own.dim() > 1 else own
        yield name, moved.reshape(own.shape)


def _tied(out: Weights, description: Description, weights: Weights) -> Weights:
    """Add what is tied to some of these weights, as it is in ``weights``."""
    for name, same in description.aliases.items():
        turned = weights[name].shape != weights[same].shape or not weights[name].is_contiguous()
        out[name] = out[same].t() if turned else out[same]
    return out


def model_like(own: LanguageModel, name: str, seed: int, weights: Path, description: Path) -> LanguageModel:
    """Return an untrained or shuffled model like the run's ``own``, which was read from these files.

    It is on the same device, in the same precision. Raises ``UserError`` where no model has that name.
    """
    if isinstance(own, Decoder):
        random_weights = weights_of(weights, description, seed, name)
        return Decoder(own.description, random_weights, own.device, precision=own.precision)
    from ff_memories.model.transformer.hooked import HookedModel  # the library takes seconds to load

    model: Any = own
    random_model = drawn_by_transformers(own, seed, name).to(own.device)
    return HookedModel(random_model, model.description, model.family, own.precision)


def _draw(name: str) -> tuple[bool, int]:
    """Return whether a model's weights are the run's own, shuffled, and which of several such models it is."""
    for kind in (UNTRAINED, SHUFFLED):
        if (draw := name.removeprefix(kind)) != name and draw.isdecimal():
            return kind == SHUFFLED, int(draw)
    hint = f"give {SAME_SAMPLE}, {UNTRAINED}1 and so on, or {SHUFFLED}1 and so on"
    raise UserError(f"no model of the baselines is called {name!r}", hint)


def weights_of(weights: Path, description: Path, seed: int, name: str) -> Weights:
    """Return the weights of an untrained or shuffled model like the fairseq model in these files."""
    moved, draw = _draw(name)
    return (shuffled if moved else untrained)(*converted.load(weights, description), seed, draw)


def drawn_by_transformers(own: Any, seed: int, name: str) -> Any:
    """Return an untrained or shuffled model like one of `transformers`, as it has it, with eager attention."""
    import transformers  # takes seconds to load

    from ff_memories.model.files import config_file

    moved, draw = _draw(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(seed, f"untrained weights {draw}").integers(2**62)))
        model = getattr(transformers, own.family.architecture)._from_config(
            config_file.as_class(own.description.config, "model.json"), attn_implementation="eager", dtype=torch.float32
        )
    model = model.eval().requires_grad_(False).to(own.dtype)
    if moved:
        weights = dict(own.model.named_parameters())  # where factors are rounded, a tied output layer has its own
        tied = {name: weights[name] for name, _ in model.named_parameters()}
        with torch.no_grad():
            for weight, (_, reordered) in zip(model.parameters(), in_random_order(tied, seed, draw), strict=True):
                weight.copy_(reordered)
    return model

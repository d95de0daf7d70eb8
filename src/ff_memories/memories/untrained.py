"""A model as it is before training, and the sample of the text on which it is measured: the baseline of every claim."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ff_memories.base.errors import UserError
from ff_memories.base.parameters import Execution
from ff_memories.base.seeds import generator
from ff_memories.config.running import SAME_SAMPLE, SHUFFLED, UNTRAINED
from ff_memories.corpus import store
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.types import never_trained
from ff_memories.memories import perplexity
from ff_memories.model.decoder import Decoder, LanguageModel
from ff_memories.model.files import converted
from ff_memories.model.files.converted import Description, Weights
from ff_memories.model.loading import is_transformer, load_model

MUTATED_TRIGGERS = 10  # of a key, at most: keys are resampled, not triggers, so more tell little
PREDICTED_SENTENCES = 200  # validation sentences on which an untrained model's perplexity is measured, at most


def untrained(description: Description, weights: Weights, seed: int, draw: int = 1) -> Weights:
    """Return weights of the same names and shapes as a model has before training; what is tied stays tied.

    Matrices are normal with variance one over the width of what they read, biases 0, scales 1. ``draw``: which of
    several such models.
    """
    draws = torch.Generator().manual_seed(int(generator(seed, f"untrained weights {draw}").integers(2**62)))

    def fresh(name: str) -> torch.Tensor:
        shape = weights[name].shape
        if len(shape) == 1:
            return torch.zeros(shape) if name.endswith("bias") else torch.ones(shape)
        width = shape[0] if name.endswith("values") else shape[-1]
        return torch.randn(shape, generator=draws) * width**-0.5

    return _tied(
        {name: fresh(name) for name in sorted(weights.keys() - description.aliases.keys())}, description, weights
    )


def shuffled(description: Description, weights: Weights, seed: int, draw: int = 1) -> Weights:
    """Return weights whose matrices have their entries in a random order; biases and scales stay, as does what is tied.

    Such a model has the scale that training gave to each matrix, and nothing that it learned beside. ``draw``: which of
    several.
    """
    own = {name: weights[name] for name in sorted(weights.keys() - description.aliases.keys())}
    return _tied(dict(in_random_order(own, seed, draw)), description, weights)


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


def sample(corpus: Corpus, seed: int, sentences: int) -> tuple[Corpus, np.ndarray]:
    """Return so many random training sentences and all validation sentences, and (sentences,) their numbers.

    A corpus with fewer training sentences is returned whole.
    """
    drawn = generator(seed, "baseline sentences").permutation(corpus.train)[:sentences]
    numbers = np.concatenate([np.sort(drawn), np.arange(corpus.train, len(corpus))])
    offsets = np.concatenate([[0], np.cumsum(corpus.lengths[numbers])])
    tokens = np.concatenate([corpus.tokens[:0], *(corpus.sentence(number) for number in numbers)])
    flags = corpus.begins
    if flags is not None:
        flags = np.concatenate(
            [flags[:0], *(flags[corpus.offsets[n] : corpus.offsets[n + 1]] for n in numbers.tolist())]
        )
    return Corpus(tokens, offsets, len(drawn), flags), numbers


def smaller(resolved: dict[str, Any]) -> dict[str, Any]:
    """Return a run's resolved config with the sizes of its baselines. They always draw their examples."""
    mutations, composition, sizes = (resolved[name] for name in ("mutations", "composition", "baselines"))
    least = lambda section, name, most: {name: min(section[name], most)}
    return resolved | {
        "mutations": mutations
        | least(mutations, "keys_per_layer", sizes["keys_per_layer"])
        | least(mutations, "top", MUTATED_TRIGGERS),
        "composition": composition | least(composition, "examples", sizes["examples"]) | {"sample_file": None},
    }


def predicted(model: str, sentences: int) -> int:
    """Return on how many validation sentences, at most, a model's perplexity is measured.

    ``sentences``: ``baselines.sentences``.
    """
    return min(perplexity.SENTENCES if model == SAME_SAMPLE else PREDICTED_SENTENCES, sentences)


@dataclass(frozen=True)
class Measured:
    """A model of a run's baselines, and the sample of the text on which it is measured.

    Attributes:
        decoder: the model.
        text: the sample.
        numbers: (sentences,) int64, its sentences' numbers in the run's corpus.
    """

    decoder: LanguageModel
    text: Corpus
    numbers: np.ndarray

    @classmethod
    def of(
        cls,
        name: str,
        settings: Any,
        weights: Path,
        description: Path,
        corpus: Path,
        dictionary: Path,
        execution: Execution,
    ) -> "Measured":
        """Read the run's model and text, and draw the model; arguments as of the steps, ``model_of`` and ``sample``."""
        text, numbers = sample(store.read(corpus), settings.seed, settings.baselines.sentences)
        own = load_model(weights, description, execution, settings.precision)
        decoder = model_of(name, own, settings.seed, weights, description)
        decoder.vocabulary.leave_out(never_trained(dictionary))
        return cls(decoder, text, numbers)


def model_of(name: str, own: Any, seed: int, weights: Path, description: Path) -> LanguageModel:
    """Return a model of a run's baselines: ``same_sample`` is the run's own, the others are drawn.

    Args:
        own: the run's model, read from these files.
        seed: the config's.

    Raises:
        UserError: no model has that name.
    """
    if name == SAME_SAMPLE:
        return own
    if is_transformer(description):
        from ff_memories.model.transformer.stack import Transformer  # the library takes seconds to load

        drawn = drawn_by_transformers(own, seed, name).to(own.device)
        return Transformer(drawn, own.description, own.family, own.precision)
    shape, _ = converted.load(weights, description)
    return Decoder(shape, weights_of(weights, description, seed, name), own.device, precision=own.precision)


def _draw(name: str) -> tuple[bool, int]:
    """Return whether a model's weights are the run's own, shuffled, and which of several such models it is."""
    for kind in (UNTRAINED, SHUFFLED):
        if (draw := name.removeprefix(kind)) != name and draw.isdecimal():
            return kind == SHUFFLED, int(draw)
    raise UserError(
        f"--model: no model is called {name!r}", f"give {SAME_SAMPLE}, {UNTRAINED}1 and so on, or {SHUFFLED}1 and so on"
    )


def weights_of(weights: Path, description: Path, seed: int, name: str) -> Weights:
    """Return the weights of an untrained or shuffled model like the fairseq model in these files."""
    moved, draw = _draw(name)
    return (shuffled if moved else untrained)(*converted.load(weights, description), seed, draw)


def drawn_by_transformers(own: LanguageModel, seed: int, name: str) -> Any:
    """Return an untrained or shuffled model like one of `transformers`, as it has it, with eager attention."""
    from ff_memories.model.transformer import load, stack  # the library takes seconds to load

    moved, draw = _draw(name)
    if not isinstance(own, stack.Transformer):
        raise TypeError(own)
    model = load.drawn(own, seed, draw)
    if moved:
        weights = dict(own.model.named_parameters())  # where factors are rounded, a tied output layer has its own
        tied = {name: weights[name] for name, _ in model.named_parameters()}
        with torch.no_grad():
            for weight, (_, made) in zip(model.parameters(), in_random_order(tied, seed, draw), strict=True):
                weight.copy_(made)
    return model

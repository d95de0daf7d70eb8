"""A model as it is before training, and the sample of the text on which it is measured: the baseline of every claim."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ff_memories.base.errors import UserError
from ff_memories.base.parameters import Execution
from ff_memories.base.seeds import generator
from ff_memories.corpus import store
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.types import never_trained
from ff_memories.memories import perplexity
from ff_memories.model.decoder import Decoder, LanguageModel
from ff_memories.model.files import converted
from ff_memories.model.files.converted import Description, Weights
from ff_memories.model.loading import is_transformer, load_model

SAME_SAMPLE, UNTRAINED = "same_sample", "untrained-"  # the models of a run's baselines, by name

MUTATED_TRIGGERS = 25  # of a key, at most
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

    out = {name: fresh(name) for name in sorted(weights.keys() - description.aliases.keys())}
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


def model_of(name: str, own: LanguageModel, seed: int, weights: Path, description: Path) -> LanguageModel:
    """Return a model of a run's baselines: ``same_sample`` is the run's own, ``untrained-1`` and so on are drawn.

    Args:
        own: the run's model, read from these files.
        seed: the config's.

    Raises:
        UserError: no model has that name.
    """
    if name == SAME_SAMPLE:
        return own
    draw = name.removeprefix(UNTRAINED)
    if draw == name or not draw.isdecimal():
        raise UserError(f"--model: no model is called {name!r}", f"give {SAME_SAMPLE}, or {UNTRAINED}1 and so on")
    if is_transformer(description):
        from ff_memories.model.transformer import load, stack  # the library takes seconds to load

        if not isinstance(own, stack.Transformer):
            raise TypeError(own)
        return load.fresh(own, seed, int(draw))
    shape, _ = converted.load(weights, description)
    return Decoder(shape, weights_of(weights, description, seed, int(draw)), own.device, precision=own.precision)


def weights_of(weights: Path, description: Path, seed: int, draw: int) -> Weights:
    """Return the weights of an untrained model like the fairseq model in these files."""
    return untrained(*converted.load(weights, description), seed, draw)


def drawn_by_transformers(own: LanguageModel, seed: int, draw: int) -> Any:
    """Return an untrained model like one of `transformers`, as that library holds it, with eager attention."""
    from ff_memories.model.transformer import load, stack  # the library takes seconds to load

    if not isinstance(own, stack.Transformer):
        raise TypeError(own)
    return load.drawn(own, seed, draw)

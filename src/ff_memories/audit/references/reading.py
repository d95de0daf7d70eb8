"""How a reference model of a fairseq checkpoint turns vectors into predictions."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

import torch

from ff_memories.audit.references.activations import AT_ONCE, Activations, predicts
from ff_memories.model.files.converted import Description, Weights
from ff_memories.model.vocabulary import Vocabulary


class Reading(ABC):
    """A model that reads values by ``values.projection``, and layers by its own softmax.

    Attributes:
        reading, seed: ``values.projection`` and its seed.
    """

    reading: str
    seed: int
    _other: Vocabulary | None

    @abstractmethod
    def softmax(self, h: torch.Tensor) -> torch.Tensor:
        """Return log p (..., vocab) under the model's own output layer."""

    @abstractmethod
    def vectors(self, of: str, layer: int) -> torch.Tensor:
        """Return the keys or the values (d_m, d) of layer 1..L."""

    @abstractmethod
    def final(self, h: torch.Tensor) -> torch.Tensor:
        """Return a layer's output as the softmax reads it: behind the model's final norm, if it has one."""

    def read_otherwise(self, description: Description, weights: Weights) -> Vocabulary | None:
        """Return how values are read, if it is not the model's own softmax."""
        if self.reading == "adaptive":
            return None
        double = {name: tensor.double() for name, tensor in weights.items()}
        return Vocabulary(description, double).reading(self.reading, self.seed)

    @abstractmethod
    def layers(self, tokens: Collection[int], until: int | None = None) -> list[Activations]:
        """Run one sentence (ids without ``</s>``) by itself and return the activations of layers 1 to ``until``."""

    def several(self, texts: Sequence[Collection[int]], until: int | None = None) -> list[list[Activations]]:
        """Run several sentences, one by one."""
        return [self.layers(tokens, until) for tokens in texts]

    @torch.no_grad()
    def of_value(self, h: torch.Tensor) -> torch.Tensor:
        """Return a value vector's log p (vocab,) under the config's ``values.projection`` (section 4)."""
        if self._other is None:
            return self.softmax(h)
        return self._other.log_probabilities(h.view(-1, h.shape[-1])).view(*h.shape[:-1], -1)

    @torch.no_grad()
    def of_memory(self, h: torch.Tensor) -> torch.Tensor:
        """Return a value's log p (vocab,), or those of several (n, d) as (n, vocab), as used in section 5.1."""
        return self.softmax(h) if self.reading == "random" else self.of_value(h)

    @torch.no_grad()
    def predicting(
        self, layer: int, token: int, left_out: list[int], limit: float, among: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return which of a layer's values predict a token; see ``Reference``."""
        found, tied = torch.zeros(2, len(among), dtype=torch.bool)
        values = self.vectors("value", layer)
        for rows in among.nonzero()[:, 0].split(AT_ONCE):
            found[rows], tied[rows] = predicts(self.of_memory(values[rows]), token, left_out, limit)
        return found, tied

    @torch.no_grad()
    def of_layer(self, h: torch.Tensor) -> torch.Tensor:
        """Return the log p (vocab,) of a residual, feed-forward or layer output (section 5)."""
        return self.of_memory(self.final(h))

    @torch.no_grad()
    def said(self, h: torch.Tensor) -> torch.Tensor:
        """Return the model's own log p (vocab,) for the last layer's output (d,)."""
        return self.softmax(self.final(h))

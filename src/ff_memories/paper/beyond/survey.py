"""How strongly memories fire at the ends of validation prefixes: where coefficients may be changed, and their means."""

from dataclasses import dataclass

import numpy as np

from ff_memories.base.draws import generator
from ff_memories.corpus.store import Corpus
from ff_memories.model.batches import batching
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.matmul import require_finite

POOL = 512  # prefixes that may be tested, at most, and as many others for means


@dataclass(frozen=True)
class Survey:
    """How strongly memories fire on validation prefixes."""

    sentence: np.ndarray  # (prefixes,) of those that may be tested
    position: np.ndarray  # (prefixes,) likewise
    coefficients: list[np.ndarray]  # of each layer (prefixes, d_m) float32, at these
    mean: np.ndarray  # (layers, d_m) float64, over the other prefixes
    fires: np.ndarray  # (layers, memories) how many of the other prefixes a memory is active at
    others: int  # how many there are
    lengths: np.ndarray  # (layers, d_m) float64, of the values

    def of(self, layer: int, memory: int) -> np.ndarray:
        """Return a memory's coefficients (prefixes,), with their signs changed for a memory of sign -1."""
        m = self.coefficients[layer - 1]
        return m[:, memory] if memory < m.shape[1] else -m[:, memory - m.shape[1]]


def drawn_prefixes(corpus: Corpus, seed: int, pool: int = POOL) -> tuple[np.ndarray, np.ndarray]:
    """Draw validation prefixes, one of each of ``2 * pool`` sentences at most: (prefixes,) sentence and position.

    The first and every second one may be tested; the others give the means.
    """
    rng = generator(seed, "causal prefixes")
    sentence = corpus.train + rng.permutation(len(corpus) - corpus.train)[: 2 * pool]
    return sentence, 1 + np.floor(rng.random(len(sentence)) * corpus.lengths[sentence]).astype(np.int64)


def survey(decoder: LanguageModel, corpus: Corpus, seed: int, batch_tokens: int, pool: int = POOL) -> Survey:
    """See how memories fire at the ends of ``drawn_prefixes``."""
    sentence, position = drawn_prefixes(corpus, seed, pool)
    layers, neurons = decoder.description.layers, decoder.description.keys
    tested = np.arange(len(sentence)) % 2 == 0
    row_of = np.cumsum(tested) - 1
    coefficients = [np.zeros((int(tested.sum()), neurons), np.float32) for _ in range(layers)]
    total, fires = np.zeros((layers, neurons)), np.zeros((layers, decoder.memories), np.int64)

    def run(part: np.ndarray) -> None:
        batch, is_tested = decoder.pack([corpus.sentence(sentence[i])[: position[i]] for i in part]), tested[part]
        x, at_ends = decoder.embed(batch), []
        for number, block in enumerate(decoder.layers, 1):
            layer_output = block(x, batch, last=number == layers)
            require_finite(f"layer {number}: memory coefficients", layer_output.coefficients)
            at_ends.append(layer_output.coefficients[batch.last].cpu().numpy())
            x = layer_output.output
        for number, m in enumerate(at_ends):  # all layers or none: a batch that runs out of memory runs again
            coefficients[number][row_of[part[is_tested]]] = m[is_tested]
            total[number] += m[~is_tested].sum(0, dtype=np.float64)
            active = (m[~is_tested] > 0).sum(0)
            fires[number] += active if decoder.signs == 1 else np.concatenate([active, (m[~is_tested] < 0).sum(0)])

    batching.run_batches(run, batching.by_length(position, batch_tokens), "surveyed prefixes", "causal survey")
    lengths = np.stack([block.values[:neurons].double().norm(dim=1).cpu().numpy() for block in decoder.layers])
    others = int((~tested).sum())
    return Survey(sentence[tested], position[tested], coefficients, total / max(1, others), fires, others, lengths)

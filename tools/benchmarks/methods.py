"""Ways to find the top triggers, batch by batch: the engine, and what it is compared with.

Each is a function of a batch. ``floor`` is the forward pass alone, up to the last layer's first matrix: no method that
sees every coefficient does without it.
"""

from collections.abc import Callable

import torch

from ff_memories.corpus.store import POSITIONS, Corpus
from ff_memories.model.batches import batching
from ff_memories.model.decoder import Batch, Decoder
from ff_memories.paper.keys.topk import TopTriggers
from ff_memories.paper.keys.trigger_table import prefix_starts
from ff_memories.paper.keys.triggers import Columns, run_batch

Method = Callable[[batching.Plan], None]
LOW, HIGH = POSITIONS["inner"]


def pack(decoder: Decoder, corpus: Corpus, part: batching.Plan) -> Batch:
    return decoder.pack([corpus.sentence(equal[0])[:HIGH] for equal in part])


def forward(
    decoder: Decoder, batch: Batch, look: Callable[[int, torch.Tensor], None] | None, space: batching.ScratchBuffer
) -> None:
    """Run a batch, and show ``look`` each layer's number and coefficients (rows, d_m)."""
    x = decoder.embed(batch)
    for index, layer in enumerate(decoder.layers):
        seen = layer(x, batch, last=index + 1 == len(decoder.layers), out=space.like(x, decoder.description.keys))
        if look:
            look(index, seen.coefficients)
        x = seen.output


def floor(decoder: Decoder, corpus: Corpus) -> Method:
    space = batching.ScratchBuffer()
    return lambda part: forward(decoder, pack(decoder, corpus, part), None, space)


def engine(decoder: Decoder, corpus: Corpus, per_sentence: str, best: TopTriggers) -> Method:
    """Ours, as ``trigger_examples`` runs it."""
    starts, space, columns = prefix_starts(corpus), batching.ScratchBuffer(), [Columns()] * decoder.description.layers
    return lambda part: run_batch(decoder, corpus, starts, part, best, LOW, HIGH, per_sentence, columns, space)


def lists(decoder: Decoder, top: int) -> TopTriggers:
    """Return empty lists of a model's keys."""
    shape = decoder.description
    return TopTriggers(shape.layers, decoder.memories, top, device=decoder.device, precision=decoder.precision)


def hook_and_cache(decoder: Decoder, corpus: Corpus, running: "RunningLists") -> Method:
    """As analysis libraries do it: cache all activations of a batch, then take the top of each layer and merge."""
    space = batching.ScratchBuffer()

    def run(part: batching.Plan) -> None:
        batch = pack(decoder, corpus, part)
        cache: dict[int, torch.Tensor] = {}
        forward(decoder, batch, lambda layer, coefficients: cache.__setitem__(layer, coefficients.clone()), space)
        running.add(cache, len(batch.tokens))

    return run


class RunningLists:
    """The plain way to keep lists: (t, d_m) coefficients and prefixes' numbers per layer, with each batch's top."""

    def __init__(self, decoder: Decoder, top: int):
        shape, device = decoder.description, decoder.device
        self.top, self.rows = top, 0
        self.value = [torch.zeros(top, shape.keys, device=device) for _ in range(shape.layers)]
        self.prefix = [torch.zeros(top, shape.keys, dtype=torch.int64, device=device) for _ in range(shape.layers)]

    def add(self, cache: dict[int, torch.Tensor], rows: int) -> None:
        """Merge the top of a batch of so many rows into the lists; ``cache``: coefficients (rows, d_m) by layer."""
        for layer, coefficients in cache.items():
            batch = coefficients.topk(min(self.top, rows), dim=0)
            merged = torch.cat([self.value[layer], batch.values]).topk(self.top, dim=0)
            self.value[layer] = merged.values
            self.prefix[layer] = torch.cat([self.prefix[layer], batch.indices + self.rows]).gather(0, merged.indices)
        self.rows += rows

"""Compute the released code's 'layer' and 'dim' columns on the run's examples (`released_layer`, `released_dim`)."""

from ff_memories import tables
from ff_memories.base.parameters import Execution, Input, Output
from ff_memories.corpus import store
from ff_memories.model.loading import load_decoder
from ff_memories.released import columns


def run(
    weights: Input,
    description: Input,
    corpus: Input,
    examples: Input,
    released_layer: Output,
    released_dim: Output,
    execution: Execution,
) -> None:
    tables.require_precision(examples, "float32")
    decoder = load_decoder(weights, description, execution)
    layer, dim = columns.columns(decoder, store.read(corpus), tables.read(examples), execution.batch_tokens)
    tables.write(dim, released_dim)
    tables.write(layer, released_layer)

"""Beyond the paper: change memories' coefficients, and remove several together (tables `causal` and `removals`)."""

from ff_memories import tables
from ff_memories.base.parameters import Execution, Input, Output, Shard
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.model.loading import load_model
from ff_memories.paper.beyond import causal as changes
from ff_memories.paper.beyond import removals as removed
from ff_memories.paper.keys import memory_selection


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    causal: Output,
    removals: Output,
    causal_counts: Output,
    removal_counts: Output,
    execution: Execution,
    shard: Shard = (1, 1),
) -> None:
    """Measure one shard of the changed coefficients and of the prefixes; the first one counts what was left out."""
    text = store.read(corpus)
    decoder = load_model(weights, description, execution, config.precision)
    looked_at = memory_selection.of_model(config.looked_at, decoder, config)
    seed, batch_tokens = config.seed, execution.batch_tokens
    tested, changed = changes.table(decoder, text, config.causal, config.values, seed, batch_tokens, looked_at, shard)
    without = removed.table(decoder, text, config.removals, seed, batch_tokens, shard)
    layers, keys = decoder.description.layers, decoder.description.keys
    zero = sum(int((block.added[:keys] == 0).all(1).sum()) for block in decoder.layers)  # both signs counted once
    tables.write_counts("causal", changes.reasons(tested, layers, zero, config.causal), causal_counts, shard)
    tables.write_counts("removals", removed.reasons(text, seed, config.removals, keys), removal_counts, shard)
    tables.write(changed, causal, decoder.precision, decoder.neurons)
    tables.write(without, removals, decoder.precision)

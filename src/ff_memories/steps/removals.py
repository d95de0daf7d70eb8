"""Beyond the paper: remove several memories together at validation prefixes (table `removals`)."""

from ff_memories import tables
from ff_memories.base.parameters import Execution, Input, Output, Shard
from ff_memories.base.sharding import shard_of
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.memories import removals as removed
from ff_memories.model.loading import load_model


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    removals: Output,
    counts: Output,
    execution: Execution,
    shard: Shard = "1-of-1",
) -> None:
    """Measure one shard of the prefixes; the first one counts what was left out of all of them."""
    text, own = store.read(corpus), shard_of(shard)
    decoder = load_model(weights, description, execution, config.precision)
    found = removed.table(
        decoder, text, config.removals, seed=config.seed, batch_tokens=execution.batch_tokens, shard=own
    )
    reasons = removed.reasons(text, config.seed, config.removals, decoder.description.keys)
    tables.write_counts("removals", reasons if own[0] == 1 else dict.fromkeys(reasons, 0), counts)
    tables.write(found, removals, decoder.precision)

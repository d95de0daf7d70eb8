"""Beyond the paper: change memories' coefficients at validation prefixes and see what follows (table `causal`)."""

from ff_memories import tables
from ff_memories.base.parameters import Execution, Input, Output, Shard
from ff_memories.base.sharding import shard_of
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.memories import causal as changes
from ff_memories.memories.search import chosen
from ff_memories.model.loading import load_model


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    causal: Output,
    counts: Output,
    execution: Execution,
    shard: Shard = "1-of-1",
) -> None:
    """Measure one shard of the changed coefficients; the first one counts what was left out of all of them."""
    text, own = store.read(corpus), shard_of(shard)
    decoder = load_model(weights, description, execution, config.precision)
    drawn, found = changes.table(
        decoder,
        text,
        config.causal,
        config.values,
        seed=config.seed,
        batch_tokens=execution.batch_tokens,
        looked_at=chosen.of_model(config.looked_at, decoder, config),
        shard=own,
    )
    reasons = changes.reasons(drawn, decoder.description.layers, changes.values_of_zero_length(decoder), config.causal)
    tables.write_counts("causal", reasons if own[0] == 1 else dict.fromkeys(reasons, 0), counts)
    tables.write(found, causal, decoder.precision, decoder.neurons)

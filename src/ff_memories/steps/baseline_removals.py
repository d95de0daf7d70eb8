"""Remove memories together in a model of the baselines: one shard of its table `removals`."""

from ff_memories import tables
from ff_memories.base.parameters import Execution, Input, Output, Shard, Wildcard
from ff_memories.base.sharding import shard_of
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.memories import removals as removed
from ff_memories.memories import untrained
from ff_memories.model.loading import load_model


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    model: Wildcard,
    removals: Output,
    execution: Execution,
    shard: Shard = "1-of-1",
) -> None:
    """Measure one shard, at the first of the validation prefixes that the run takes.

    Args:
        model: as of baseline-triggers
    """
    fewer = config.removals.model_copy(update={"prefixes": min(config.removals.prefixes, removed.OF_BASELINES)})
    own = load_model(weights, description, execution, config.precision)
    decoder = untrained.model_of(model, own, config.seed, weights, description)
    text, part = store.read(corpus), shard_of(shard)
    found = removed.table(decoder, text, fewer, seed=config.seed, batch_tokens=execution.batch_tokens, shard=part)
    tables.write(found, removals, decoder.precision)

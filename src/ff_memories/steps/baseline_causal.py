"""Change memories' coefficients in a model of the baselines: one shard of its table `causal`."""

from ff_memories import tables
from ff_memories.base.parameters import Execution, Input, Output, Shard, Wildcard
from ff_memories.base.sharding import shard_of
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.memories import causal as changes
from ff_memories.memories import untrained
from ff_memories.memories.search import chosen
from ff_memories.model.loading import load_model


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    model: Wildcard,
    causal: Output,
    execution: Execution,
    shard: Shard = "1-of-1",
) -> None:
    """Measure one shard, of fewer memories and on the same validation prefixes as in the run.

    Args:
        model: as of baseline-triggers
    """
    fewer = config.causal.model_copy(update={"keys_per_layer": min(config.causal.keys_per_layer, changes.OF_BASELINES)})
    own = load_model(weights, description, execution, config.precision)
    decoder = untrained.model_of(model, own, config.seed, weights, description)
    _, found = changes.table(
        decoder,
        store.read(corpus),
        fewer,
        config.values,
        seed=config.seed,
        batch_tokens=execution.batch_tokens,
        looked_at=chosen.of_model(config.looked_at, decoder, config),
        shard=shard_of(shard),
    )
    tables.write(found, causal, decoder.precision, decoder.neurons)

"""Find the triggers of a model of the baselines, in one shard of the sample of the text."""

from ff_memories.base.parameters import Execution, Input, Output, Shard, Wildcard
from ff_memories.base.sharding import shard_of
from ff_memories.config import Settings
from ff_memories.memories.search import chosen
from ff_memories.memories.search.shards import save
from ff_memories.memories.search.triggers import trigger_examples
from ff_memories.memories.untrained import Measured


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    dictionary: Input,
    model: Wildcard,
    lists: Output,
    execution: Execution,
    shard: Shard = "1-of-1",
) -> None:
    """Find the triggers of one shard of the sample's batches.

    Args:
        model: untrained-1, untrained-2, ... (random weights, different in each), or same_sample
        lists: file to write: the shard's trigger lists
    """
    measured = Measured.of(model, config, weights, description, corpus, dictionary, execution)
    options, decoder, text = config.triggers, measured.decoder, measured.text
    best = trigger_examples(
        decoder,
        text,
        [(0, text.train)],
        top=options.top,
        positions=options.positions,
        per_sentence=options.per_sentence,
        duplicates=options.duplicates,
        batch_tokens=execution.batch_tokens,
        keys=chosen.of_model(options.keys, decoder, config),
        shard=shard_of(shard),
    )
    save(best, lists)

"""E1: find every key's top triggers in one shard of the training text."""

from pathlib import Path

from ff_memories.base.parameters import WHOLE, Execution, Input, Output, Shard, share
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.model.batches import batching
from ff_memories.model.loading import is_transformer, load_model
from ff_memories.paper.keys import memory_selection
from ff_memories.paper.keys.topk import TopTriggers, save
from ff_memories.paper.keys.trigger_table import require_enough
from ff_memories.paper.keys.triggers import trigger_examples


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    lists: Output,
    execution: Execution,
    shard: Shard = (1, 1),
) -> None:
    """Find the triggers of one shard.

    Args:
        lists: file to write: the shard's trigger lists
    """
    save(search(config, weights, description, store.read(corpus), execution, shard), lists)


def search(
    config: Settings, weights: Path, description: Path, text: store.Corpus, execution: Execution, shard: Shard = WHOLE
) -> TopTriggers:
    """Return the lists of one shard of the training text."""
    options, lengths = config.triggers, text.lengths[: text.train]
    decoder = load_model(weights, description, execution, config.precision)
    if text.numbers is None:
        require_enough(text, options.top, options.positions, options.per_sentence)
        # other blocks change last bits: those of fairseq's models are the recorded runs'
        block = batching.fitting(lengths) if is_transformer(description) else batching.BLOCK_TOKENS
        blocks, of_batches = list(share(batching.blocks(lengths, block), shard)), WHOLE
        blocks = batching.joined(blocks, lengths) if decoder.device.type == "cuda" else blocks
    else:
        blocks, of_batches = [(0, text.train)], shard  # a sample is one block
    return trigger_examples(
        decoder,
        text,
        blocks,
        top=options.top,
        positions=options.positions,
        per_sentence=options.per_sentence,
        duplicates=options.duplicates,
        batch_tokens=execution.batch_tokens,
        keys=memory_selection.of_model(options.keys, decoder, config),
        shard=of_batches,
    )

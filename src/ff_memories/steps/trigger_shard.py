"""E1: find every key's top triggers in one shard of the training text."""

import torch

from ff_memories.base.parameters import Execution, Input, Output, Param, Shard
from ff_memories.base.sharding import shard_of
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.memories.search import batching, chosen
from ff_memories.memories.search.checkpoints import Checkpoint, fingerprint
from ff_memories.memories.search.shards import save
from ff_memories.memories.search.trigger_table import require_enough
from ff_memories.memories.search.triggers import trigger_examples
from ff_memories.model.loading import is_transformer, load_model


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    shard: Shard,
    code: Param | None,
    lists: Output,
    execution: Execution,
    checkpoint_seconds: float = 60,
) -> None:
    """Find the triggers of one shard.

    Args:
        code: digest of the step's sources; a state saved by other code is ignored
        lists: file to write: the shard's trigger lists; while the step runs, its saved state is next to it
        checkpoint_seconds: seconds between saves of the state, from which an interrupted step resumes
    """
    triggers, text = config.triggers, store.read(corpus)
    lengths = text.lengths[: text.train]
    require_enough(text, triggers.top, triggers.positions, triggers.per_sentence)
    number, shards = shard_of(shard)
    # other blocks change last bits: those of fairseq's models are the recorded runs'
    block = batching.fitting(lengths) if is_transformer(description) else batching.BLOCK_TOKENS
    parts = batching.shard(lengths, number - 1, shards, block)
    decoder = load_model(weights, description, execution, config.precision)
    asked = chosen.of_model(triggers.keys, decoder, config)
    made_from = fingerprint(
        [weights, description, corpus],
        shard=shard,
        triggers=triggers.model_dump() | {"keys": asked},
        extraction=config.extraction.model_dump(),
        arithmetic=[_computes(decoder.device), execution.threads, execution.batch_tokens, torch.__version__],
        code=code,
    )
    checkpoint = Checkpoint(lists, made_from, checkpoint_seconds)
    best = trigger_examples(
        decoder,
        text,
        batching.joined(parts, lengths) if decoder.device.type == "cuda" else parts,
        top=triggers.top,
        positions=triggers.positions,
        per_sentence=triggers.per_sentence,
        duplicates=triggers.duplicates,
        batch_tokens=execution.batch_tokens,
        checkpoint=checkpoint,
        keys=asked,
    )
    save(best, lists)
    checkpoint.remove()


def _computes(device: torch.device) -> str:
    """Return the device that determines a number's last bits: ``cpu``, or a GPU's model, since GPUs may differ."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)

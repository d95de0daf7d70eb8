"""E1: find every key's top trigger prefixes in one shard of the training text."""

import argparse

import torch

from ff_memories.corpus import store
from ff_memories.memories import batching
from ff_memories.memories.checkpoints import Checkpoint, fingerprint
from ff_memories.memories.shards import save
from ff_memories.memories.triggers import require_enough, trigger_examples
from ff_memories.steps.common import Configured, config_argument, load_decoder, model_arguments, shard_of


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    model_arguments(parser)
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--shard", required=True, help="which one: 1-of-4")
    parser.add_argument("--out", required=True, help="the shard's lists, to write; its state lies beside it meanwhile")
    parser.add_argument(
        "--code", default="", help="digest of the step's sources: a state that other code left is not used"
    )
    parser.add_argument(
        "--checkpoint-seconds", type=float, default=60, help="how often the state is kept, to go on from when killed"
    )


def run(args: Configured) -> None:
    triggers = args.config.triggers
    corpus = store.read(args.corpus)
    require_enough(corpus, triggers.top, triggers.positions, triggers.per_sentence)
    number, shards = shard_of(args.shard)
    decoder = load_decoder(args)
    made_from = fingerprint(
        [args.weights, args.description, args.corpus],
        shard=args.shard,
        triggers=triggers.model_dump(),
        extraction=args.config.extraction.model_dump(),
        arithmetic=[_computes(decoder.device), args.threads, args.batch_tokens, torch.__version__],
        code=args.code,
    )
    checkpoint = Checkpoint(args.out, made_from, args.checkpoint_seconds)
    best = trigger_examples(
        decoder,
        corpus,
        batching.shard(corpus.lengths[: corpus.train], number - 1, shards),
        top=triggers.top,
        positions=triggers.positions,
        per_sentence=triggers.per_sentence,
        duplicates=triggers.duplicates,
        batch_tokens=args.batch_tokens,
        checkpoint=checkpoint,
    )
    save(best, args.out)
    checkpoint.remove()


def _computes(device: torch.device) -> str:
    """Return what a number's last bits depend on: ``cpu``, or a GPU's model, for a job may get any of several GPUs."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)

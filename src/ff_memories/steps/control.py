"""The control of Figures 4, 7, 8 and 9: the same measures of an untrained model of the same shape (`control`)."""

import argparse

import numpy as np

from ff_memories import tables
from ff_memories.base.seeds import generator
from ff_memories.corpus import store
from ff_memories.memories import composition, untrained, values
from ff_memories.model import checkpoint
from ff_memories.model.decoder import Decoder
from ff_memories.steps.common import Configured, config_argument, load_decoder, model_arguments


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    model_arguments(parser)
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--control", required=True, help="table to write")


def run(args: Configured) -> None:
    config, corpus = args.config, store.read(args.corpus)
    device = load_decoder(args).device
    description, weights = checkpoint.load(args.weights, args.description)
    decoder = Decoder(description, untrained.untrained(description, weights, config.seed), device)
    if config.values.projection != "random":
        decoder.vocabulary = decoder.vocabulary.reading(config.values.projection)
    tops = values.value_tops(decoder, decoder.vocabulary)
    drawn = generator(config.seed, "control sentences").permutation(corpus.train)[: untrained.SENTENCES]
    targets = untrained.top_targets(decoder, corpus, np.sort(drawn), config.values.target, args.batch_tokens)
    options = config.composition
    examples = composition.sample_examples(
        corpus.lengths[corpus.train :], corpus.train, examples=min(options.examples, untrained.EXAMPLES),
        sample=options.sample, positions=options.positions, seed=config.seed,
    )  # fmt: skip
    seen = composition.observe(
        decoder, corpus, examples, tops, layer_prediction=options.layer_prediction, memories=options.memories,
        batch_tokens=args.batch_tokens,
    )  # fmt: skip
    tables.write(untrained.table(targets, tops, seen), args.control)

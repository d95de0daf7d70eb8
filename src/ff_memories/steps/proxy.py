"""E2 by the automatic proxy: patterns in the triggers of random keys, and how good the proxy is on this text."""

import argparse

import polars as pl

from ff_memories import tables
from ff_memories.base.seeds import generator
from ff_memories.corpus import store
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.patterns import ANNOTATOR, proxy, quality, sample, scoring
from ff_memories.steps.common import Configured, check_dictionary, config_argument, write_counts


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    parser.add_argument("--triggers", required=True, help="table")
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--dictionary", required=True, help="the model's dict.txt")
    parser.add_argument("--weights", required=True, help="model.safetensors")
    parser.add_argument("--description", required=True, help="model.json")
    parser.add_argument("--annotations", required=True, help="table to write")
    parser.add_argument("--labels", required=True, help="table of pattern_labels to write")
    parser.add_argument("--scores", required=True, help="table of annotation_scores to write: the proxy's quality here")
    parser.add_argument("--counts", required=True, help="counts to write")


def run(args: Configured) -> None:
    import torch

    from ff_memories.model.decoder import Decoder

    seed, options = args.config.seed, args.config.patterns
    triggers = tables.read(args.triggers)
    corpus, dictionary = store.read(args.corpus), Dictionary.read(args.dictionary)
    torch.set_num_threads(1)  # seconds of work on small matrices: the same numbers on any machine
    decoder = Decoder.load(args.weights, args.description)
    shape, embedding = decoder.description, decoder.embedding
    check_dictionary(args.dictionary, dictionary, shape.vocab)
    keys = sample.read_keys(triggers, corpus, options.keys_per_layer, options.top, seed)
    annotator = proxy.Annotator.of(corpus, dictionary, embedding, triggers, seed)
    annotations, labels = proxy.annotate(annotator, keys)
    counts = {
        "keys_with_too_few_triggers": shape.layers * shape.keys - sample.keys_with_enough(triggers).height,
        "keys_sampled": len(keys),
        "keys_short_of_the_sample": shape.layers * options.keys_per_layer - len(keys),
        "keys_without_pattern": len(keys) - annotations.select("layer", "key").n_unique(),
        "prefixes_shown": len(labels),
        "prefixes_short_of_the_sample": len(keys) * options.top - len(labels),
    }
    write_counts("proxy", counts, args.counts)
    tables.write(annotations, args.annotations)
    tables.write(labels, args.labels)
    planted = quality.cases(annotator, corpus, triggers, options.top, seed, generator(seed, "planted patterns"))
    rows = [(ANNOTATOR, *row) for row in quality.scores(annotator, planted)]
    rows += [(ANNOTATOR, *row) for row in scoring.of_annotator(annotations, labels, seed)]
    schema = tables.TABLES["annotation_scores"].columns
    tables.write(pl.DataFrame(rows, schema=schema, orient="row"), args.scores)

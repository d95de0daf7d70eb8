"""E2 and E14 by proxy: patterns in the triggers of random keys, distances of the last layer's compositions."""

from ff_memories import tables
from ff_memories.corpus import store
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.errors import UserError
from ff_memories.patterns import distance, proxy, sample
from ff_memories.patterns.embedding import train_counts
from ff_memories.steps.common import config_argument, write_counts


def arguments(parser):
    config_argument(parser)
    parser.add_argument("--triggers", required=True, help="table")
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--dictionary", required=True, help="the model's dict.txt")
    parser.add_argument("--weights", required=True, help="model.safetensors")
    parser.add_argument("--description", required=True, help="model.json")
    parser.add_argument("--examples", required=True, help="table")
    parser.add_argument("--refinement", required=True, help="table")
    parser.add_argument("--annotations", required=True, help="table to write")
    parser.add_argument("--labels", required=True, help="table of pattern_labels to write")
    parser.add_argument("--distances", required=True, help="table of distance_labels to write")
    parser.add_argument("--counts", required=True, help="counts to write")


def run(args):
    import torch

    from ff_memories.model.decoder import Decoder

    seed, options = args.config.seed, args.config.patterns
    triggers, refinement = tables.read(args.triggers), tables.read(args.refinement)
    distance.check_examples(refinement, tables.read(args.examples))
    corpus, dictionary = store.read(args.corpus), Dictionary.read(args.dictionary)
    torch.set_num_threads(1)  # seconds of work on small matrices: the same numbers on any machine
    decoder = Decoder.load(args.weights, args.description)
    shape, embedding = decoder.description, decoder.embedding
    if len(dictionary) != shape.vocab:
        raise UserError(
            f"{args.dictionary}: {len(dictionary)} types, the model has {shape.vocab}",
            "give model.dictionary the dict.txt that the checkpoint was trained with",
        )
    keys = sample.read_keys(triggers, corpus, options.keys_per_layer, options.top, seed)
    annotator = proxy.Annotator.of(corpus, dictionary, embedding, triggers, seed)
    annotations, labels = proxy.annotate(annotator, keys)
    cases = distance.compositions(refinement, seed)
    closer = distance.Closeness.of(decoder.vocabulary.word_vectors(), train_counts(corpus, len(dictionary)), seed)
    distances = distance.label(cases, dictionary.types, closer)
    counts = {
        "keys_with_too_few_triggers": shape.layers * shape.keys - sample.keys_with_enough(triggers).height,
        "keys_sampled": len(keys),
        "keys_short_of_the_sample": shape.layers * options.keys_per_layer - len(keys),
        "keys_without_pattern": len(keys) - annotations.select("layer", "key").n_unique(),
        "prefixes_shown": len(labels),
        "prefixes_short_of_the_sample": len(keys) * options.top - len(labels),
        "compositions_labelled": len(distances),
        "compositions_short_of_the_sample": distance.CASES - len(distances),
    }
    write_counts("patterns", counts, args.counts)
    tables.write(annotations, args.annotations)
    tables.write(labels, args.labels)
    tables.write(distances, args.distances)

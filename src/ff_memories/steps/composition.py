"""E8-E13: how memories compose and layers refine, on validation prefixes (`examples`, `composition`, `refinement`)."""

import argparse
from pathlib import Path

import polars as pl

from ff_memories import tables
from ff_memories.corpus import sample, store, texts
from ff_memories.memories import composition, values
from ff_memories.steps.common import Configured, config_argument, load_decoder, model_arguments, write_counts


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    model_arguments(parser)
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--values", required=True, help="table")
    parser.add_argument("--sample", nargs="*", default=[], type=Path, help="composition.sample_file, where it is given")
    parser.add_argument("--sentences", nargs="*", default=[], help="table, where a sample is given")
    for table in ("examples", "composition", "refinement"):
        parser.add_argument(f"--{table}", required=True, help="table to write")
    parser.add_argument("--counts", required=True, help="counts to write")


def run(args: Configured) -> None:
    options, corpus, decoder = args.config.composition, store.read(args.corpus), load_decoder(args)
    shape = decoder.description
    examples = _given(args, corpus) if args.sample else _drawn(args, corpus)
    projection = args.config.values.projection
    if projection == "random":  # the released code draws projections in its agreement script alone
        tops = values.value_tops(decoder, decoder.vocabulary)
    else:
        decoder.vocabulary = decoder.vocabulary.reading(projection)
        tops = tables.read(args.values).sort("layer", "key")["top_token"].to_numpy().reshape(shape.layers, shape.keys)
    seen = composition.observe(
        decoder,
        corpus,
        examples,
        tops,
        layer_prediction=options.layer_prediction,
        memories=options.memories,
        batch_tokens=args.batch_tokens,
    )
    made = composition.tables(examples, seen, corpus)
    both = pl.col("residual_top") == pl.col("ffn_top")
    broken = made["refinement"].filter(both & (pl.col("output_top") != pl.col("residual_top"))).height
    reasons = {
        "examples": len(examples),
        "examples_missing": 0 if args.sample else options.examples - len(examples),
        "residual_and_ffn_agree_output_differs": broken,
    }
    write_counts("composition", reasons, args.counts)
    for name, frame in made.items():
        tables.write(frame, getattr(args, name))


def _drawn(args: Configured, corpus: store.Corpus) -> pl.DataFrame:
    options = args.config.composition
    return composition.sample_examples(
        corpus.lengths[corpus.train :],
        corpus.train,
        examples=options.examples,
        sample=options.sample,
        positions=options.positions,
        seed=args.config.seed,
    )


def _given(args: Configured, corpus: store.Corpus) -> pl.DataFrame:
    validation = tables.read(args.sentences[0]).filter(pl.col("split") == "validation")
    return sample.read(args.sample[0], texts.of_sentences(validation), corpus.lengths)

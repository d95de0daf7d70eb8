"""The gallery: a static site of every key's triggers beside its value, with search and filters."""

import argparse
from dataclasses import replace
from pathlib import Path

import polars as pl

from ff_memories import tables
from ff_memories.card import read_card
from ff_memories.errors import UserError
from ff_memories.gallery import predictions, shading, site
from ff_memories.gallery.material import Material
from ff_memories.report.passages import Texts
from ff_memories.steps.common import Configured, config_argument, load_decoder, model_arguments

TABLES = ("triggers", "values", "mutations", "annotations", "pattern_labels", "sentences")


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    model_arguments(parser)
    for name in TABLES:
        parser.add_argument(f"--{name.replace('_', '-')}", required=True, help="table")
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--dictionary", required=True, help="the checkpoint's dict.txt")
    parser.add_argument("--card", required=True, help="card.json")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="to write; open its index.html")


def run(args: Configured) -> None:
    card, texts = read_card(args.card), Texts.read(args.sentences, args.corpus, args.dictionary)
    given = {name: tables.read(getattr(args, name)) for name in TABLES}
    decoder, options = load_decoder(args), args.config.gallery
    shape = decoder.description
    if (shape.layers, shape.keys) != (card["layers"], card["keys"]):
        raise UserError(f"{args.card}: describes another model than {args.description}", "run snakemake again")
    if shape.vocab != len(texts.dictionary):
        raise UserError(f"{args.dictionary}: {len(texts.dictionary)} token types, the model has {shape.vocab}")
    material = Material(
        shape.layers, shape.keys, texts, given["triggers"], given["values"], given["mutations"], given["annotations"],
        given["pattern_labels"], given["sentences"], options.triggers, options.shaded,
    )  # fmt: skip
    shaded = material.triggers.filter(pl.col("rank") <= options.shaded)
    reading = decoder.vocabulary.reading(args.config.values.projection, args.config.values.projection_seed)
    material = replace(
        material,
        shades=shading.prefix_coefficients(decoder, texts.corpus, shaded, args.batch_tokens),
        tops=predictions.top_tokens(decoder, reading, given["values"], options.tokens),
    )
    site.build(args.out, material, args.config, card)

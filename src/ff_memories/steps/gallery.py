"""The gallery: a static site of every key's triggers beside its value, with search and filters."""

import argparse
from pathlib import Path

from ff_memories import tables
from ff_memories.card import read_card
from ff_memories.errors import UserError
from ff_memories.gallery import site
from ff_memories.gallery.material import Material
from ff_memories.report.passages import Texts
from ff_memories.steps.common import Configured, config_argument

TABLES = ("triggers", "values", "mutations", "annotations", "pattern_labels", "sentences", "shading", "promoted")


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    for name in TABLES:
        parser.add_argument(f"--{name.replace('_', '-')}", required=True, help="table")
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--dictionary", required=True, help="the checkpoint's dict.txt")
    parser.add_argument("--card", required=True, help="card.json")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="to write; open its index.html")


def run(args: Configured) -> None:
    card, texts = read_card(args.card), Texts.read(args.sentences, args.corpus, args.dictionary)
    given = {name: tables.read(getattr(args, name)) for name in TABLES}
    options = args.config.gallery
    if card["vocab"] != len(texts.dictionary):
        raise UserError(f"{args.dictionary}: {len(texts.dictionary)} token types, the model has {card['vocab']}")
    material = Material(
        card["layers"], card["keys"], texts, given["triggers"], given["values"], given["mutations"],
        given["annotations"], given["pattern_labels"], given["sentences"], given["shading"], given["promoted"],
        options.triggers, options.shaded,
    )  # fmt: skip
    site.build(args.out, material, args.config, card)

"""The gallery: a static site of every key's triggers beside its value, with search and filters."""

import argparse
from pathlib import Path

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.model.info import read_info
from ff_memories.report.gallery import site
from ff_memories.report.gallery.material import Material
from ff_memories.report.passages import Texts
from ff_memories.steps.common import Configured, config_argument

TABLES = ("triggers", "values", "mutations", "annotations", "pattern_labels", "sentences", "shading", "promoted")


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    for name in TABLES:
        parser.add_argument(f"--{name.replace('_', '-')}", required=True, help="table")
    parser.add_argument("--corpus", required=True, help="corpus.safetensors")
    parser.add_argument("--dictionary", required=True, help="the checkpoint's dict.txt")
    parser.add_argument("--info", required=True, help="info.json")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="to write; open its index.html")


def run(args: Configured) -> None:
    info, texts = read_info(args.info), Texts.read(args.sentences, args.corpus, args.dictionary)
    given = {name: tables.read(getattr(args, name)) for name in TABLES}
    options = args.config.gallery
    if info["vocab"] != len(texts.dictionary):
        raise UserError(f"{args.dictionary}: {len(texts.dictionary)} token types, the model has {info['vocab']}")
    material = Material(
        info["layers"], info["keys"], texts, given["triggers"], given["values"], given["mutations"],
        given["annotations"], given["pattern_labels"], given["sentences"], given["shading"], given["promoted"],
        options.triggers, options.shaded,
    )  # fmt: skip
    site.build(args.out, material, args.config, info)

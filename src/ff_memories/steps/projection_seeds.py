"""What the released agreement script's random projections and dropout do to ranks, over seeds (`projection_seeds`)."""

import argparse

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.options import whole
from ff_memories.steps.common import Configured, config_argument, load_decoder, model_arguments


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    model_arguments(parser)
    parser.add_argument("--values", required=True, help="table, for the token that every value is compared with")
    parser.add_argument("--seeds", type=whole(), default=20, help="how many, from values.projection_seed on")
    parser.add_argument("--out", required=True, metavar="projection_seeds.parquet", help="table to write")


def run(args: Configured) -> None:
    from ff_memories.released.random_projections import rank_table

    decoder, first = load_decoder(args), args.config.values.projection_seed
    if decoder.vocabulary.classes is None:
        raise UserError(
            "projection-seeds: the model's softmax has no projections to draw", "it is for models with an adaptive one"
        )
    tables.write(rank_table(decoder, tables.read(args.values), range(first, first + args.seeds)), args.out)

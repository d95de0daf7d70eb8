"""What the released agreement script's random projections and dropout do to ranks, over seeds (`projection_seeds`)."""

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import Execution, Input, Output
from ff_memories.config import Settings
from ff_memories.model.loading import load_decoder
from ff_memories.released.random_projections import rank_table


def run(
    config: Settings,
    weights: Input,
    description: Input,
    values: Input,
    projection_seeds: Output,
    execution: Execution,
    seeds: int = 20,
) -> None:
    """Rank every value's token under projections of several seeds.

    Args:
        values: table, for the token that every value is compared with
        seeds: how many, from values.projection_seed on
    """
    decoder, first = load_decoder(weights, description, execution), config.values.projection_seed
    if decoder.vocabulary.classes is None:
        raise UserError(
            "projection-seeds: the model's softmax has no projections to draw", "it is for models with an adaptive one"
        )
    tables.write(rank_table(decoder, tables.read(values), range(first, first + seeds)), projection_seeds)

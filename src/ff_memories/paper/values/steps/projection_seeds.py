"""Measure how the released script's random projections and dropout change ranks, by seed (table `projection_seeds`)."""

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import Execution, Input, Output
from ff_memories.config import Settings
from ff_memories.model.loading import load_decoder
from ff_memories.paper.values.projection_seeds import rank_table


def run(
    config: Settings,
    weights: Input,
    description: Input,
    values: Input,
    projection_seeds: Output,
    execution: Execution,
    seeds: int = 20,
) -> None:
    """Rank every value's target token under the projections of several seeds.

    Args:
        values: the table values, for each value's target token
        seeds: number of seeds, starting at values.projection_seed
    """
    decoder, first = load_decoder(weights, description, execution), config.values.projection_seed
    if decoder.vocabulary.classes is None:
        raise UserError(
            "projection-seeds: the model's softmax has no projections to draw", "use a model with an adaptive softmax"
        )
    tables.write(rank_table(decoder, tables.read(values), range(first, first + seeds)), projection_seeds)

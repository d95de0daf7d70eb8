"""Write an annotation study's forms for the browser."""

from ff_memories import tables
from ff_memories.annotate import distance, forms, study
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import Input, Output
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.types import read_types


def run(
    config: Settings,
    plan: Input,
    triggers: Input,
    examples: Input,
    refinement: Input,
    corpus: Input,
    dictionary: Input,
    patterns: Output,
    distances: Output,
) -> None:
    """Write the forms.

    Args:
        patterns: the form for the patterns of keys, patterns.html
        distances: the form for the distances of compositions, distance.html
    """
    text, types, options = store.read(corpus), read_types(dictionary), config.patterns
    items = study.items(tables.read(triggers), text, types, options.keys_per_layer, options.top, config.seed)
    if [i.item for i in items] != tables.read(plan).sort("order")["item"].to_list():
        raise UserError(f"{plan}: does not belong to these triggers", "run the workflow again")
    compositions = distance.compositions(tables.read(refinement), config.seed)
    cases = distance.compared(compositions, tables.read(examples), text, types, config.seed)
    write_whole(patterns, forms.pattern_form(config.run, items))
    write_whole(distances, forms.distance_form(config.run, cases))

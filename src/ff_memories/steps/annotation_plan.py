"""E2: draw the items to show to annotators: keys, repeated keys and foils, in random order (`annotation_plan`)."""

from ff_memories import tables
from ff_memories.base.parameters import Input, Output
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.types import read_types
from ff_memories.patterns import annotation_plan


def run(config: Settings, triggers: Input, corpus: Input, dictionary: Input, plan: Output) -> None:
    options = config.patterns
    shown = annotation_plan.items(
        tables.read(triggers),
        store.read(corpus),
        read_types(dictionary),
        options.keys_per_layer,
        options.top,
        config.seed,
    )
    tables.write(annotation_plan.table(shown), plan, neurons=tables.neurons_of(triggers))

"""Draw the models that the run is compared with, and the sample of the text on which they are measured."""

from ff_memories.base.parameters import Input, Output, Outputs
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.model import drawn


def run(config: Settings, corpus: Input, description: Input, sample: Output, descriptions: Outputs) -> None:
    """Write what each model is drawn from, and the sample.

    Args:
        sample: the corpus to write
        descriptions: the models' descriptions to write, each in a folder with its model's name
    """
    for path in descriptions:
        drawn.describe(path.parent.name, config.seed, description, path)
    store.write_sample(store.read(corpus).sample(config.seed, config.baselines.sentences), sample)

"""Draw the sample of the text on which the models are measured that the run is compared with."""

from ff_memories.base.parameters import Input, Output
from ff_memories.config import Settings
from ff_memories.corpus import store


def run(config: Settings, corpus: Input, sample: Output) -> None:
    """Write the sample, a corpus too."""
    store.write_sample(store.read(corpus).sample(config.seed, config.baselines.sentences), sample)

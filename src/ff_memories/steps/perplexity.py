"""Measure how well the models of the baselines predict the validation text: the run's own among them."""

import gc

from ff_memories.base.files import write_json
from ff_memories.base.parameters import Execution, Input, Inputs, Outputs
from ff_memories.config import Settings
from ff_memories.config.sections import SAME_SAMPLE
from ff_memories.corpus import store
from ff_memories.corpus.tokenizer import never_trained, read_types
from ff_memories.model import perplexity
from ff_memories.model.loading import load_model


def run(
    config: Settings,
    weights: Input,
    descriptions: Inputs,
    corpus: Input,
    dictionary: Input,
    perplexities: Outputs,
    execution: Execution,
) -> None:
    """Measure one model after another.

    Args:
        descriptions: the models' descriptions, each in a folder with its model's name
        perplexities: the JSON files to write, in the same order
    """
    text, types = store.read(corpus), read_types(dictionary)
    for description, path in zip(descriptions, perplexities, strict=True):
        model = load_model(weights, description, execution, config.precision)
        model.vocabulary.leave_out(never_trained(dictionary))
        most = perplexity.SENTENCES if description.parent.name == SAME_SAMPLE else perplexity.OF_UNTRAINED
        sentences = min(most, config.baselines.sentences)
        measured = perplexity.perplexity(model, text, config.seed, execution.batch_tokens, sentences)
        measured["in_windows"] = perplexity.in_windows(model, text, types, sentences)
        write_json(path, measured)
        del model
        gc.collect()  # a model refers to itself: without this, two drawn ones would be in memory

"""The control of Figures 4, 7, 8 and 9: the same measures of an untrained model of the same shape (`control`)."""

import numpy as np

from ff_memories import tables
from ff_memories.base.parameters import Execution, Input, Output
from ff_memories.base.seeds import generator
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.dictionary import never_trained
from ff_memories.memories import composition, untrained, values
from ff_memories.model import converted
from ff_memories.model.decoder import Decoder
from ff_memories.model.loading import load_decoder


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    dictionary: Input | None,
    control: Output,
    execution: Execution,
) -> None:
    text = store.read(corpus)
    precision = config.precision
    device = load_decoder(weights, description, execution, precision).device
    shape, trained = converted.load(weights, description)
    decoder = Decoder(shape, untrained.untrained(shape, trained, config.seed), device, precision=precision)
    if config.values.projection != "random":
        decoder.vocabulary = decoder.vocabulary.reading(config.values.projection)
    decoder.vocabulary.leave_out(never_trained(dictionary))
    types: str = config.values.types
    tops = {types: values.value_tops(decoder, decoder.vocabulary)[types]}
    drawn = generator(config.seed, "control sentences").permutation(text.train)[: untrained.SENTENCES]
    targets = untrained.top_targets(decoder, text, np.sort(drawn), config.values.target, execution.batch_tokens)
    options = config.composition
    examples = composition.sample_examples(
        text.lengths[text.train :], text.train, examples=min(options.examples, untrained.EXAMPLES),
        sample=options.sample, positions=options.positions, seed=config.seed,
    )  # fmt: skip
    seen = composition.observe(
        decoder, text, examples, tops, layer_prediction=options.layer_prediction, memories=options.memories,
        batch_tokens=execution.batch_tokens,
    )  # fmt: skip
    tables.write(untrained.table(targets, tops[types], seen, types), control, precision)

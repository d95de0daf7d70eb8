"""E10: count stop words and short prefixes among cases where a memory agrees with its layer (`agreeing`)."""

from ff_memories import tables
from ff_memories.base.parameters import Input, Output
from ff_memories.claims import measures
from ff_memories.claims.register import register
from ff_memories.claims.stop_words import stop_words
from ff_memories.config import Settings
from ff_memories.corpus.types import read_types


def run(config: Settings, composition: Input, examples: Input, dictionary: Input, agreeing: Output) -> None:
    options = config.composition
    cases = measures.agreeing_cases(
        tables.read(composition),
        tables.read(examples),
        stop_words(options.stop_words, read_types(dictionary)),
        "output_top" if options.layer_prediction == "output" else "ffn_top",
    )
    short = next(claim.parameters["shorter_than"] for claim in register() if "shorter_than" in claim.parameters)
    tables.write(measures.agreeing_by_layer(cases, short), agreeing)

"""E3: compute the coefficients of triggers without their first, last or a random token, or word (table `mutations`)."""

from ff_memories import tables
from ff_memories.base.parameters import Execution, Input, Output, Shard
from ff_memories.config import Settings
from ff_memories.corpus import store
from ff_memories.corpus.store import Words
from ff_memories.model.loading import load_model
from ff_memories.paper.keys import memory_selection, trigger_table
from ff_memories.paper.keys import mutations as mutants


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    triggers: Input,
    mutations: Output,
    counts: Output,
    execution: Execution,
    shard: Shard = (1, 1),
) -> None:
    """Run one shard of the mutated triggers; the first one counts what was left out of all of them."""
    options, text = config.mutations, store.read(corpus)
    decoder = load_model(weights, description, execution, config.precision)
    chosen = mutants.sample(
        trigger_table.read(triggers, decoder, text, decoder.precision),
        decoder.description.layers,
        decoder.memories,
        options,
        config.seed,
        looked_at=decoder.signs
        * memory_selection.count(config.looked_at, decoder.description.layers, decoder.description.keys),
        words=Words.of(text) if options.unit == "word" else None,
    )
    rows = mutants.of_shard(decoder, text, chosen.rows, execution.batch_tokens, shard)
    mutated = mutants.mutated_coefficients(decoder, text, rows, execution.batch_tokens)
    tables.write_counts("mutations", chosen.counts if shard[0] == 1 else dict.fromkeys(chosen.counts, 0), counts)
    tables.write(mutants.table(rows, mutated), mutations, decoder.precision, decoder.neurons)

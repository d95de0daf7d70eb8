"""What the steps of section 3 cost."""

from ff_memories.plan.costs import Measured, Work


def works(model: Measured) -> dict[str, Work]:
    """Return the work of each step, by its rule."""
    options, text, lists = model.config.mutations, model.text, model.lists
    # three prefixes of half a sentence, which share what they begin with and run through half of the layers
    mutated = min(model.looked_at, options.keys_per_layer * model.shape.layers) * options.top * 3 * text.sentence / 4
    return {
        "triggers": Work("corpus", text.train, 0, 0, 3 * lists, model.jobs * lists, "trigger_shard"),
        "mutations": Work("triggers", mutated, 0, 0, lists, 0.02 * lists, "trigger_shard"),
    }

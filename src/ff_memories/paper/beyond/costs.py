"""What changing coefficients and removing memories costs."""

from ff_memories.plan.costs import Measured, Work

SURVEYED_BYTES = 0.5e9  # of what ``survey`` gathers and reads besides coefficients
POOL, CONTROLS = 512, 4  # as ``survey`` and ``causal`` name them, which load torch


def works(model: Measured) -> dict[str, Work]:
    """Return the work of the step, by its rule: prefixes run whole, and their changes from the changed layers on."""
    config, shape, text, causal = model.config, model.shape, model.text, model.config.causal
    tested = shape.layers * causal.keys_per_layer * causal.prefixes
    changes = tested * (len(causal.interventions) + CONTROLS - 1)
    surveyed = model.jobs * min(text.validation / 2, POOL * text.sentence) if tested else 0
    # each prefix runs twice; a row's vector is a sum of values, and both predictions are read before and after
    prefixes, rows = config.removals.prefixes, shape.layers * (1 + len(config.removals.memories))  # rows of a prefix
    removed = rows * prefixes
    batch = min(prefixes, config.execution.tokens // rows + 1)  # prefixes
    coefficients = 4 * POOL * shape.layers + batch * rows  # bytes per memory: of the survey, and which a row removes
    tokens = (changes + removed + min(tested, POOL) * text.sentence) / 2 + prefixes * text.sentence + surveyed
    products, reads = 2 * changes + 3 * removed, 8 * changes + 9 * removed
    memory = SURVEYED_BYTES + coefficients * shape.keys / shape.signs
    return {"interventions": Work("corpus", tokens, products, reads, memory)}

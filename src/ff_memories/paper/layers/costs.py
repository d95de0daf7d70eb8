"""What the step of section 5 costs."""

from ff_memories.plan.costs import Measured, Work

IN_PART = 0.15  # of all products, what it takes to know which values predict one of a layer's tokens


def works(model: Measured) -> dict[str, Work]:
    """Return the work of the step, by its rule."""
    shape, examples = model.shape, model.config.composition.examples
    # it needs the predictions of all values, of which a part of the words tells most apart from a layer's
    others = model.jobs * (model.cells if model.looked_at < model.cells else 0) * (IN_PART if shape.plain else 1)
    reads = 3 * shape.layers * examples + others  # a layer's input, update and output are read
    products, memory = reads + (model.a_value - 1) * others, examples * model.cells / 8
    return {"composition": Work("values", examples * model.text.sentence, products, reads, memory, 0.02 * model.lists)}

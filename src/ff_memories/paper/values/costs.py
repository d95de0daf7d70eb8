"""What the step of section 4 costs."""

from ff_memories.plan.costs import Measured, Work

TILE = 4096  # as ``values`` names it, which loads torch


def works(model: Measured) -> dict[str, Work]:
    """Return the work of the step, by its rule; an adaptive softmax projects whole tiles."""
    looked_at, lists = model.looked_at, model.lists
    products = model.a_value * (looked_at if model.shape.plain else min(model.cells, looked_at * TILE))
    return {"values": Work("triggers", 0, products, looked_at, lists, 0.02 * lists, "values")}

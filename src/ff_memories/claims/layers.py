"""Map the paper's layers to a model of any depth: layer l of L corresponds to 16 l / L of the paper's 16."""

PAPER = 16


def between(bounds: list[int], layers: int) -> list[int]:
    """Return the layers that correspond to the paper's layers ``bounds[0]`` to ``bounds[1]``, inclusive.

    For 16 layers, these are the same layers. Otherwise they follow relative depth; a shallow model may have none.
    """
    first, last = bounds
    return [layer for layer in range(1, layers + 1) if (first - 1) * layers < PAPER * layer <= last * layers]


def at(layer: int, layers: int) -> int:
    """Return the layer that corresponds to a layer of the paper, by relative depth and at least 1."""
    return max(1, layer * layers // PAPER)


def tally(holding: dict[int, bool], layers: int, needed: int = PAPER) -> tuple[bool | None, str]:
    """Judge "in at least ``needed`` of 16 layers", scaled to ``layers``.

    Args:
        holding: whether the claim holds, for each layer in which it could be measured.

    Returns:
        The answer and its explanation. The answer is ``None`` if the layers without data would decide.
    """
    held = sum(holding.values())
    unknown = layers - len(holding)
    text = f"in {held} of {layers} layers"
    if unknown:
        text += f", {unknown} without data"
    if held * PAPER >= needed * layers:
        return True, text
    return (None if (held + unknown) * PAPER >= needed * layers else False), text


def both(one: bool | None, other: bool | None) -> bool | None:
    """Return whether both hold. ``None`` is unknown; one failure decides."""
    if one is False or other is False:
        return False
    return None if one is None or other is None else True

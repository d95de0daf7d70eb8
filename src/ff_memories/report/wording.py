"""Format pieces of sentences: counted things, capitals and full stops."""


def counted(n: int, one: str, many: str) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{n:,} {one if n == 1 else many}"


def finished(text: str) -> str:
    """Return text with a capital and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def looked_at(asked: int | dict[int, list[int]] | None, neurons: int, seed: int) -> str:
    """Return in words which memories a run looks at (``triggers.keys``); empty for all.

    Args:
        neurons: d_m.
        seed: of the sample.
    """
    if asked is None:
        return ""
    if isinstance(asked, int):
        return f"{asked:,} of {neurons:,} memories per layer, drawn with seed {seed}"
    named = counted(sum(map(len, asked.values())), "listed memory", "listed memories")
    return f"{named} in {counted(len(asked), 'layer', 'layers')} of {neurons:,} memories each"

"""The keys that say how many, or which, memories to look at or to show."""

from typing import Annotated, Any

from pydantic import BeforeValidator


def _chosen(given: Any) -> Any:
    """Check how many or which memories a config asks for; in JSON the layers are strings."""
    wrong = "expected a number of memories per layer, or by layer a list of memories, such as {3: [17, 255]}"
    plain = lambda n, low, high: isinstance(n, int) and not isinstance(n, bool) and low <= n <= high
    if given is None or plain(given, 1, 65_536):
        return given
    if not isinstance(given, dict) or not given:
        raise ValueError(wrong)
    out = {int(layer) if isinstance(layer, str) and layer.isdecimal() else layer: own for layer, own in given.items()}
    for layer, own in out.items():
        if not plain(layer, 1, 255) or not isinstance(own, list) or not own:
            raise ValueError(f"{wrong}; found {layer!r}: {own!r}")
        if odd := [memory for memory in own if not plain(memory, 0, 65_535)]:
            raise ValueError(f"layer {layer}: {odd[0]!r} is not the number of a memory")
        if len(set(own)) < len(own):
            raise ValueError(f"layer {layer}: a memory is listed twice")
    if len(out) < len(given):
        raise ValueError("a layer is listed twice")
    return out


Chosen = Annotated[int | dict[int, list[int]] | None, BeforeValidator(_chosen)]

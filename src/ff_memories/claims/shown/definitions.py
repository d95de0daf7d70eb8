"""Say how a claim is defined on a model of `transformers` where the paper's definition does not carry over as it is."""

from collections.abc import Mapping
from typing import Any

from ff_memories.claims.register import register

LINEAR = (
    "it holds by construction: neither the final norm nor the output layer adds a bias, so r, y and o are read by one "
    "linear map"
)
BIASED = "it is measured, not given: the final norm or the output layer adds a bias, so exceptions are possible"
BOTH = "coefficients below zero make a memory of their own, with the value −v"


def definition(claim: str, info: Mapping[str, Any], memories: str = "active") -> str:
    """Return in one sentence how a claim's definition differs from the paper's; nothing if it does not.

    Args:
        claim: its id.
        info: the run's model info.
        memories: ``composition.memories``.
    """
    if info["scope"] != "model":
        return ""
    rests_on = next(known.rests_on for known in register() if known.id == claim)
    said = [text for part, text in _differences(info, memories) if part in rests_on]
    return f"On this model, {'; '.join(said)}." if said else ""


def _differences(info: Mapping[str, Any], memories: str) -> list[tuple[str, str]]:
    """Return what a claim may rest on that differs, and how."""
    function = info.get("activation", "its activation function")
    out = []
    if info.get("gated"):
        coefficient = f"a coefficient is {function} of the gate times the up projection"
        out.append(("coefficients", coefficient + (f", and {BOTH}" if info.get("signs", 1) > 1 else "")))
    elif info.get("signs", 1) > 1:
        out.append(("coefficients", f"a coefficient is {function} of the key's product, and {BOTH}"))
    elif not info.get("inactive_memories"):
        out.append(
            ("coefficients", f"a coefficient is {function} of the key's product, and only those above zero are ranked")
        )
    if info.get("norm_after"):
        out.append(("values", "a value is scaled by the norm behind the feed-forward layer"))
    if memories == "share:0.9":
        out.append(("active memories", "the active memories are the fewest that make 90 % of what the layer adds"))
    elif memories == "active" and not info.get("inactive_memories"):
        sign = "every memory is active, with the sign of its coefficient"
        half = "active memories have a coefficient above zero, but those below zero add something too"
        out.append(("active memories", sign if info.get("signs", 1) > 1 else half))
    if info.get("final_norm"):
        out.append(("predictions", "r, y and o are read through the final norm and the output layer"))
    if info.get("wiring") == "parallel":
        out.append(
            (
                "predictions",
                "r is what y is added to, which the feed-forward layer, parallel to attention, did not read",
            )
        )
    out.append(("sums", BIASED if info.get("readout_bias", True) else LINEAR))
    return out

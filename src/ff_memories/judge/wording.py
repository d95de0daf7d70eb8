"""Say claims and verdicts in words, which ``wording.toml`` holds."""

import re
import tomllib
from collections import Counter
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import polars as pl

from ff_memories.judge.numbers import measured
from ff_memories.model.info import MARKS
from ff_memories.tables import SAMPLED
from ff_memories.tables.annotation import ANNOTATOR

PAPERS = "K"  # the first letter of the paper's claims
PROXY = "labelled by an automatic proxy"
OWN_TEXT = "on text sampled from the model"
SAMPLED_TEXT = (
    "the text was sampled from the model, so next tokens are its own draws: agreement is higher than on text that "
    "people wrote"
)
TYPES = {"all": "among all types", "trained": "without the types that are never trained"}
LINEAR = (
    "it holds by construction: neither the final norm nor the output layer adds a bias, so r, y and o are read by one "
    "linear map"
)
BIASED = "it is measured, not given: the final norm or the output layer adds a bias, so exceptions are possible"
BOTH = "coefficients below zero make a memory of their own, with the value −v"
BULLET = "- "


@cache
def contents() -> dict[str, Any]:
    """Return what ``wording.toml`` holds."""
    return tomllib.loads(files("ff_memories.judge").joinpath("wording.toml").read_text(encoding="utf-8"))


VERDICTS: Mapping[str, Mapping[str, str]] = contents()["verdict"]
TRAINING: Mapping[str, str] = contents()["training"]
LIMITS: Mapping[str, str] = contents()["limit_source"]
BASELINES: Mapping[str, str] = contents()["baseline"]


def natural(claim: str) -> tuple[bool, str, int]:
    """Return a sort key that puts K2 before K10, and the paper's claims before others."""
    letters = claim.rstrip("0123456789")
    return beyond(claim), letters, int(claim[len(letters) :] or 0)


def beyond(claim: str) -> bool:
    """Return whether a claim is not the paper's, but goes beyond it."""
    return not claim.startswith(PAPERS)


def self_sampled(counts: pl.DataFrame) -> bool:
    """Return whether a run's text was sampled from its model, by the table `counts`."""
    return bool(counts.filter(pl.col("reason") == SAMPLED)["n"].sum())


def notes(reason: str | None) -> list[str]:
    """Return what must stand beside a claim's number, by the reason in the table `claims`."""
    return [note for note, mark in ((PROXY, ANNOTATOR), (OWN_TEXT, SAMPLED_TEXT)) if mark in (reason or "")]


def sentence(row: Mapping[str, Any]) -> str:
    """Return the sentence of a claim that has a number. ``row``: of ``report.outline.rows``."""
    return _filled(row["sentence"], row["measured"], row["unit"])


def beside(row: Mapping[str, Any]) -> str:
    """Return what stands beside a claim's sentence: its verdict, and the same number elsewhere."""
    parts = [f"{row['claim']} {'not judged' if row['verdict'] == 'measured' else word(row['verdict'])}"]
    if row["judged_as"] != row["measured_as"] and row["judged_unit"] != "number" and row["judged"] is not None:
        parts[0] += f", judged by the {row['judged_as']}: {measured(row['judged'], row['judged_unit'])}"
    if not row["beyond"]:
        parts.append(f"paper: {row['paper_value'].replace(';', ',')}")
    if row["baseline"] is not None:
        signed = re.search(r"\{size\} \{[^}]*\}", row["sentence"])
        form = signed[0] if signed else "{value}"
        here = "" if row["sample"] is None else f"same sentences: {_filled(form, row['sample'], row['unit'])}, "
        same = ", the same" if row["training"] == "same" else ""
        parts.append(f"{here}untrained {_filled(form, row['baseline'], row['unit'])}{same}")
    guessed = {other["baseline"]: other["measured"] for other in row["baselines"]}.get("unigram")
    if guessed is not None and guessed >= row["measured"]:
        parts.append(f"always guessing the most frequent token: {measured(guessed, row['unit'])}")
    parts += [part for part in (row["reason"] or "").split("; ") if part.endswith(tuple(TYPES.values()))]
    return "; ".join([*parts, *row["notes"]])


def _filled(text: str, value: float, unit: str) -> str:
    chosen = re.sub(r"\{([^{}|]*)\|([^{}]*)\}", lambda words: words[1 if value > 0 else 2], text)
    return chosen.format(value=measured(value, unit), size=measured(abs(value), unit))


def counts(claims: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Return the count of each verdict on the paper's claims, as shown.

    ``claims``: the content of a run's ``claims.json``, or other rows by claim.
    """
    papers = (row for claim, row in claims.items() if not beyond(claim))
    return dict(Counter(shown(row["verdict"], row.get("measured")) for row in papers))


def line(run: str, scope: str, verdicts: Mapping[str, int]) -> str:
    """Return ``demo (surrogate): 11 hold, 5 fail, 14 measured``."""
    tally = [f"{verdicts[verdict]} {words['many']}" for verdict, words in VERDICTS.items() if verdict in verdicts]
    whose = MARKS["model"] if scope == "model" else scope
    return f"{run} ({whose}): {', '.join(tally)}"


def word(verdict: str) -> str:
    """Return a verdict in words."""
    return VERDICTS[verdict]["word"]


def shown(verdict: str, measured: float | None) -> str:
    """Return the verdict to show: a claim that has a number but cannot be judged by it counts as measured."""
    return "measured" if verdict == "not_applicable" and measured is not None else verdict


def first_lines(markdown: str, heading: str) -> list[str] | None:
    """Return a run's first lines, the bullets of its ``summary.md``, as text for a terminal.

    Args:
        markdown: the file's text.
        heading: ``line`` of the run's current verdicts. If the file's heading differs, it is stale: return ``None``.
    """
    text = re.sub(r"\\(.)", r"\1", markdown)
    if not text.startswith(f"# {heading}\n"):
        return None
    return [line.removeprefix(BULLET) for line in text.splitlines() if line.startswith(BULLET)]


def definition(rests_on: Collection[str], info: Mapping[str, Any], memories: str = "active") -> str:
    """Return in one sentence how a claim's definition differs from the paper's; nothing if it does not.

    Args:
        rests_on: what the claim rests on (``rests_on`` in claims.toml).
        info: the run's model info.
        memories: ``composition.memories``.
    """
    if info["scope"] != "model":
        return ""
    differences = [text for part, text in _differences(info, memories) if part in rests_on]
    return f"On this model, {'; '.join(differences)}." if differences else ""


def _differences(info: Mapping[str, Any], memories: str) -> list[tuple[str, str]]:
    """Return what a claim may rest on that differs, and how."""
    function, both = info.get("activation", "its activation function"), info.get("signs", 1) > 1
    inactive = info.get("inactive_memories")
    product = f"a coefficient is {function} of the key's product"
    out = []
    if info.get("gated"):
        gate = f"a coefficient is {function} of the gate times the up projection"
        out.append(("coefficients", gate + (f", and {BOTH}" if both else "")))
    elif both:
        out.append(("coefficients", f"{product}, and {BOTH}"))
    elif not inactive:
        out.append(("coefficients", f"{product}, and only those above zero are ranked"))
    if info.get("norm_after"):
        out.append(("values", "a value is scaled by the norm behind the feed-forward layer"))
    if memories == "share:0.9":
        out.append(("active memories", "the active memories are the fewest that make 90 % of what the layer adds"))
    elif memories == "active" and not inactive:
        sign = "every memory is active, with the sign of its coefficient"
        half = "active memories have a coefficient above zero, but those below zero add something too"
        out.append(("active memories", sign if both else half))
    if info.get("final_norm"):
        out.append(("predictions", "r, y and o are read through the final norm and the output layer"))
    if info.get("wiring") == "parallel":
        parallel = "r is what y is added to, which the feed-forward layer, parallel to attention, did not read"
        out.append(("predictions", parallel))
    out.append(("sums", BIASED if info.get("readout_bias", True) else LINEAR))
    return out

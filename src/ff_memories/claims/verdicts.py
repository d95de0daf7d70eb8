"""Turn measurements into verdicts. Only the paper's own model and corpus can reproduce a claim."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import polars as pl

from ff_memories.claims.checks import composition, mutations, patterns, refinement, values
from ff_memories.claims.evidence import Evidence, Missing
from ff_memories.claims.measurement import Measurement
from ff_memories.claims.numbers import measured
from ff_memories.claims.register import Claim
from ff_memories.claims.statistics import holm, p_value
from ff_memories.tables import TABLES, conform

PROXY = "automatic proxy"
JUDGED = ("reproduced", "not_reproduced", "holds", "holds_as_untrained", "fails")
FEWEST = 10  # units that a test needs; resamples of fewer are not informative
OF_TYPES = ("values", "composition")  # checks that depend on the types among which values predict
TYPES = {"all": "among all types", "trained": "without the types that are never trained"}
# Imported by name, so the imports show what a verdict depends on.
CHECKS = {m.__name__.rpartition(".")[2]: m for m in (values, composition, mutations, patterns, refinement)}


def check_of(claim: Claim) -> Callable[..., Measurement]:
    """Return a claim's check, ``(evidence, **parameters) -> Measurement``."""
    module, name = claim.check.split(".")
    return getattr(CHECKS[module], name)


def _joined(*parts: str) -> str | None:
    return "; ".join(part for part in parts if part) or None


def _beside(claim: Claim, found: Measurement, types: str, evidence: Evidence) -> str:
    """Return the measurement under the other choice of ``values.types`` in words, or nothing if it is equal."""
    other = check_of(claim)(evidence, **claim.parameters)
    if other.value == found.value:
        return ""
    return f"{measured(other.value, claim.unit)} {TYPES[types]}"


def judge(
    claim: Claim, found: Measurement, scope: str, untrained: Mapping[str, Any] | None = None
) -> tuple[str, str | None]:
    """Return the verdict on a claim and its reason.

    On the paper's own model: ``reproduced`` or ``not_reproduced``. On other models only directional claims are judged:
    ``holds``, ``holds_as_untrained`` if at least half of the untrained models meet the claim too, or ``fails``.
    Other claims are ``measured`` if they have a number and ``not_applicable`` if not. On the paper's model, claims that
    people judged are ``not_attempted`` by a proxy.

    Args:
        untrained: the claim's row of the table ``baselines``, if there is one.
    """
    note = PROXY if found.proxy else ""
    if not claim.judged(scope):
        why = "not judged on a surrogate model" if scope == "surrogate" else "a number of the paper's model: not judged"
        if found.value is None:
            return "not_applicable", _joined(why if scope == "surrogate" else "", note, found.reason)
        return "measured", _joined(why, note, found.reason)
    if found.ok is None:
        return "not_applicable", _joined(note, found.reason or "no data")
    if scope != "paper":
        alike = found.ok and untrained is not None and 0 < untrained["runs"] <= 2 * untrained["holding"]
        return ("holds_as_untrained" if alike else "holds" if found.ok else "fails"), _joined(note, found.reason)
    if claim.human and found.proxy:
        return "not_attempted", _joined(f"{PROXY}, which cannot reproduce human judgements", found.reason)
    return ("reproduced" if found.ok else "not_reproduced"), _joined(note, found.reason)


def verdicts(
    claims: Iterable[Claim], evidence: Evidence, scope: str, baselines: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Measure and judge every claim; return the ``claims`` table.

    Args:
        baselines: the table; without it, verdicts ignore untrained models.
    """
    rows: list[dict[str, Any]] = []
    beside = evidence.beside()
    untrained = (
        {}
        if baselines is None
        else {row["claim"]: row for row in baselines.filter(pl.col("baseline") == "untrained").iter_rows(named=True)}
    )
    for claim in claims:
        try:
            found = check_of(claim)(evidence, **_asked(claim, scope))
            verdict, reason = judge(claim, found, scope, untrained.get(claim.id))
            if beside is not None and claim.check.split(".")[0] in OF_TYPES:
                reason = _joined(reason or "", _beside(claim, found, *beside))
        except Missing as missing:
            found, verdict, reason = Measurement(), "not_attempted", str(missing)
        rows.append({
            "claim": claim.id, "statement": claim.statement, "source": claim.source, "paper_value": claim.paper,
            "measured": found.value, "low": found.low, "high": found.high, "n": found.n,
            "scope": scope, "verdict": verdict, "baseline": untrained.get(claim.id, {}).get("measured"),
            "resampled": claim.resampled if found.low is not None else None, "p": _p(claim, found, verdict),
            "reason": reason,
        })  # fmt: skip
    tested = [row for row in rows if row["p"] is not None]
    corrected = dict(zip((row["claim"] for row in tested), holm([row["p"] for row in tested]), strict=True))
    schema = TABLES["claims"]
    made = [row | {"p_holm": corrected.get(row["claim"])} for row in rows]
    return conform(pl.DataFrame(made, schema=schema.columns), schema)


def _asked(claim: Claim, scope: str) -> dict[str, Any]:
    """Return a check's parameters. For other models than the paper's, ``direction`` replaces some of them."""
    own = claim.model if scope == "model" else {}
    return {**claim.parameters, **(claim.direction if scope != "paper" else {}), **own}


def _p(claim: Claim, found: Measurement, verdict: str) -> float | None:
    """Return the p-value of a judged claim's direction; ``None`` if it is not judged or has no test."""
    if verdict not in JUDGED or claim.null is None or found.draws is None or not len(found.draws):
        return None
    if found.n is not None and found.n < FEWEST:
        return None
    return p_value(found.draws, claim.null, claim.alternative)

"""Turn measurements into verdicts. Only the paper's own model and corpus can reproduce a claim."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import polars as pl

from ff_memories.base import sections
from ff_memories.judge import training
from ff_memories.judge.evidence import Evidence, Missing
from ff_memories.judge.measurement import Measurement
from ff_memories.judge.numbers import measured
from ff_memories.judge.register import Claim
from ff_memories.judge.statistics import holm, p_value
from ff_memories.judge.wording import SAMPLED_TEXT, TYPES
from ff_memories.tables import SHOWS, TABLES, conform

PROXY = "automatic proxy"
JUDGED = tuple(dict.fromkeys(verdict for pair in SHOWS.values() for verdict in pair))
FEWEST = 10  # units that a test needs; resamples of fewer are not informative
OF_TYPES = ("values", "layers")  # sections with checks that depend on the types among which values predict


def measure(claim: Claim, evidence: Evidence) -> Measurement:
    """Measure a claim. Raises ``Missing`` if the run did not collect the data that it needs."""
    section, name = claim.check.split(".")
    check: Callable[..., Measurement] = getattr(sections.modules("ff_memories.paper.*.claims")[section], name)
    return check(evidence, limit=claim.limit, **claim.parameters)


def _joined(*parts: str) -> str | None:
    return "; ".join(part for part in parts if part) or None


def judge(claim: Claim, measurement: Measurement, scope: str) -> tuple[str, str | None, str | None]:
    """Return the verdict on a claim, its reason, and whether the model shows what the claim says (``SHOWS``).

    A claim without a limit is ``measured`` if it has a number and ``not_applicable`` if not. On the paper's model,
    claims that people judged are ``not_attempted`` by a proxy. Claims beyond the paper hold or fail; there is nothing
    to reproduce.
    """
    note = PROXY if measurement.proxy else ""
    if claim.limit is None:
        verdict = "not_applicable" if measurement.value is None else "measured"
        return verdict, _joined(note, measurement.reason), None
    units = f"too few {claim.resampled}: {measurement.units or 0:,}, and {claim.least:,} are needed"
    lacks = measurement.judged is not None and (measurement.units or 0) < claim.least
    few = measurement.few or (units if lacks else "")
    if measurement.judged is None and not few:
        return "not_applicable", _joined(note, measurement.reason or "no data"), None
    if scope == "paper" and claim.human and measurement.proxy:
        return "not_attempted", _joined(f"{PROXY}, which cannot reproduce human judgements", measurement.reason), None
    shows = "undecided" if few or measurement.judged is None else measurement.judged.shows
    return SHOWS[shows][scope != "paper" or claim.beyond], _joined(note, few, measurement.reason), shows


def verdicts(
    claims: Iterable[Claim],
    evidence: Evidence,
    scope: str,
    baselines: pl.DataFrame | None = None,
    self_sampled: bool = False,
) -> pl.DataFrame:
    """Measure and judge every claim; return the ``claims`` table.

    Without the table ``baselines``, nothing is said of training. ``self_sampled``: as of ``wording.self_sampled``.
    """
    rows: list[dict[str, Any]] = []
    beside = evidence.beside()
    named = [] if baselines is None else baselines.to_dicts()
    of_models: Mapping[tuple[str, str], Mapping[str, Any]] = {(row["claim"], row["baseline"]): row for row in named}
    claims = list(claims)
    for claim in claims:
        measurement, verdict, shows = Measurement(), "not_attempted", None
        try:
            measurement = measure(claim, evidence)
            verdict, reason, shows = judge(claim, measurement, scope)
            if beside is not None and claim.check.split(".")[0] in OF_TYPES:
                types, under_them = beside
                if (other := measure(claim, under_them).value) != measurement.value:
                    reason = _joined(reason or "", f"{measured(other, claim.unit)} {TYPES[types]}")
            if self_sampled and claim.next_tokens:
                reason = _joined(reason or "", SAMPLED_TEXT)
        except Missing as missing:
            reason = str(missing)
        judged = measurement.judged if shows else None
        by_chance = of_models.get((claim.id, claim.chance or ""))
        groups, why = training.groups(claim, shows, judged.limit if judged else None, of_models)
        rows.append(
            {
                "claim": claim.id,
                "statement": claim.statement,
                "source": claim.source,
                "paper_value": claim.paper,
                "measured": measurement.value,
                "low": measurement.low,
                "high": measurement.high,
                "n": measurement.n,
                "scope": scope,
                "verdict": verdict,
                "shows": shows,
                "judged": judged and judged.value,
                "judged_low": judged and judged.low,
                "judged_high": judged and judged.high,
                "limit": judged and judged.limit.nearest(judged.value),
                "limit_source": claim.limit_source if judged else None,
                **groups,
                "expected": by_chance["measured"] if by_chance else measurement.expected,
                **training.compared(claim, {} if claim.by_construction else of_models),
                "resampled": claim.resampled if measurement.low is not None else None,
                "p": _p(claim, measurement, verdict),
                "p_holm": None,
                "reason": _joined(reason or "", why),
            }
        )
    for beyond in (False, True):  # two families of tests
        family = [row for claim, row in zip(claims, rows, strict=True) if claim.beyond is beyond]
        training.decide(family)
        tested = [row for row in family if row["p"] is not None]
        for row, p in zip(tested, holm([row["p"] for row in tested]), strict=True):
            row["p_holm"] = p
    schema = TABLES["claims"]
    return conform(pl.DataFrame([{n: row[n] for n in schema.columns} for row in rows], schema=schema.columns), schema)


def _p(claim: Claim, measurement: Measurement, verdict: str) -> float | None:
    """Return the p-value of a judged claim's direction; ``None`` if it is not judged or has no test."""
    if verdict not in JUDGED or claim.null is None or measurement.draws is None or not len(measurement.draws):
        return None
    if measurement.units is not None and measurement.units < FEWEST:
        return None
    return p_value(measurement.draws, claim.null, claim.alternative)

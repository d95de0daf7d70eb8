"""Is a claim, or a number, due to training? Compare with untrained models, on the same sentences."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scipy.stats import t

from ff_memories.judge.measurement import Limit
from ff_memories.judge.register import SAME_SAMPLE, SHUFFLED, TOGETHER, UNTRAINED, Claim
from ff_memories.judge.statistics import holm
from ff_memories.tables.results import bounded

LEVEL = 0.05
FEWEST, MANY = 3, 5  # untrained models, to say that a claim is not seen in them; shuffled ones, to say that it is
RARE = 0.1  # share of the untrained models in which a claim may be seen by chance
# The smallest difference that matters, by unit, for claims that do not say it; of a factor, relative to the untrained
# models' mean.
MATTERS = {"share": 0.05, "points": 0.05, "change": 0.05, "correlation": 0.2, "number": 0.5, "layer": 1.0}
OF_FACTOR = 0.25
BOUNDS = {
    "share": (0.0, 1.0),
    "factor": (0.0, math.inf),
    "correlation": (-1.0, 1.0),
    "number": (0.0, math.inf),
    "change": (-1.0, math.inf),
    "layer": (1.0, math.inf),
}


def compared(claim: Claim, measured: Mapping[tuple[str, str], Mapping[str, Any]]) -> dict[str, Any]:
    """Return a claim's columns of the comparison, with ``p_training`` not yet corrected for the number of claims.

    One more untrained model's number lies in the prediction interval m ± t s √(1 + 1/n), where m is the mean of n
    models, s their standard deviation, at least one model's own sampling error, and t has n − 1 degrees of freedom.
    The test of the run's own number joins that spread with its sampling error (Welch and Satterthwaite). If all
    untrained models have one number, without any error, their spread is unknown, not zero: such is the layer with the
    fewest active memories. Then p is at least the chance that the run is the odd one out of n + 1 equal models. If not
    most of them have a number, that of all of them together stands for it, with √n times its sampling error for s.
    ``measured``: rows of the table ``baselines``.
    """
    out = dict.fromkeys([*bounded("sample"), *bounded("baseline"), "shuffled", "training", "p_training"])
    sample, untrained, shuffled = (measured.get((claim.id, kind)) for kind in (SAME_SAMPLE, UNTRAINED, SHUFFLED))
    out["shuffled"] = shuffled and shuffled["measured"]
    if sample is not None:
        out |= {"sample": sample["measured"], "sample_low": sample["low"], "sample_high": sample["high"]}
    alone = untrained or {}
    mean, n, deviation = alone.get("measured"), alone.get("runs", 0), alone.get("deviation") or 0.0
    deviation = max(deviation, alone.get("error") or 0.0)
    if together := mean is None:
        row, n = measured.get((claim.id, TOGETHER)) or {}, alone.get("models", 0)
        mean, deviation = row.get("measured"), (row.get("error") or 0.0) * math.sqrt(n)
    out["baseline"] = mean
    if mean is None or n < 2 or (together and not deviation):
        return out
    # the standard error of predicting one more untrained model's number by the mean of these
    spread = float(deviation * math.sqrt(1 + 1 / n))
    reach = float(t.ppf(1 - LEVEL / 2, n - 1)) * spread
    least, most = BOUNDS.get(claim.unit, (-math.inf, math.inf))
    out |= {"baseline_low": max(least, mean - reach), "baseline_high": min(most, mean + reach)}
    if sample is None or sample["measured"] is None or together:
        return out
    own, gap = sample["error"] or 0.0, sample["measured"] - mean
    error = math.sqrt(spread**2 + own**2)
    degrees = (spread**2 + own**2) ** 2 / (spread**4 / (n - 1)) if spread else math.inf
    if error == 0:
        return out | {"p_training": 1.0 if gap == 0 else 1 / (n + 1), "training": "same" if gap == 0 else None}
    matters = claim.matters or (OF_FACTOR * abs(mean) if claim.unit == "factor" else MATTERS[claim.unit])
    alike = abs(gap) + float(t.ppf(1 - LEVEL, degrees)) * error <= matters
    p = max(2 * float(t.sf(abs(gap) / error, degrees)), 0.0 if spread else 1 / (n + 1))
    return out | {"p_training": p, "training": "same" if alike else None}


def groups(
    claim: Claim, shows: str | None, limit: Limit | None, measured: Mapping[tuple[str, str], Mapping[str, Any]]
) -> tuple[dict[str, Any], str]:
    """Return in how many untrained models a claim is seen too, the group that follows, and why it cannot be told.

    ``signal`` (``tables.GROUPS``) needs three untrained models or more, the claim in at most every tenth of them, and
    the run itself to show it on their sentences: a claim that needs more data than they have is not seen in any model
    there. The run's number there must also lie outside the interval for one more untrained model, and of five shuffled
    models or more, most must not show it. A claim that each untrained model has too little data to show may be seen in
    all of them together: then it is ``common`` too. If ``shows`` is ``None``, the claim is not judged.
    """
    kinds = (UNTRAINED, SAME_SAMPLE, TOGETHER, SHUFFLED)
    untrained, sample, together, shuffled = (measured.get((claim.id, kind)) for kind in kinds)
    models, also = (untrained["models"], untrained["holding"]) if untrained else (0, 0)
    columns = {"also_random": also if models else None, "random_models": models or None, "group": None}
    if shows is None or claim.by_construction:
        return columns, ""
    if shows != "yes":
        return columns | {"group": "open" if shows == "undecided" else "absent"}, ""
    if also > RARE * models or (together and together["holding"]):
        return columns | {"group": "common"}, ""
    numbers, why = compared(claim, measured), ""
    by_another = claim.judged_as != claim.measured_as
    of_layers = by_another and claim.judged_unit == "number"  # which unlike measured numbers may share
    low, number, high = (numbers[name] for name in ("baseline_low", "sample", "baseline_high"))
    every = [row[name] for row in (untrained, together) if row for name in row if name.startswith("judged")]
    if models < FEWEST:
        why = f"random networks: {models}, and {FEWEST} are needed" if models else "no random networks were measured"
    elif sample is None or not sample["holding"]:
        why = "it is not seen on the random networks' sentences"
    elif numbers["baseline"] is None:
        why = "no random network has such a number"
    elif low is None or low <= number <= high:
        why = "one more random network could have this number"
    elif of_layers and limit and any(limit.reached(end) for end in every if end is not None):
        why = "random networks reach the limit, though not clearly"
    elif shuffled and shuffled["models"] >= MANY and 2 * shuffled["holding"] > shuffled["models"]:
        why = "most models with shuffled weights show it: the weights' scale may do it"
    return columns | {"group": "open" if why else "signal"}, why


def in_random(row: Mapping[str, Any]) -> str:
    """Return in how many random networks a claim is seen, and whether only all together have data to show it."""
    also, models = row["also_random"], row["random_models"]
    together = row["group"] == "common" and also <= RARE * models
    return f"{also} of {models}" + (" alone, but all together" if together else "")


def decide(rows: Sequence[dict[str, Any]]) -> None:
    """Correct ``p_training`` for the number of claims (Holm), and say of each whether training changes its number.

    ``higher`` and ``lower`` if the test says so; ``same`` if any difference is smaller than what matters (two one-sided
    tests); else ``undecided``. Claims that cannot be compared have no answer.
    """
    tested = [row for row in rows if row["p_training"] is not None]
    for row, p in zip(tested, holm([row["p_training"] for row in tested]), strict=True):
        row["p_training"] = p
        if p < LEVEL and row["training"] != "same":
            row["training"] = "higher" if row["sample"] > row["baseline"] else "lower"
        row["training"] = row["training"] or "undecided"

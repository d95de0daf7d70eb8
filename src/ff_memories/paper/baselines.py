"""Measure every claim without the effect that it describes: the `baselines` and `control` tables.

A baseline is a set of tables that the claims' own checks measure: the tables of untrained models, or this run's
tables with predictions that are independent of the keys. So a claim and its baselines share one measure.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from statistics import fmean, stdev

import numpy as np
import polars as pl
import polars.selectors as cs

from ff_memories.base.draws import generator
from ff_memories.judge.evidence import Evidence, Missing
from ff_memories.judge.measurement import Measurement
from ff_memories.judge.measures import spread
from ff_memories.judge.register import MODELS, SAME_SAMPLE, TOGETHER, UNTRAINED, Claim
from ff_memories.judge.verdicts import measure
from ff_memories.paper.layers.composition import kinds
from ff_memories.paper.layers.measures import active_memories, residual_predicts, zero_agreement
from ff_memories.paper.values.measures import agreement
from ff_memories.paper.values.values import Predicted, with_predictions
from ff_memories.tables import TABLES, Frames, conform

DRAWS = 20  # of each random baseline


def with_tops(values: pl.DataFrame, targets: pl.DataFrame, predicted: Predicted) -> pl.DataFrame:
    """Return the table ``values`` with other predictions, in its order, than the values' own.

    ``targets``: triggers with their ``target`` (``values.targets``).
    """
    columns = list(TABLES["values"].columns)
    plain = values.select(columns).drop("agreeing_triggers")
    return with_predictions(plain, targets.drop_nulls("target"), predicted, suffix="", folds=None).select(columns)


def random_pairs(run: Frames, targets: pl.DataFrame, rng: np.random.Generator) -> Frames:
    """Return a run with values shuffled among the keys of their layer, and residuals among examples.

    The rank under another value is unknown, so it is null.
    """
    shuffled = np.concatenate([rng.permutation(part) for part in _rows_by_layer(run["values"])])
    top, probability = (run["values"][name].to_numpy()[shuffled] for name in ("top_token", "top_probability"))
    predicted = Predicted(top, probability, np.full(len(shuffled), -1))
    refinement = run["refinement"].sort("layer", "example")
    residuals = [refinement["residual_top"].to_numpy()[rng.permutation(part)] for part in _rows_by_layer(refinement)]
    return {
        "values": with_tops(run["values"].sort("layer", "key"), targets, predicted),
        "refinement": _with_residuals(refinement, np.concatenate(residuals)),
    }


def unigram(run: Frames, targets: pl.DataFrame, counts: np.ndarray) -> Frames:
    """Return a run in which everything predicts the most frequent type, with ranks by frequency.

    ``counts``: (vocab,) of each type in the training text.
    """
    order = np.argsort(-counts, kind="stable")
    rank = np.argsort(order)
    values, refinement = run["values"], run["refinement"]
    unknown, wanted = values["next_token"].is_null().to_numpy(), values["next_token"].fill_null(0).to_numpy()
    probability = values["top_probability"].to_numpy()  # so the most predictive values stay the same
    predicted = Predicted(np.full(len(values), order[0]), probability, np.where(unknown, -1, rank[wanted]))
    return {
        "values": with_tops(values, targets, predicted),
        "refinement": _with_residuals(refinement, np.full(len(refinement), order[0])),
    }


def _rows_by_layer(frame: pl.DataFrame) -> list[np.ndarray]:
    layers = frame["layer"].to_numpy()
    return [np.flatnonzero(layers == layer) for layer in np.unique(layers)]


def _with_residuals(refinement: pl.DataFrame, tops: np.ndarray) -> pl.DataFrame:
    changed = refinement.with_columns(pl.Series("residual_top", tops.astype(np.uint32)))
    return changed.with_columns(kinds().cast(refinement.schema["kind"]).alias("kind"))


def guesses(run: Frames, targets: pl.DataFrame, counts: np.ndarray, seed: int) -> Iterator[tuple[str, Frames]]:
    """Yield every baseline that needs no model as (name, tables), once per draw."""
    for draw in range(DRAWS):
        yield "random_pairs", run | random_pairs(run, targets, generator(seed, f"random baselines {draw}"))
    yield "unigram", run | unigram(run, targets, counts)
    # some memory agrees in every case, which turns claims about those cases into base rates
    agreeing = run["composition"].with_columns(pl.lit(1, pl.UInt16).alias("agreeing_memories"))
    yield "every_case", run | {"composition": agreeing}


def together(models: Sequence[Frames]) -> Frames:
    """Return the tables of several models as those of one, with keys and examples of its own for each."""
    shared = set.intersection(*map(set, models)) if models else set()
    ids = cs.by_name("key", "example", require_all=False).cast(pl.Int64) * len(models)
    return {
        name: pl.concat(tables[name].with_columns(ids + i) for i, tables in enumerate(models))
        for name in sorted(shared)
    }


def table(claims: Sequence[Claim], evidence: Evidence, measured: Iterable[tuple[str, Frames]]) -> pl.DataFrame:
    """Return the table ``baselines`` of (name, tables) of each, once per draw, with the run's sizes and settings.

    Untrained models stand before all of them together, which are measured if not most of them have a number, or if a
    claim is judged by another number than that. A mean of fewer would be of those that happen to have one: there is
    none then.
    """
    measurements: dict[tuple[str, str], list[Measurement]] = {}
    for name, tables in measured:
        baseline = replace(evidence, tables=tables, seed=evidence.seed if name in MODELS else None)
        for claim in claims:
            alone = measurements.get((claim.id, UNTRAINED), [])
            if name == TOGETHER and claim.judged_as == claim.measured_as and _most_count(alone):
                continue
            if name in claim.baselines:
                of_claim = measurements.setdefault((claim.id, name), [])
                with suppress(Missing):
                    of_claim.append(measure(claim, baseline))
    rows = []
    for (claim_id, name), models in measurements.items():
        runs = [one for one in models if _counts(one)]
        judged = [one.judged.value for one in runs if one.judged is not None]
        values = [one.value for one in runs if one.value is not None and _most_count(models)]
        low, high = min(values, default=None), max(values, default=None)
        if name in (SAME_SAMPLE, TOGETHER) and runs:
            low, high = runs[0].low, runs[0].high
        errors = [one.error for one in runs if one.error is not None and _most_count(models)]
        rows.append(
            {
                "claim": claim_id,
                "baseline": name,
                "measured": fmean(values) if values else None,
                "low": low,
                "high": high,
                "runs": len(runs),
                "models": len(models),
                "judged": fmean(judged) if judged else None,
                "judged_low": min(judged, default=None),
                "judged_high": max(judged, default=None),
                "holding": sum(one.judged is not None and one.judged.shows == "yes" for one in runs),
                "deviation": stdev(values) if len(values) > 1 else None,
                "error": fmean(errors) if errors else None,
            }
        )
    return conform(pl.DataFrame(rows, schema=TABLES["baselines"].columns), TABLES["baselines"])


def _counts(measurement: Measurement) -> bool:
    return measurement.value is not None and not measurement.few


def _most_count(models: Sequence[Measurement]) -> bool:
    return 2 * sum(map(_counts, models)) > len(models)


def _by_layer(tables: Frames, keys: int, seed: int) -> dict[str, pl.DataFrame]:
    """Return {measure: ``layer`` and ``value``} of a model."""
    return {
        "agreement": agreement(tables["values"], seed).select("layer", value="mean"),
        "active": active_memories(tables["composition"], keys).select("layer", value="median"),
        "zero_agreement": zero_agreement(tables["composition"], seed).select("layer", value="mean"),
        "residual_predicts": residual_predicts(tables["refinement"], seed).select("layer", value="mean"),
    }


def control(untrained: Sequence[Frames], layers: int, keys: int, seed: int) -> pl.DataFrame:
    """Return the table ``control``: measures of the untrained models by layer, as mean, minimum and maximum."""
    out = pl.DataFrame({"layer": range(1, layers + 1)}, schema={"layer": pl.UInt8})
    compared = (tables["values"].drop_nulls("agrees").group_by("layer").len() for tables in untrained)
    fires = pl.concat(out.join(of_model, on="layer", how="left") for of_model in compared)
    least = fires.with_columns(pl.col("len").fill_null(0)).group_by("layer").agg(keys=pl.col("len").min())
    examples = pl.lit(min(tables["examples"].height for tables in untrained))
    out = out.join(least, on="layer", how="left", maintain_order="left").with_columns(examples=examples)
    measured = [_by_layer(tables, keys, seed) for tables in untrained]
    for name in measured[0]:
        of_models = spread((of_model[name] for of_model in measured), ["layer"], "value", name)
        out = out.join(of_models, on="layer", how="left", maintain_order="left")
    return conform(out, TABLES["control"])

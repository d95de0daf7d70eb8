"""Recompute rows of the measured tables from the model and the text: one function per table, of the same name."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import polars as pl
import torch

from ff_memories.audit import closeness as compare
from ff_memories.audit.closeness import DIFFERS, NEAR_TIE, Result
from ff_memories.audit.evidence import Evidence, Row
from ff_memories.audit.seen import Seen
from ff_memories.corpus.dictionary import BOS
from ff_memories.memories.composition import SHARES
from ff_memories.memories.values import other
from ff_memories.tables import TOP_LEVEL


def triggers(evidence: Evidence, row: Row) -> Result:
    """Check a row of E1: the prefix's coefficient, whether it is its sentence's best, and the next token."""
    results = [compare.same("next_token", row["next_token"], evidence.following(row))]
    seen = evidence.oracle.layers(evidence.corpus.sentence(row["sentence"]))[row["layer"] - 1]
    m = seen.coefficients()[:, row["key"]]
    allowed = evidence.lengths(row["sentence"])
    if row["position"] not in allowed:
        return Result(DIFFERS, f"position {row['position']} is not in {allowed.start} to {allowed.stop - 1}")
    own = float(m[row["position"]])
    results.append(evidence.near.coefficient("coefficient", row["coefficient"], own, _noise(evidence, seen)))
    best = float(m[allowed.start : allowed.stop].max())
    if evidence.config.triggers.per_sentence == "best" and best > own:
        say = f"the best position of its sentence is {int(m.argmax())}, not {row['position']}"
        results.append(Result(NEAR_TIE if best <= own * (1 + evidence.near.limits.tie) else DIFFERS, say))
    return compare.together(results)


def _noise(evidence: Evidence, seen: Seen) -> float:
    """Return the largest error of a layer's scores in the run's precision."""
    return seen.noise(evidence.near.limits.noise)


def mutations(evidence: Evidence, row: Row) -> Result:
    """Check a row of E3: a trigger's coefficient after removing one token or word."""
    first, *others = evidence.candidates(row)
    found = _mutation(evidence, row, first)
    if found.state == DIFFERS and any(_mutation(evidence, row, other).state != DIFFERS for other in others):
        return Result(NEAR_TIE)
    return found


def _mutation(evidence: Evidence, row: Row, source: Row) -> Result:
    prefix, parts = evidence.prefix(source), evidence.parts(source)
    at = row["removed"], row.get("removed_tokens", 1)
    if not parts or at not in {"first": parts[:1], "last": parts[-1:], "random": parts}[row["mutation"]]:
        unit = evidence.config.mutations.unit
        return Result(DIFFERS, f"removed is {row['removed']}, but the prefix has {len(parts)} {unit}s")
    seen = evidence.oracle.layers(np.delete(prefix, slice(at[0] - 1, sum(at) - 1)))[row["layer"] - 1]
    found = float(seen.coefficients()[-1, row["key"]])
    change = row["mutated"] / row["coefficient"] - 1
    own = compare.same("coefficient", row["coefficient"], source["coefficient"])
    if evidence.found_here and own.state == DIFFERS:  # both were measured, in unlike batches or on unlike CPUs
        noise = _noise(evidence, evidence.oracle.layers(prefix)[row["layer"] - 1])
        own = evidence.near.coefficient("coefficient", row["coefficient"], source["coefficient"], noise)
    return compare.together([
        own,
        evidence.near.coefficient(
            "mutated", row["mutated"], found, _noise(evidence, seen), max(found, source["coefficient"])
        ),
        evidence.near.coefficient("change", row["change"], change, scale=1 + abs(change)),
    ])  # fmt: skip


def values(evidence: Evidence, row: Row) -> Result:
    """Check a row of E4-E7: a value's prediction, and its agreement with its key's triggers."""
    said = evidence.oracle.of_value(evidence.oracle.value(row["layer"], row["key"]))
    listed = evidence.lists.get((row["layer"], row["key"]))
    if listed is None:
        return _value(evidence, row, said, None, [])
    targets = _targets(evidence, listed)
    found = _value(evidence, row, said, targets[0], targets)
    if found.state == DIFFERS and evidence.found_here:
        near = evidence.candidates({**row, "rank": 1})
        others = [_value(evidence, row, said, targets[other["rank"] - 1], targets) for other in near[1:]]
        return Result(NEAR_TIE) if any(other.state != DIFFERS for other in others) else found
    return found


def _value(
    evidence: Evidence, row: Row, said: torch.Tensor, first: int | None, targets: Sequence[int | None]
) -> Result:
    """Check a row of ``values``, given its value's log p, its first trigger's target, and those of all its triggers."""
    results = [
        compare.same("next_token", row["next_token"], first),
        _count(evidence, row, "triggers", targets, lambda target: target is not None),
    ]
    for types, suffix in suffixes(evidence, row, "top_token"):
        results += _predicted(evidence, row, types, said, first, targets, suffix)
    return compare.together(results)


def _count(
    evidence: Evidence, row: Row, column: str, targets: Sequence[int | None], counts: Callable[[int | None], bool]
) -> Result:
    """Compare a count of triggers, by their targets; where a list ends in near-ties, others may be in it."""
    if (recorded := row.get(column)) is None:
        return Result(DIFFERS, f"{column} is missing")
    found = sum(map(counts, targets))
    if (ends := evidence.unsure.get((row["layer"], row["key"]))) is None:
        return compare.within(column, recorded, found, found, found)
    sure = sum(map(counts, targets[: -ends.inside]))
    may = [*targets[-ends.inside :], *_targets(evidence, ends.beyond)]
    fit = sum(map(counts, may))
    low, high = max(0, ends.inside - (len(may) - fit)), min(ends.inside, fit)
    low, high = (low, high) if ends.whole else (0, ends.inside)
    return compare.within(column, recorded, found, sure + low, sure + high)


def suffixes(evidence: Evidence, row: Row, column: str) -> Iterator[tuple[str, str]]:
    """Yield each choice of ``values.types`` for which a row has columns, and the columns' suffix."""
    own = evidence.config.values.types
    yield own, ""
    if f"{column}_{other(own)}" in row:
        yield other(own), f"_{other(own)}"


def _predicted(
    evidence: Evidence, row: Row, types: str, every: torch.Tensor, first: int | None, targets: Sequence[int | None],
    suffix: str,
) -> list[Result]:  # fmt: skip
    """Compare a value's prediction among some ``types`` with the columns that have the given suffix.

    ``every``: log p of all types.
    """
    said, top = evidence.among(types, every), row["top_token" + suffix]
    named = lambda column: (column + suffix, row[column + suffix])
    results = [
        evidence.near.top(*named("top_token"), said),
        evidence.near.probability(*named("top_probability"), float(said.max().exp())),
        compare.same(*named("agrees"), None if first is None else first == top),
        _count(evidence, row, "agreeing_triggers" + suffix, targets, lambda target: target == top),
    ]
    if evidence.folds is not None:
        alike = lambda token: token is not None and bool(evidence.folds[token] == evidence.folds[top])
        agrees = None if first is None else alike(first)
        results += [  # a table without these columns is not this run's
            compare.same("agrees_folded" + suffix, row.get("agrees_folded" + suffix), agrees),
            _count(evidence, row, "agreeing_triggers_folded" + suffix, targets, alike),
        ]
    if first is None or first >= len(said) or row["next_token_rank" + suffix] is None:
        without = first is None or first >= len(said)  # with the head alone, rarer words have no rank
        results.append(compare.same(*named("next_token_rank"), None if without else "a number"))
    else:  # a target that is never trained has its place among those that are
        ranked = said.index_copy(0, torch.tensor([first]), every[first : first + 1])
        results.append(evidence.near.rank(*named("next_token_rank"), ranked, first))
    return results


def _targets(evidence: Evidence, listed: pl.DataFrame) -> list[int | None]:
    """Return the target tokens of a key's triggers, best trigger first (``values.target``)."""
    if evidence.config.values.target == "next":
        return listed["next_token"].to_list()
    return [int(p[-1]) if len(p := evidence.prefix(r)) else BOS for r in listed.iter_rows(named=True)]


def promoted(evidence: Evidence, row: Row) -> Result:
    """Check a row of ``promoted``: a token's probability, rank and logit."""
    value = evidence.oracle.value(row["layer"], row["key"])
    said, token = evidence.oracle.of_value(value), row["token"]
    results = [
        evidence.near.probability("probability", row["probability"], float(said[token].exp())),
        evidence.near.rank("token_rank", row["token_rank"], said, token),
    ]
    if "logit" in row:
        results.append(evidence.near.logit("logit", row["logit"], float(_logits(evidence, value)[token])))
    return compare.together(results)


def demoted(evidence: Evidence, row: Row) -> Result:
    """Check a row of ``demoted``: a token's logit and rank from below."""
    logits, token = _logits(evidence, evidence.oracle.value(row["layer"], row["key"])), row["token"]
    return compare.together([
        evidence.near.logit("logit", row["logit"], float(logits[token])),
        evidence.near.rank("token_rank", row["token_rank"], -logits, token),
    ])  # fmt: skip


def _logits(evidence: Evidence, value: torch.Tensor) -> torch.Tensor:
    """Return (vocab,) what a value adds to the log-probabilities under a vector of zeros, less the mean."""
    added = evidence.oracle.of_value(value) - evidence.oracle.of_value(torch.zeros_like(value))
    return added - added.mean()


def shading(evidence: Evidence, row: Row) -> Result:
    """Check a row of ``shading``: the key's coefficient after one token of a trigger."""
    return _along(
        evidence,
        row,
        lambda found, noise: evidence.near.coefficient("coefficient", row["coefficient"], found, noise),
    )


def levels(evidence: Evidence, row: Row) -> Result:
    """Check a row of ``levels``: the same as a share of the key's largest coefficient."""
    most = evidence.lists[row["layer"], row["key"]].row(0, named=True)["coefficient"]

    def judge(found: float, noise: float) -> Result:
        exact = TOP_LEVEL * min(max(found / most, 0), 1)
        error = TOP_LEVEL * (noise / most + evidence.near.limits.coefficient)
        nearest = lambda level: math.floor(level + 0.5)
        return compare.within("level", row["level"], nearest(exact), nearest(exact - error), nearest(exact + error))

    return _along(evidence, row, judge)


def _along(evidence: Evidence, row: Row, judge: Callable[[float, float], Result]) -> Result:
    """Judge the coefficient, and its noise, after one token of a trigger."""
    source = evidence.trigger(row)
    if not 1 <= row["position"] <= source["position"]:
        return Result(DIFFERS, f"position {row['position']} is not in 1 to {source['position']}")
    seen = evidence.oracle.layers(evidence.prefix(source))[row["layer"] - 1]
    return judge(float(seen.coefficients()[row["position"], row["key"]]), _noise(evidence, seen))


def samples(evidence: Evidence, row: Row) -> Result:
    """Check a row of ``samples``: the key's coefficient after a prefix."""
    seen = evidence.oracle.layers(evidence.prefix(row))[row["layer"] - 1]
    found = float(seen.coefficients()[-1, row["key"]])
    return evidence.near.coefficient("coefficient", row["coefficient"], found, _noise(evidence, seen))


def similar(evidence: Evidence, row: Row) -> Result:
    """Check a row of ``similar``: the cosine of two memories' keys or values, and its place among all memories."""
    units, signed = evidence.units(row["of"])
    neurons = len(units) // evidence.oracle.keys[0]
    at = lambda layer, key: (layer - 1) * neurons + key
    own = at(row["layer"], row["key"])
    cosines = units @ units[own]
    cosine = float(cosines[at(row["other_layer"], row["other_key"])])
    size = cosines.abs() if signed else cosines
    size[own] = -torch.inf
    mine, limit = abs(cosine) if signed else cosine, evidence.near.limits.coefficient
    count = lambda bar: int((size > bar).sum())
    return compare.together([
        evidence.near.coefficient("cosine", row["cosine"], cosine, scale=1.0),
        compare.within("place", row["place"], 1 + count(mine), 1 + count(mine + limit), count(mine - limit)),
    ])  # fmt: skip


def examples(evidence: Evidence, row: Row) -> Result:
    """Check a row of ``examples`` (section 5): the next token, and the model's own prediction."""
    last = evidence.oracle.layers(evidence.prefix(row))[-1]
    return compare.together([
        compare.same("next_token", row["next_token"], evidence.following(row)),
        evidence.near.top("model_top", row["model_top"], evidence.oracle.of_layer(last.output[-1])),
    ])  # fmt: skip


def composition(evidence: Evidence, row: Row) -> Result:
    """Check a row of E8-E10: a layer's active memories, its predictions, and how many memories agree with it."""
    seen = _at(evidence, row)[row["layer"] - 1]
    energies = (seen.m[-1] * evidence.norms(row["layer"])).square()
    if (share := SHARES.get(evidence.config.composition.memories)) is not None:
        fires, unsure = _fewest(seen, energies, share)
    else:
        fires, unsure = seen.coefficients()[-1] > 0, seen.unsure(evidence.near.limits.noise)
    says = row["ffn_top" if evidence.config.composition.layer_prediction == "ffn" else "output_top"]
    may = torch.ones_like(fires) if evidence.config.composition.memories == "all" else fires
    active, close = int(fires.sum()), int(unsure.sum())
    agreeing = []
    for types, suffix in suffixes(evidence, row, "agreeing_memories"):
        keys = torch.nonzero(may | unsure).flatten()
        found, near = _agreeing(evidence, types, row["layer"], keys, may & ~unsure, says)
        column = "agreeing_memories" + suffix
        agreeing.append(compare.within(column, row[column], found, found - near, found + near))
    return compare.together([
        compare.within("active", row["active"], active, active - close, active + close),
        *([_effective(evidence, row, energies)] if "effective" in row else []),
        evidence.near.top("ffn_top", row["ffn_top"], evidence.oracle.of_layer(seen.ffn[-1])),
        evidence.near.top("output_top", row["output_top"], evidence.oracle.of_layer(seen.output[-1])),
        *agreeing,
    ])  # fmt: skip


def _fewest(seen: Seen, energies: torch.Tensor, share: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (memories,) bool: the fewest with a share of the energy (d_m,), and those that rounding may swap."""
    ordered, index = energies.sort(descending=True)
    reached, target = ordered.cumsum(0), share * energies.sum()
    count = int((reached < target).sum()) + 1 if energies.any() else 0
    chosen, close = torch.zeros_like(energies, dtype=torch.bool), torch.zeros_like(energies, dtype=torch.bool)
    chosen[index[:count]] = True
    if count:
        alike = (energies - ordered[count - 1]).abs() <= 1e-4 * ordered[count - 1]
        close = alike & (alike.sum() > 1)
        close[index[(reached - target).abs() <= 1e-4 * target]] = True
        close[index[1:][(reached - target).abs()[:-1] <= 1e-4 * target]] = True
    if seen.signs == 1:
        return chosen, close
    m = seen.m[-1]
    return torch.cat([chosen & (m > 0), chosen & (m < 0)]), torch.cat([close, close])


def _effective(evidence: Evidence, row: Row, energies: torch.Tensor) -> Result:
    """Compare the participation ratio of energies (d_m,)."""
    found = float(energies.sum() ** 2 / energies.square().sum()) if energies.any() else 0.0
    return evidence.near.probability("effective", row["effective"], found)


def _agreeing(
    evidence: Evidence, types: str, layer: int, keys: torch.Tensor, may: torch.Tensor, token: int
) -> tuple[int, int]:
    """Return how many of the given memories predict a token, and how many are too close to call."""
    evidence.predict(types, layer, keys.tolist())
    agree = close = 0
    for key in keys.tolist():
        tops = evidence.tops(types, layer, key)
        agree += bool(may[key]) and tops[0] == token
        close += token in tops and (len(tops) > 1 or not may[key])
    return agree, close


def refinement(evidence: Evidence, row: Row) -> Result:
    """Check a row of E11-E13: predictions of residual, feed-forward and output at a layer, and the resulting kind."""
    layers = _at(evidence, row)
    here, last = layers[row["layer"] - 1], layers[-1]
    residual = evidence.oracle.of_layer(here.residual[-1])
    probability = float(residual[row["model_top"]].exp())
    same = (row["output_top"] == row["residual_top"], row["output_top"] == row["ffn_top"])
    kind = {(True, True): "agreement", (True, False): "residual", (False, True): "ffn"}.get(same, "composition")
    return compare.together([
        evidence.near.top("residual_top", row["residual_top"], residual),
        evidence.near.top("ffn_top", row["ffn_top"], evidence.oracle.of_layer(here.ffn[-1])),
        evidence.near.top("output_top", row["output_top"], evidence.oracle.of_layer(here.output[-1])),
        evidence.near.top("model_top", row["model_top"], evidence.oracle.of_layer(last.output[-1])),
        evidence.near.probability("residual_probability", row["residual_probability"], probability),
        compare.same("kind", row["kind"], kind),
    ])  # fmt: skip


def _at(evidence: Evidence, row: Row) -> list[Seen]:
    example = evidence.tables["examples"].filter(pl.col("example") == row["example"]).row(0, named=True)
    return evidence.oracle.layers(evidence.prefix(example))

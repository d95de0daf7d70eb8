"""Recompute rows of the measured tables from the model and the text: one function per table, of the same name."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations, islice

import numpy as np
import polars as pl
import torch
from torch import Tensor

from ff_memories.audit.audit_inputs import BEYOND, AuditInputs, TableRow
from ff_memories.audit.equations import ERRORS, Activations, Changed
from ff_memories.audit.near_equal import DIFFERS, MATCH, NEAR_TIE, Result, equal, together, within
from ff_memories.corpus.dictionary import BOS
from ff_memories.paper.beyond import causal as changes
from ff_memories.paper.layers.composition import SHARES
from ff_memories.paper.values.values import other
from ff_memories.tables import TABLES

CLOSE = 10  # times the limit, within which a row that its own error explains is no near-tie
CHOICES = 64  # of memories that are removed, where rounding may choose others


def triggers(inputs: AuditInputs, row: TableRow) -> Result:
    """Check a row of E1: the prefix's coefficient, whether it is its sentence's best, and the next token."""
    results = [equal("next_token", row["next_token"], inputs.following(row))]
    activations = inputs.layer(inputs.corpus.sentence(row["sentence"]), row["layer"])
    m = activations.coefficients()[:, row["key"]]
    allowed = inputs.lengths(row["sentence"])
    if row["position"] not in allowed:
        return Result(DIFFERS, f"position {row['position']} is not in {allowed.start} to {allowed.stop - 1}")
    coefficient, share = float(m[row["position"]]), inputs.near.limits.noise
    noise = activations.noise(share, row["position"])
    results.append(inputs.near.coefficient("coefficient", row["coefficient"], coefficient, noise))
    best = float(m[allowed.start : allowed.stop].max())
    if inputs.config.triggers.per_sentence == "best" and best > coefficient:
        at = allowed.start + int(m[allowed.start : allowed.stop].argmax())
        gap = inputs.near.limits.tie * coefficient
        gap += sum(activations.off(share, other) for other in (row["position"], at))
        say = f"the best position of its sentence is {at}, not {row['position']}"
        results.append(Result(NEAR_TIE if best <= coefficient + gap else DIFFERS, say))
    return together(results)


def mutations(inputs: AuditInputs, row: TableRow) -> Result:
    """Check a row of E3: a trigger's coefficient after removing one token or word."""
    first, *others = inputs.candidates(row)
    result = _mutation(inputs, row, first)
    if result.state == DIFFERS and any(_mutation(inputs, row, other).state != DIFFERS for other in others):
        return Result(NEAR_TIE)
    return result


def _mutation(inputs: AuditInputs, row: TableRow, source: TableRow) -> Result:
    parts, at = inputs.parts(source), (row["removed"], row.get("removed_tokens", 1))
    random = parts
    if inputs.config.mutations.random == "earlier":
        random = [(first, source["position"] - first + 1) for first, _ in parts]
    if not parts or at not in {"first": parts[:1], "last": parts[-1:], "random": random}[row["mutation"]]:
        unit = inputs.config.mutations.unit
        return Result(DIFFERS, f"removed is {row['removed']}, but the prefix has {len(parts)} {unit}s")
    activations = inputs.layer(inputs.without(source, *at), row["layer"])
    mutated = float(activations.coefficients()[-1, row["key"]])
    change = row["mutated"] / row["coefficient"] - 1
    both = "coefficient", row["coefficient"], source["coefficient"]
    noise = activations.noise(inputs.near.limits.noise)
    # lists that were found here were measured in other batches than the row, or on another CPU
    coefficient = inputs.near.coefficient(*both, noise) if inputs.found_here else equal(*both)
    after = inputs.near.coefficient("mutated", row["mutated"], mutated, noise, max(mutated, source["coefficient"]))
    relative = inputs.near.coefficient("change", row["change"], change, scale=1 + abs(change))
    return together([coefficient, after, relative])


def values(inputs: AuditInputs, row: TableRow) -> Result:
    """Check a row of E4-E7: a value's prediction, and its agreement with its key's triggers."""
    value = inputs.vector("value", row["layer"], row["key"])
    if inputs.config.values.length == "mean":
        value = value * inputs.mean_length / value.norm()
    said, listed = inputs.oracle.of_value(value), inputs.triggers(row["layer"], row["key"])
    targets = _targets(inputs, listed)
    result = _value(inputs, row, said, targets[0] if targets else None, targets)
    if result.state == DIFFERS and inputs.found_here and targets:
        near = inputs.candidates({**row, "rank": 1})[1:]
        others = (_value(inputs, row, said, targets[other["rank"] - 1], targets) for other in near)
        return Result(NEAR_TIE) if any(other.state != DIFFERS for other in others) else result
    return result


def _value(
    inputs: AuditInputs, row: TableRow, said: Tensor, first: int | None, targets: Sequence[int | None]
) -> Result:
    """Check a row of ``values``, given its value's log p, its first trigger's target, and those of all its triggers."""
    results = [equal("next_token", row["next_token"], first)]
    results.append(_count(inputs, row, "triggers", targets, lambda target: target is not None))
    for types, suffix in suffixes(inputs, row, "top_token"):
        results += _predicted(inputs, row, types, said, first, targets, suffix)
    return together(results)


def _count(
    inputs: AuditInputs, row: TableRow, column: str, targets: Sequence[int | None], counts: Callable[[int | None], bool]
) -> Result:
    """Compare a count of triggers, by their targets; where a list ends in near-ties, others may be in it."""
    if (recorded := row.get(column)) is None:
        return Result(DIFFERS, f"{column} is missing")
    count = sum(map(counts, targets))
    if (end := inputs.unsure.get((row["layer"], row["key"]))) is None:
        return within(column, recorded, count, count, count)
    inside, beyond = end
    sure = sum(map(counts, targets[:-inside]))
    may = [*targets[-inside:], *_targets(inputs, beyond)]
    fit = sum(map(counts, may))
    low, high = max(0, inside - (len(may) - fit)), min(inside, fit)
    low, high = (low, high) if len(beyond) < BEYOND else (0, inside)
    return within(column, recorded, count, sure + low, sure + high)


def suffixes(inputs: AuditInputs, row: TableRow, column: str) -> Iterator[tuple[str, str]]:
    """Yield each choice of ``values.types`` for which a row has columns, and the columns' suffix."""
    types = inputs.config.values.types
    yield types, ""
    if f"{column}_{other(types)}" in row:
        yield other(types), f"_{other(types)}"


def _predicted(
    inputs: AuditInputs,
    row: TableRow,
    types: str,
    every: Tensor,
    first: int | None,
    targets: Sequence[int | None],
    suffix: str,
) -> list[Result]:
    """Compare a value's prediction among ``types``, by log p of ``every`` one, with the columns with a suffix."""
    log_probabilities, top = inputs.among(types, every), row["top_token" + suffix]
    named = lambda column: (column + suffix, row[column + suffix])
    results = [
        inputs.near.top(*named("top_token"), log_probabilities),
        inputs.near.probability(*named("top_probability"), log_probabilities, int(log_probabilities.argmax())),
        equal(*named("agrees"), None if first is None else first == top),
        _count(inputs, row, "agreeing_triggers" + suffix, targets, lambda target: target == top),
    ]
    if inputs.folds is not None:
        alike = lambda token: token is not None and bool(inputs.folds[token] == inputs.folds[top])
        agrees = None if first is None else alike(first)
        results += [  # a table without these columns is not this run's
            equal("agrees_folded" + suffix, row.get("agrees_folded" + suffix), agrees),
            _count(inputs, row, "agreeing_triggers_folded" + suffix, targets, alike),
        ]
    if first is None or first >= len(log_probabilities) or row["next_token_rank" + suffix] is None:
        without = first is None or first >= len(log_probabilities)  # with the head alone, rarer words have no rank
        results.append(equal(*named("next_token_rank"), None if without else "a number"))
    else:  # a target that is never trained has its place among those that are
        ranked = log_probabilities.index_copy(0, torch.tensor([first]), every[first : first + 1])
        results.append(inputs.near.rank(*named("next_token_rank"), ranked, first))
    return results


def _targets(inputs: AuditInputs, listed: pl.DataFrame) -> list[int | None]:
    """Return the target tokens of a key's triggers, best trigger first (``values.target``)."""
    if inputs.config.values.target == "next":
        return listed["next_token"].to_list()
    start = getattr(inputs.oracle, "start", BOS)
    return [int(p[-1]) if len(p := inputs.prefix(r)) else start for r in listed.iter_rows(named=True)]


def examples(inputs: AuditInputs, row: TableRow) -> Result:
    """Check a row of ``examples`` (section 5): the next token, and the model's own prediction."""
    last = inputs.layers(inputs.prefix(row))[-1]
    top = inputs.near.top("model_top", row["model_top"], inputs.oracle.of_layer(last.output[-1]))
    return together([equal("next_token", row["next_token"], inputs.following(row)), top])


def composition(inputs: AuditInputs, row: TableRow) -> Result:
    """Check a row of E8-E10: a layer's active memories, its predictions, and how many memories agree with it."""
    activations = inputs.layers(inputs.prefix(inputs.example(row)), row["layer"])[-1]
    ffn, output = inputs.oracle.of_layer(torch.stack([activations.ffn[-1], activations.output[-1]]))
    energies = (activations.m[-1] * inputs.norms(row["layer"])).square()
    ratio = float(energies.sum() ** 2 / energies.square().sum()) if energies.any() else 0.0
    if (share := SHARES.get(inputs.config.composition.memories)) is not None:
        fires, unsure = _fewest(activations, energies, share)
    else:
        fires, unsure = activations.coefficients()[-1] > 0, activations.unsure(inputs.near.limits.noise)
    says = row["ffn_top" if inputs.config.composition.layer_prediction == "ffn" else "output_top"]
    may = torch.ones_like(fires) if inputs.config.composition.memories == "all" else fires
    active, open_ = int(fires.sum()), int(unsure.sum())
    sure, agreeing = may & ~unsure, []
    for types, suffix in suffixes(inputs, row, "agreeing_memories"):
        left_out, limit = [] if types == "all" else inputs.never, inputs.near.limits.probability
        agree, tied = inputs.oracle.predicting(row["layer"], says, left_out, limit, may | unsure)
        near = int((tied | (agree & ~sure)).sum())
        count = int((agree & sure).sum())
        column = "agreeing_memories" + suffix
        agreeing.append(within(column, row[column], count, count - near, count + near))
    results = [within("active", row["active"], active, active - open_, active + open_)]
    if "effective" in row:
        results.append(inputs.near.ratio("effective", row["effective"], ratio))
    results += [inputs.near.top(name, row[name], said) for name, said in (("ffn_top", ffn), ("output_top", output))]
    return together(results + agreeing)


def _fewest(seen: Activations, energies: Tensor, share: float) -> tuple[Tensor, Tensor]:
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
    m = seen.m[-1]
    if seen.signs == 1:  # a negative coefficient has a share of the energy, but its memory isn't active
        return chosen & (m > 0), close & (m > 0)
    return torch.cat([chosen & (m > 0), chosen & (m < 0)]), torch.cat([close, close])


def refinement(inputs: AuditInputs, row: TableRow) -> Result:
    """Check a row of E11-E13: predictions of residual, feed-forward and output at a layer, and the resulting kind."""
    layers = inputs.layers(inputs.prefix(inputs.example(row)))
    here, last = layers[row["layer"] - 1], layers[-1]
    vectors = [here.residual[-1], here.ffn[-1], here.output[-1], last.output[-1]]
    residual, ffn, output, model = inputs.oracle.of_layer(torch.stack(vectors))
    tops = {"residual_top": residual, "ffn_top": ffn, "output_top": output, "model_top": model}
    results = [inputs.near.top(name, row[name], said) for name, said in tops.items()]
    same = (row["output_top"] == row["residual_top"], row["output_top"] == row["ffn_top"])
    kind = {(True, True): "agreement", (True, False): "residual", (False, True): "ffn"}.get(same, "composition")
    column = "residual_probability"
    results.append(inputs.near.probability(column, row[column], residual, row["model_top"]))
    return together([*results, equal("kind", row["kind"], kind)])


def causal(inputs: AuditInputs, row: TableRow) -> Result:
    """Check a row of ``causal``: what is changed, and what follows from it."""
    layer, memory, oracle = row["layer"], row["key"], inputs.oracle
    neurons = oracle.keys[1] // oracle.signs
    at = row["other_prefix"] if row["control"] == "inactive" else row["prefix"]
    text = inputs.numbered(at)
    through = inputs.layers(text)
    activations, tested = through[layer - 1], inputs.layer(inputs.numbered(row["prefix"]), layer)
    moved = memory
    if row["control"] == "matched":
        moved = row["matched_key"] + neurons * bool(oracle.signs == 2 and activations.m[-1, row["matched_key"]] < 0)
    now, most = (float(part.coefficients()[-1, moved]) for part in (activations, tested))
    noise = sum(part.noise(inputs.near.limits.noise) for part in (activations, tested))
    if row["intervention"] == "resample":
        other = inputs.layer(inputs.numbered(row["other_prefix"]), layer)
        aim = float(other.coefficients()[-1, moved])
    elif row["intervention"] == "mean":
        aim = float(inputs.means[layer - 1][moved % neurons]) * (1 if moved < neurons else -1)
    else:
        aim = 2 * most if row["intervention"] == "double" else 0.0
    aim = now + most - aim if row["control"] == "inactive" else aim
    results = [
        inputs.near.coefficient("coefficient", row["coefficient"], now, noise),
        inputs.near.coefficient("set_to", row["set_to"], aim, 2 * noise, max(abs(aim), abs(now), abs(most))),
    ]
    if (now > noise) == (row["control"] == "inactive") and abs(now) > noise:
        results.append(Result(DIFFERS, f"the coefficient is {now:.6g}, which no {row['control']} row has"))
    vector = inputs.vector("added", layer, moved)
    if row["control"] == "direction":
        direction = changes.direction(inputs.config.seed, layer, memory, row["prefix"], len(vector))
        vector = vector.norm() * torch.from_numpy(direction).to(vector.dtype)
    change = vector * (row["set_to"] - row["coefficient"])
    changed = oracle.changed(text, through, layer, change)
    return together(results + _outcomes(inputs, row, changed, at))


def _outcomes(inputs: AuditInputs, row: TableRow, found: Changed, at: int) -> list[Result]:
    """Compare the columns that say what a change does, given what the last layer gives."""
    oracle, layer, memory = inputs.oracle, row["layer"], row["key"]
    final_changes = [oracle.held_final(change, found.before) for change in (found.direct, found.after - found.before)]
    ends = [oracle.final(found.before), oracle.final(found.after)]
    logits, after, direct, frozen = oracle.linear(torch.stack([*ends, *final_changes]))
    free, neurons = after - logits, oracle.keys[1] // oracle.signs
    other = changes.other_memory(inputs.config.seed, layer, memory, neurons)
    vectors = [inputs.vector("value", layer, number) for number in (memory, other)]
    own, others = oracle.of_value(torch.stack(vectors))
    named = ("direct", direct, own), ("total", free, own), ("total_frozen", frozen, own), ("other_total", free, others)
    results = [_mean_logit(inputs, row, name, change, said, logits) for name, change, said in named]
    before, said_after = oracle.said(torch.stack([found.before, found.after]))
    return results + _of_model(inputs, row, before, said_after, logits, at)


def _of_model(
    inputs: AuditInputs, row: TableRow, before: Tensor, after: Tensor, logits: Tensor, at: int
) -> list[Result]:
    """Compare how the model's log p (vocab,) changes at a numbered prefix; ``logits``: (vocab,), without the change."""
    results, top = [], int(before.argmax())
    divergence = float(torch.where(before > -torch.inf, before.exp() * (before - after), 0).sum())
    shifts = {"top_log_probability": float(after[top] - before[top]), "kl": divergence}
    if at + 1 not in inputs.corpus.offsets:  # the sentence goes on
        following = int(inputs.corpus.tokens[at + 1])
        shifts["loss"] = float(before[following] - after[following])
    elif row["loss"] is not None:
        results.append(Result(DIFFERS, "loss is not null at the end of a sentence"))
    results += [inputs.near.shift(name, row[name], number, logits, after) for name, number in shifts.items()]
    return [*results, _other_top(inputs, "top_changed", row["top_changed"], before, after)]


def _other_top(inputs: AuditInputs, column: str, recorded: bool, before: Tensor, after: Tensor) -> Result:
    """Compare whether the most probable token of log p (vocab,) changes."""
    changed = int(after.argmax()) != int(before.argmax())
    if recorded == changed:
        return Result()
    gaps = [float(prediction.topk(2).values.diff().abs()) for prediction in (before, after)]
    close = min(gaps) <= 2 * inputs.near.slack(before)
    return Result(NEAR_TIE if close else DIFFERS, f"{column} is {recorded}, recomputed {changed}")


def _mean_logit(
    inputs: AuditInputs, row: TableRow, column: str, change: Tensor, said: Tensor, logits: Tensor
) -> Result:
    """Compare the mean change of logits (vocab,) over the tokens that a value promotes most, by its log p ``said``."""
    best = said.topk(min(changes.PROMOTED, len(said)))
    result = inputs.near.shift(column, row[column], float(change[best.indices].mean()), logits, change)
    last, slack = best.values[-1], inputs.near.narrow(said)
    tied, sure = change[(said - last).abs() <= slack].sort().values, change[said > last + slack]
    if result.state != DIFFERS or len(tied) + len(sure) == len(best.values):
        return result
    count = len(best.values) - len(sure)  # which of the tokens that are tied for the last place count is open
    low, high = (float((sure.sum() + part.sum()) / len(best.values)) for part in (tied[:count], tied[-count:]))
    nearest = min(max(row[column], low), high)
    open_ = inputs.near.shift(column, row[column], nearest, logits, change).state != DIFFERS
    return Result(NEAR_TIE if open_ else DIFFERS, result.says)


def removals(inputs: AuditInputs, row: TableRow) -> Result:
    """Check a row of ``removals``: which memories are removed, and what follows.

    Where rounding may choose other memories, a choice of them must explain the whole row. Only if there are more than
    ``CHOICES``, of which not all are tried, the row cannot be told, and counts as a near-tie.
    """
    layer = row["layer"]
    text = inputs.numbered(row["prefix"])
    through = inputs.layers(text)
    sizes = through[layer - 1].m[-1].abs() * inputs.norms(layer)
    if row["by"] == "size":
        every = _strongest(inputs, layer, through[layer - 1], sizes, row["removed"])
    elif row["removed"] != 1:
        return Result(DIFFERS, f"{row['removed']} memories are removed by margin, which takes one")
    else:
        every = ([memory] for memory in _of_margin(inputs, layer, through[layer - 1]))
    first = _removed(inputs, row, through, text, sizes, next(every))
    if first.state != DIFFERS:
        return first
    tried = (_removed(inputs, row, through, text, sizes, memories) for memories in islice(every, CHOICES))
    if any(other.state != DIFFERS for other in tried) or next(every, None) is not None:
        return Result(NEAR_TIE, first.says)
    return first


def _removed(
    inputs: AuditInputs, row: TableRow, through: list[Activations], text: np.ndarray, sizes: Tensor, memories: list[int]
) -> Result:
    """Compare what follows if these memories are removed; ``sizes``: (d_m,) of all."""
    layer, oracle = row["layer"], inputs.oracle
    activations, values = through[layer - 1], oracle.vectors("added", layer)[memories]
    changed = oracle.changed(text, through, layer, -(activations.m[-1, memories] @ values))
    whole = float(sizes.sum())
    share = float(sizes[memories].sum()) / whole if whole else 0.0
    vectors = torch.stack([activations.ffn[-1], changed.ffn, changed.before, changed.after])
    layer_before, layer_after, before, after = oracle.said(vectors)
    logits = oracle.linear(oracle.final(changed.before))
    results = [inputs.near.ratio("share", row["share"], share)]
    results.append(_other_top(inputs, "layer_top_changed", row["layer_top_changed"], layer_before, layer_after))
    return together(results + _of_model(inputs, row, before, after, logits, row["prefix"]))


def _strongest(inputs: AuditInputs, layer: int, seen: Activations, sizes: Tensor, count: int) -> Iterator[list[int]]:
    """Yield the memories of largest sizes (d_m,), then others that rounding may choose; ``IndexError`` if too few."""
    if not 1 <= count <= len(sizes):
        raise IndexError(count)
    ordered, index = sizes.sort(descending=True, stable=True)
    limits = inputs.near.limits
    error = limits.tie * ordered[count - 1] + seen.noise(limits.noise) * inputs.norms(layer)[index]
    last, next_ = ordered[count - 1], ordered[count] if count < len(ordered) else ordered[-1]
    sure = ordered - error > next_ + error[min(count, len(error) - 1)]
    may = (ordered + error >= last - error[count - 1]) & (ordered > 0)
    inside, close = index[:count][sure[:count]].tolist(), index[may & ~sure].tolist()
    missing = index[:count][~sure[:count]].tolist()
    yield index[:count].tolist()
    for few in combinations(close, count - len(inside)):
        if list(few) != missing:
            yield [*inside, *few]


def _of_margin(inputs: AuditInputs, layer: int, seen: Activations) -> Iterator[int]:
    """Yield the memory that adds most to the margin of a layer's prediction, then the others that rounding may choose.

    The norms behind it are held, so what a memory adds is its product with one vector.
    """
    oracle, limits, y = inputs.oracle, inputs.near.limits, seen.ffn[-1]
    log_probabilities = oracle.said(y)
    slack, best = 2 * inputs.near.slack(log_probabilities), log_probabilities.topk(min(CHOICES, len(log_probabilities)))
    values = oracle.vectors("added", layer)
    passed = oracle.held_final(oracle.direct(seen, layer, values), y)  # (d_m, d)
    tied = [[j for j, other in enumerate(best.values) if abs(best.values[i] - other) <= slack] for i in (0, 1)]
    pairs, yielded = dict.fromkeys([(0, 1), *((i, j) for i in tied[0] for j in tied[1] if i != j)]), set[int]()
    for top, second in pairs:
        along = oracle.word(int(best.indices[top])) - oracle.word(int(best.indices[second]))
        slopes = passed @ along
        adds = seen.m[-1] * slopes
        error = seen.noise(limits.noise) * slopes.abs() + limits.probability * adds.abs()
        order = adds.argsort(descending=True)
        for memory in order[adds[order[0]] - error[order[0]] <= (adds + error)[order]].tolist():
            if memory not in yielded:
                yielded.add(memory)
                yield memory


ROWS: dict[str, Callable[[AuditInputs, TableRow], Result]] = {
    name: globals()[name] for name in TABLES if name in globals()
}


def place(name: str, row: TableRow) -> str:
    """Return a row's place in words."""
    return " ".join(f"{column} {row[column]}" for column in TABLES[name].key)


def recomputed(name: str, inputs: AuditInputs, row: TableRow) -> Result:
    """Recompute one row of a table from the model and the text.

    A row that differs is judged again by its own rounding error; if that alone explains much, it is a near-tie.
    """
    try:
        with torch.inference_mode():
            result = ROWS[name](inputs, row)
            if result.state != DIFFERS or name == "values" or inputs.quick or not inputs.measuring.measures:
                return result
            again = _by_its_own_error(inputs, ROWS[name], row)
            far = again.state == MATCH and result.difference > CLOSE * inputs.near.limits.coefficient
            return again if again.state == DIFFERS else Result(NEAR_TIE if far else again.state, "", result.difference)
    except (KeyError, IndexError, pl.exceptions.OutOfBoundsError):
        return Result(DIFFERS, "names a trigger, an example or a sentence that does not exist")
    except (ArithmeticError, ValueError, TypeError) as error:
        return Result(DIFFERS, f"cannot be recomputed from what it says ({str(error).partition(chr(10))[0]})")


def _by_its_own_error(inputs: AuditInputs, check: Callable[[AuditInputs, TableRow], Result], row: TableRow) -> Result:
    """Judge a row by how far the reference model is off in float32: in coefficients, logits and log-probabilities."""

    def scores() -> list[Tensor]:
        own = replace(inputs)
        own.near = replace(inputs.near, seen=[])
        check(own, row)
        return own.near.seen or []

    exact, rounded = scores(), list[Tensor]()
    with inputs.oracle.in_float32(), suppress(RuntimeError):  # a model whose code needs float64 gives no errors
        rounded = scores()
    pairs = zip(exact, rounded, strict=False)  # where rounding chooses among memories, one may have tried more of them
    errors = [ERRORS * float((one - other).abs().nan_to_num(0.0, 0.0).max()) for one, other in pairs]
    measuring = replace(inputs.measuring)
    measuring.near = replace(inputs.near, errors=iter(errors))
    return check(measuring, row)


def texts_of(inputs: AuditInputs, name: str, number: int) -> tuple[int, list[np.ndarray]]:
    """Return what a row needs the model to run: the last layer, and sentences or prefixes."""
    layers = inputs.oracle.keys[0]
    if name not in ROWS:
        return layers, [inputs.corpus.sentence(number)]
    row = inputs.tables[name].row(number, named=True)
    if name == "triggers":
        return row["layer"], [inputs.corpus.sentence(row["sentence"])]
    if name == "mutations":
        return row["layer"], [inputs.without(inputs.trigger(row), row["removed"], row.get("removed_tokens", 1))]
    if name in ("causal", "removals"):
        return layers, [inputs.numbered(row[end]) for end in ("prefix", "other_prefix") if row.get(end) is not None]
    if name == "values":
        return 1, []
    return layers, [inputs.prefix(row if name == "examples" else inputs.example(row))]

"""How rows of the tables beyond the paper are recomputed, and what all of them follow from."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, islice

import numpy as np
import polars as pl
import torch
from torch import Tensor

from ff_memories.audit.audit_inputs import KEY, AuditInputs, TableAudit, TableRow
from ff_memories.audit.equations import Activations, Change
from ff_memories.audit.near_equal import DIFFERS, NEAR_TIE, Result, Tolerances, together, unlike
from ff_memories.paper.beyond import causal, removals, survey

CHOICES = 64  # of memories that are removed, where rounding may choose others


def _numbered(inputs: AuditInputs, prefix: int) -> np.ndarray:
    """Return the validation prefix whose last token has a number in the corpus. Raises ``IndexError`` if none."""
    corpus = inputs.corpus
    sentence = int(np.searchsorted(corpus.offsets, prefix, side="right")) - 1
    if not corpus.train <= sentence < len(corpus):
        raise IndexError(prefix)
    return corpus.sentence(sentence)[: prefix + 1 - corpus.offsets[sentence]]


def _runs(inputs: AuditInputs, row: TableRow) -> tuple[int, list[np.ndarray]]:
    numbers = [row[end] for end in ("prefix", "other_prefix") if row.get(end) is not None]
    return inputs.oracle.keys[0], [_numbered(inputs, number) for number in numbers]


def _causal(inputs: AuditInputs, row: TableRow) -> Result:
    """Check a row of ``causal``: what is changed, and what follows from it."""
    layer, memory, oracle = row["layer"], row["key"], inputs.oracle
    neurons = oracle.keys[1] // oracle.signs
    at = row["other_prefix"] if row["control"] == "inactive" else row["prefix"]
    text = _numbered(inputs, at)
    through = inputs.layers(text)
    activations, tested = through[layer - 1], inputs.layer(_numbered(inputs, row["prefix"]), layer)
    moved = memory
    if row["control"] == "matched":
        moved = row["matched_key"] + neurons * bool(oracle.signs == 2 and activations.m[-1, row["matched_key"]] < 0)
    now, most = (float(part.coefficients()[-1, moved]) for part in (activations, tested))
    noise = sum(map(inputs.noise, (activations, tested)))
    if row["intervention"] == "resample":
        other = inputs.layer(_numbered(inputs, row["other_prefix"]), layer)
        aim = float(other.coefficients()[-1, moved])
    elif row["intervention"] == "mean":
        mean = inputs.surveyed().mean[layer - 1][moved % neurons]  # by the engine: many prefixes for one number
        aim = float(mean) * (1 if moved < neurons else -1)
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
        direction = causal.direction(inputs.config.seed, layer, memory, row["prefix"], len(vector))
        vector = vector.norm() * torch.from_numpy(direction).to(vector.dtype)
    change = vector * (row["set_to"] - row["coefficient"])
    ends = through[-1].output[-1], inputs.changed(Change(text, through, layer, change))[0]
    return together(results + _outcomes(inputs, row, oracle.direct(activations, layer, change), ends, at))


def _outcomes(inputs: AuditInputs, row: TableRow, added: Tensor, ends: tuple[Tensor, Tensor], at: int) -> list[Result]:
    """Compare the columns that say what a change does.

    ``added``: (d,) what it adds by itself to the layer; ``ends``: what the last layer gives, without and with it.
    """
    oracle, layer, memory = inputs.oracle, row["layer"], row["key"]
    final_changes = [oracle.held_final(change, ends[0]) for change in (added, ends[1] - ends[0])]
    logits, after, direct, frozen = oracle.linear(torch.stack([*map(oracle.final, ends), *final_changes]))
    free, neurons = after - logits, oracle.keys[1] // oracle.signs
    other = causal.other_memory(inputs.config.seed, layer, memory, neurons)
    vectors = [inputs.vector("value", layer, number) for number in (memory, other)]
    own, others = oracle.of_value(torch.stack(vectors))
    named = ("direct", direct, own), ("total", free, own), ("total_frozen", frozen, own), ("other_total", free, others)
    results = [_mean_logit(inputs, row, name, change, said, logits) for name, change, said in named]
    before, said_after = oracle.said(torch.stack(ends))
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
    changed, slack = int(after.argmax()) != int(before.argmax()), 2 * inputs.near.slack(before)
    gaps = [float(prediction.topk(2).values.diff().abs()) for prediction in (before, after)]
    return Result() if recorded == changed else unlike(column, recorded, changed, min(gaps) <= slack)


def _mean_logit(
    inputs: AuditInputs, row: TableRow, column: str, change: Tensor, said: Tensor, logits: Tensor
) -> Result:
    """Compare the mean change of logits (vocab,) over the tokens that a value promotes most, by its log p ``said``."""
    best = said.topk(min(causal.PROMOTED, len(said)))
    mean, last, slack = float(change[best.indices].mean()), best.values[-1], inputs.near.narrow(said)
    tied, sure = change[(said - last).abs() <= slack].sort().values, change[said > last + slack]
    count = len(best.values) - len(sure)  # which of the tokens that are tied for the last place count is open
    low, high = (float((sure.sum() + part.sum()) / len(best.values)) for part in (tied[:count], tied[-count:]))
    nearest = min(max(row[column], low), high) if len(tied) > count else mean
    result, open_ = (inputs.near.shift(column, row[column], one, logits, change) for one in (mean, nearest))
    return Result(NEAR_TIE, result.says) if result.state == DIFFERS != open_.state else result


def _removals(inputs: AuditInputs, row: TableRow) -> Result:
    """Check a row of ``removals``: which memories are removed, and what follows.

    Where rounding may choose other memories, a choice of them must explain the whole row. Only if there are more than
    ``CHOICES``, of which not all are tried, the row cannot be told, and counts as a near-tie.
    """
    layer = row["layer"]
    text = _numbered(inputs, row["prefix"])
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
    end, ffn = inputs.changed(Change(text, through, layer, -(activations.m[-1, memories] @ values)))
    whole = float(sizes.sum())
    share = float(sizes[memories].sum()) / whole if whole else 0.0
    vectors = torch.stack([activations.ffn[-1], ffn, through[-1].output[-1], end])
    layer_before, layer_after, before, after = oracle.said(vectors)
    logits = oracle.linear(oracle.final(through[-1].output[-1]))
    results = [inputs.near.ratio("share", row["share"], share)]
    results.append(_other_top(inputs, "layer_top_changed", row["layer_top_changed"], layer_before, layer_after))
    return together(results + _of_model(inputs, row, before, after, logits, row["prefix"]))


def _strongest(inputs: AuditInputs, layer: int, seen: Activations, sizes: Tensor, count: int) -> Iterator[list[int]]:
    """Yield the memories of largest sizes (d_m,), then others that rounding may choose; ``IndexError`` if too few."""
    if not 1 <= count <= len(sizes):
        raise IndexError(count)
    ordered, index = sizes.sort(descending=True, stable=True)
    limits = inputs.near.limits
    error = limits.tie * ordered[count - 1] + inputs.noise(seen) * inputs.norms(layer)[index]
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
    oracle, limits, y, noise = inputs.oracle, inputs.near.limits, seen.ffn[-1], inputs.noise(seen)
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
        error = noise * slopes.abs() + limits.probability * adds.abs()
        order = adds.argsort(descending=True)
        for memory in order[adds[order[0]] - error[order[0]] <= (adds + error)[order]].tolist():
            if memory not in yielded:
                yielded.add(memory)
                yield memory


def _causal_table(inputs: AuditInputs) -> Iterator[str]:
    recorded, corpus = inputs.tables["causal"], inputs.corpus
    sentence, position = survey.drawn_prefixes(corpus, inputs.config.seed)
    prefixes = set((corpus.offsets[sentence] + position - 1)[::2].tolist())
    if not set(recorded["prefix"]) | set(recorded["other_prefix"].drop_nulls()) <= prefixes:
        yield "not the prefixes that the seed draws"
    control, intervention = recorded["control"].cast(pl.String), recorded["intervention"].cast(pl.String)
    if ((control == "matched") != recorded["matched_key"].is_not_null()).any():
        yield "a matched key does not belong to a matched control"
    other = (control == "inactive") | (intervention == "resample")
    if (other != recorded["other_prefix"].is_not_null()).any():
        yield "another prefix does not belong to a row that has none"
    yield from _as_drawn(inputs, inputs.surveyed())


def _as_drawn(inputs: AuditInputs, seen: survey.Survey) -> Iterator[str]:
    """Draw the rows of ``causal`` again, from what the engine finds here; prefixes may be others at a near-tie."""
    sampled = causal.sample(seen, inputs.corpus, inputs.config.causal, inputs.config.seed, inputs.looked_at.rows())
    numbers = pl.col(*KEY, "prefix", "other_prefix", "matched_key").cast(pl.Int64)
    words = pl.col("intervention", "control").cast(pl.String)
    own, again = (frame.select(numbers, words) for frame in (inputs.tables["causal"], sampled))
    if not own.select(KEY).unique().sort(KEY).equals(again.select(KEY).unique().sort(KEY)):
        yield "not the memories that the seed draws among those that are active"
        return
    how = [*KEY, "intervention", "control"]
    if not own.group_by(how).len().sort(how).equals(again.group_by(how).len().sort(how)):
        yield "a memory lacks a prefix, an intervention or a control, or has one too many"
    limits, tested = inputs.near.limits, inputs.corpus.offsets[seen.sentence] + seen.position - 1
    twins = own.join(again, on=[*how, "prefix"]).filter(pl.col("matched_key") != pl.col("matched_key_right"))
    for layer, key, prefix, twin in twins.select(*KEY, "prefix", "matched_key").iter_rows():
        if not _as_alike(seen, limits, layer, key, int(np.flatnonzero(tested == prefix)[0]), twin):
            yield f"layer {layer} key {key}: {twin} is not the active memory that is most like it"
    own, again = own.drop("matched_key"), again.drop("matched_key")
    moved = own.join(again, on=own.columns, how="anti", nulls_equal=True).select(KEY).unique().sort(KEY)
    for layer, key in moved.iter_rows():
        m, this = seen.of(layer, key), (pl.col("layer") == layer) & (pl.col("key") == key)
        recorded, expected = (np.sort(m[np.isin(tested, frame.filter(this)["prefix"])]) for frame in (own, again))
        noise = limits.noise * float(np.abs(m).max())
        unsure = np.abs(m[m != 0]).min(initial=np.inf) <= noise  # whether it is active there hangs on rounding
        if len(recorded) != len(expected) or not (unsure or np.allclose(recorded, expected, limits.tie, noise)):
            yield f"layer {layer} key {key}: not the prefixes that the seed draws where it is active"
        both = own.filter(this).join(again.filter(this), on=[*how, "prefix"])
        certain = (pl.col("intervention") == "resample") | (not unsure)
        if len(both.filter(certain, pl.col("other_prefix").ne_missing(pl.col("other_prefix_right")))):
            yield f"layer {layer} key {key}: not the other prefix that the seed draws"


def _as_alike(seen: survey.Survey, limits: Tolerances, layer: int, memory: int, at: int, key: int) -> bool:
    """Return whether rounding may make ``key`` the memory that is most like another one and active at a prefix."""
    neurons, m = seen.mean.shape[1], seen.coefficients[layer - 1][at]
    best = causal.matched_memory(seen, layer, memory, at)
    if best is None or key >= neurons:
        return False
    if min(abs(m[key]), abs(m[best % neurons])) <= limits.noise * np.abs(m).max():
        return True  # whether it is active there hangs on rounding
    fires, twin = seen.fires.copy(), key + neurons * (seen.fires.shape[1] > neurons and m[key] < 0)
    now, slack = seen.fires[layer - 1], 2 * max(1, round(limits.count * seen.others))  # of both counts
    fires[layer - 1] = np.where(now >= now[memory], now + slack, np.maximum(now - slack, 0))
    fires[layer - 1, memory] = now[memory]
    fires[layer - 1, twin] = now[twin] + np.clip(now[memory] - now[twin], -slack, slack)
    return causal.matched_memory(replace(seen, fires=fires), layer, memory, at) == twin


def _removals_table(inputs: AuditInputs) -> Iterator[str]:
    (layers, memories), options = inputs.oracle.keys, inputs.config.removals
    sentence, position = removals.tested(inputs.corpus, inputs.config.seed, options.prefixes)
    numbers = removals.asked(options.memories, memories // inputs.oracle.signs)
    rows = [(removals.SIZE, n) for n in numbers] + [(removals.MARGIN, 1)]
    again = pl.DataFrame({"layer": range(1, layers + 1)})
    again = again.join(pl.DataFrame({"prefix": inputs.corpus.offsets[sentence] + position - 1}), how="cross")
    again = again.join(pl.DataFrame(rows, schema=["by", "removed"], orient="row"), how="cross")
    yield from inputs.other_rows("removals", again)


def _causal_counts(inputs: AuditInputs) -> dict[str, int]:
    layers, table = inputs.oracle.keys[0], inputs.tables["causal"]
    zero = sum(int((inputs.norms(layer) == 0).sum()) for layer in range(1, layers + 1))
    return causal.reasons(table, layers, zero, inputs.config.causal)


AUDITS = {
    "causal": TableAudit(row=_causal, runs=_runs, faults=_causal_table, counts=_causal_counts),
    "removals": TableAudit(
        row=_removals,
        runs=_runs,
        faults=_removals_table,
        counts=lambda inputs: removals.reasons(
            inputs.corpus, inputs.config.seed, inputs.config.removals, inputs.oracle.keys[1] // inputs.oracle.signs
        ),
    ),
}

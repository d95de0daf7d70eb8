"""How rows of section 3's tables are recomputed, what all of them follow from, and how missing triggers are found."""

from collections.abc import Iterator

import numpy as np
import polars as pl
import torch

from ff_memories.audit.audit_inputs import KEY, AuditInputs, TableAudit, TableRow
from ff_memories.audit.near_equal import DIFFERS, MATCH, NEAR_TIE, Result, equal, together
from ff_memories.corpus.store import Words
from ff_memories.paper.keys import mutations, trigger_table


def _trigger(inputs: AuditInputs, row: TableRow) -> Result:
    """Check a row of E1: the prefix's coefficient, whether it is its sentence's best, and the next token."""
    results = [equal("next_token", row["next_token"], inputs.following(row))]
    activations = inputs.layer(inputs.corpus.sentence(row["sentence"]), row["layer"])
    m = activations.coefficients()[:, row["key"]]
    allowed = inputs.lengths(row["sentence"])
    if row["position"] not in allowed:
        return Result(DIFFERS, f"position {row['position']} is not in {allowed.start} to {allowed.stop - 1}")
    coefficient, noise = float(m[row["position"]]), inputs.noise(activations, row["position"])
    results.append(inputs.near.coefficient("coefficient", row["coefficient"], coefficient, noise))
    at = allowed.start + int(m[allowed.start : allowed.stop].argmax())
    at = at if inputs.chosen is None else inputs.chosen.setdefault("best", at)
    gap = inputs.near.limits.tie * coefficient
    gap += sum(inputs.own_noise(activations, other) for other in (row["position"], at))
    if inputs.config.triggers.per_sentence == "best" and (best := float(m[at])) > coefficient:
        say = f"the best position of its sentence is {at}, not {row['position']}"
        results.append(Result(NEAR_TIE if best <= coefficient + gap else DIFFERS, say))
    return together(results)


def _trigger_table(inputs: AuditInputs) -> Iterator[str]:
    triggers, options = inputs.tables["triggers"], inputs.config.triggers
    inside = triggers.filter(pl.col("sentence") < inputs.corpus.train)
    if len(inside) < len(triggers):
        yield "a sentence is not one of the training text"
    if len(triggers.join(inputs.looked_at, on=KEY, how="anti")):
        yield "not the keys that the config asks for"
    same, next_one = pl.col("coefficient").diff().over(KEY).fill_null(-1), pl.int_range(pl.len()).over(KEY) + 1
    position = pl.col("sentence").cast(pl.Int64) * (1 << 16) + pl.col("position")
    ranks = (pl.col("rank") == next_one) & (pl.col("rank") <= options.top)
    descends = (same < 0) | ((same == 0) & (position.diff().over(KEY).fill_null(1) > 0))
    if not triggers.select((ranks & descends & (pl.col("coefficient") > 0)).all()).item():
        yield "not in descending order of their coefficients"
    entry = [*KEY, "sentence"] + ([] if options.per_sentence == "best" else ["position"])
    if triggers.select(entry).is_duplicated().any():
        yield "a prefix is listed twice"
    if options.duplicates == "drop" and trigger_table.repeated(inside, inputs.corpus):
        yield "two triggers of a key have the same text"
    if not triggers["next_token"].equals(inputs.following_all(triggers)):
        yield "a next token is not the one in the text"


def _mutation(inputs: AuditInputs, row: TableRow) -> Result:
    """Check a row of E3: a trigger's coefficient after removing one token or word."""
    first, *others = inputs.candidates(row)
    result = _mutation_of(inputs, row, first)
    if result.state == DIFFERS and any(_mutation_of(inputs, row, other).state != DIFFERS for other in others):
        return Result(NEAR_TIE)
    return result


def _mutation_of(inputs: AuditInputs, row: TableRow, source: TableRow) -> Result:
    parts = _parts(inputs, source)
    random = parts
    if inputs.config.mutations.random == "earlier":
        random = [(first, source["position"] - first + 1) for first, _ in parts]
    may = {"first": parts[:1], "last": parts[-1:], "random": random}[row["mutation"]]
    if not parts or (row["removed"], row.get("removed_tokens", 1)) not in may:
        of = f"of the prefix's {len(parts)} {inputs.config.mutations.unit}s"
        return Result(DIFFERS, f"removed is {row['removed']}, which is not what {row['mutation']!r} removes {of}")
    activations = inputs.layer(_without(inputs, source, row), row["layer"])
    mutated = float(activations.coefficients()[-1, row["key"]])
    change = row["mutated"] / row["coefficient"] - 1
    both = "coefficient", row["coefficient"], source["coefficient"]
    noise = inputs.noise(activations)
    # lists that were found here were measured in other batches than the row, or on another CPU
    coefficient = inputs.near.coefficient(*both, noise) if inputs.found_here else equal(*both)
    after = inputs.near.coefficient("mutated", row["mutated"], mutated, noise, max(mutated, source["coefficient"]))
    relative = inputs.near.coefficient("change", row["change"], change, scale=1 + abs(change))
    return together([coefficient, after, relative])


def _parts(inputs: AuditInputs, row: TableRow) -> list[tuple[int, int]]:
    """Return what mutations may remove from a prefix: the first token, from 1, and number of tokens of each."""
    starts, length, begins = np.arange(row["position"]), row["position"], inputs.corpus.begins
    if inputs.config.mutations.unit == "word" and begins is not None:
        first = inputs.corpus.offsets[row["sentence"]]
        starts = np.flatnonzero(begins[first : first + length])
    return [(int(a) + 1, int(b - a)) for a, b in zip(starts, [*starts[1:], length], strict=True)] if length else []


def _without(inputs: AuditInputs, source: TableRow, row: TableRow) -> np.ndarray:
    """Return a trigger's prefix without the tokens that a row removes."""
    first = row["removed"] - 1
    return np.delete(inputs.prefix(source), slice(first, first + row.get("removed_tokens", 1)))


def _sampled(inputs: AuditInputs) -> tuple[pl.DataFrame, dict[str, int]]:
    """Draw the rows of ``mutations`` again; also return what is left out."""
    triggers, options, seed = inputs.tables["triggers"], inputs.config.mutations, inputs.config.seed
    words = Words(inputs.corpus) if options.unit == "word" else None
    return mutations.sample(triggers, *inputs.oracle.keys, options, seed, len(inputs.looked_at), words)


def _mutation_table(inputs: AuditInputs) -> Iterator[str]:
    recorded, (again, _) = inputs.tables["mutations"], _sampled(inputs)
    if inputs.found_here:  # random tokens are drawn in the order of triggers, in which near-ties may change places
        again = again.drop("removed", "removed_tokens", "coefficient", strict=False)
    else:
        its = inputs.tables["triggers"].select(*KEY, "rank", "coefficient")
        again = again.drop("coefficient", strict=False).join(its, on=[*KEY, "rank"])
    columns = [column for column in again.columns if column in recorded.columns]
    yield from inputs.other_rows("mutations", again.select(columns))
    ratio = recorded["mutated"].cast(pl.Float64) / recorded["coefficient"].cast(pl.Float64) - 1
    if ((ratio - recorded["change"]).abs() > 1e-6 * (1 + recorded["change"].abs())).any():
        yield "a change does not follow from its coefficients"


class Unlisted:
    """Compare whole sentences with the last triggers of all keys at once."""

    def __init__(self, inputs: AuditInputs):
        self.inputs, self.options, self.limits = inputs, inputs.config.triggers, inputs.near.limits
        triggers = inputs.tables["triggers"]
        full = triggers.filter(pl.col("rank") == self.options.top)
        # nothing beats the list of a key that the run did not look at; any prefix one with room
        self.last = torch.full(inputs.oracle.keys, torch.inf, dtype=torch.float64)
        layers, keys = (inputs.looked_at[name].cast(pl.Int64).to_torch() for name in KEY)
        self.last[layers - 1, keys] = 0
        layers, keys = (full[name].cast(pl.Int64).to_torch() for name in KEY)
        self.last[layers - 1, keys] = full["coefficient"].cast(pl.Float64).to_torch()
        self.listed = triggers.select("sentence", "position", "layer", "key").partition_by("sentence", as_dict=True)

    @torch.inference_mode()
    def of(self, sentence: int) -> Result:
        """Run a whole sentence and check that no prefix beats the last trigger of a key that does not list it."""
        activations = self.inputs.layers(self.inputs.corpus.sentence(sentence))
        allowed = self.inputs.lengths(sentence)
        listed = self.listed.get((sentence,), self.inputs.tables["triggers"].clear())
        results = []
        for layer, here in enumerate(activations, 1):
            m = here.coefficients()[allowed.start : allowed.stop]
            noise = here.noise(self.limits.noise)  # a smaller score may have either sign
            beats = m > (self.last[layer - 1] * (1 - self.limits.coefficient)).clamp(min=noise)
            if self.options.per_sentence == "best":
                best = torch.zeros_like(beats)
                best[m.argmax(0), torch.arange(m.shape[1])] = True
                beats &= best
            mine = listed.filter(pl.col("layer") == layer)
            place, keys = (mine[name].cast(pl.Int64).to_torch() for name in ("position", "key"))
            beats[slice(None) if self.options.per_sentence == "best" else place - allowed.start, keys] = False
            for row, key in beats.nonzero().tolist():
                results.append(self._against_last(layer, key, sentence, row + allowed.start, float(m[row, key])))
        missing = [result for result in results if result.state == DIFFERS]
        if missing:
            more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
            return Result(DIFFERS, missing[0].says + more)
        return Result(NEAR_TIE if any(result.state == NEAR_TIE for result in results) else MATCH)

    def _against_last(self, layer: int, key: int, sentence: int, position: int, found: float) -> Result:
        """Compare an unlisted prefix with its key's last trigger, both recomputed; the earlier place wins a tie."""
        whose = f"layer {layer} key {key} (coefficient {found:.7g})"
        missing = Result(DIFFERS, f"its prefix of {position} tokens should be a trigger of {whose}")
        rows = self.inputs.triggers(layer, key)
        text = self.inputs.corpus.sentence(sentence)[:position].tobytes()
        same = [row for row in rows.iter_rows(named=True) if self.inputs.prefix(row).tobytes() == text]
        if same and self.options.duplicates == "drop":
            return Result() if (same[0]["sentence"], same[0]["position"]) < (sentence, position) else missing
        bar, ends = 0.0, [(sentence, position)]
        if len(rows) == self.options.top:
            last = rows.row(-1, named=True)
            if same and same[-1] == last:
                return Result() if (last["sentence"], last["position"]) < (sentence, position) else missing
            ends.append((last["sentence"], last["position"]))
            tokens = self.inputs.corpus.sentence(last["sentence"])
            bar = float(self.inputs.layer(tokens, layer).coefficients()[last["position"], key])
        if found < bar * (1 - self.limits.tie):
            return Result()
        if found - bar <= self.limits.tie * bar and not self.inputs.quick:
            return Result(NEAR_TIE)

        def by_noise(inputs: AuditInputs) -> Result:
            layers = ((inputs.layer(inputs.corpus.sentence(i), layer), row) for i, row in ends)
            off = [inputs.own_noise(here, row) for here, row in layers]
            return Result(NEAR_TIE) if found - bar <= sum(off) else missing

        as_exact = self.inputs.quick or self.inputs.config.precision != "float32"
        return missing if as_exact else self.inputs.by_its_own_error(by_noise)


AUDITS = {
    "triggers": TableAudit(
        row=_trigger,
        runs=lambda inputs, row: (row["layer"], [inputs.corpus.sentence(row["sentence"])]),
        faults=_trigger_table,
        counts=lambda inputs: trigger_table.reasons(
            inputs.tables["triggers"], inputs.corpus, inputs.config.triggers, len(inputs.looked_at)
        ),
    ),
    "mutations": TableAudit(
        row=_mutation,
        runs=lambda inputs, row: (row["layer"], [_without(inputs, inputs.trigger(row), row)]),
        faults=_mutation_table,
        counts=lambda inputs: _sampled(inputs)[1],
    ),
}

"""Check what follows from other tables, the text and the config, without the reference model.

That is which rows a table has, in which order, and every cell that others determine. These checks look at all rows,
so a forger who edits one of these cells is always found. Which rows `causal` has hangs on where memories are active, so
for these alone the engine runs again.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from ff_memories import tables as recorded_tables
from ff_memories.audit.audit_inputs import AuditInputs
from ff_memories.audit.near_equal import Tolerances
from ff_memories.base.arithmetic import Precision
from ff_memories.corpus.dictionary import BOS
from ff_memories.corpus.store import Words
from ff_memories.paper.beyond import causal, removals, survey
from ff_memories.paper.keys import memory_selection, mutations, trigger_table
from ff_memories.paper.layers import composition
from ff_memories.paper.layers.composition import kinds
from ff_memories.paper.values.values import other, targets

Frame = pl.DataFrame
KEY = ["layer", "key"]
# steps that run the model and count what they skip
COUNTS = ("triggers", "mutations", "composition", "causal", "removals")


def faults(inputs: AuditInputs) -> list[str]:
    """Return what contradicts other tables, the text or the config, each as ``table: what``."""
    lines = []
    for name, frame in inputs.tables.items():
        has = columns(inputs, name)
        lines += [f"{name}: lacks the column {column}" for column in sorted(has - set(frame.columns))]
        lines += [f"{name}: has the column {column}, as no run of this config" for column in set(frame.columns) - has]
        if name in CHECKS and not (inputs.found_here and name == "triggers"):
            lines += [f"{name}: {what}" for what in CHECKS[name](inputs)]
    return lines


def columns(inputs: AuditInputs, name: str) -> set[str]:
    """Return the columns that a table of the run has: those of its schema that config and model ask for."""
    own, schema = inputs.config.values.types, recorded_tables.TABLES[name]
    # where both choices of types have the same numbers, the tables of other models keep one
    alike = inputs.found_here and not inputs.never and (name == "values" or inputs.config.values.projection != "random")

    def has(column: str) -> bool:
        if column == "removed_tokens":
            return inputs.config.mutations.unit == "word" or inputs.config.mutations.random == "earlier"
        if "folded" in column and inputs.folds is None:
            return False
        return not column.endswith((f"_{own}", f"_{other(own)}")) or (column.endswith(f"_{other(own)}") and not alike)

    return set(schema.columns) | set(filter(has, schema.optional))


def as_written(files: Mapping[str, Path], precision: Precision) -> Iterator[str]:
    """Yield which tables' files are not as a step writes them: in order, each key once, with the config's precision."""
    for name, file in files.items():
        if not recorded_tables.in_order(file, name):
            yield f"{name}: its rows are not in the order of their key, or one has several rows"
        if recorded_tables.TABLES[name].measured and (stated := recorded_tables.precision_of(file)) != precision:
            yield f"{name}: its file states that it was measured in {stated}, but the config says {precision}"


def counts_again(inputs: AuditInputs, step: str) -> Frame | None:
    """Return the table ``counts`` of a measuring step; ``None`` if its tables give a number that cannot be."""
    tables, config = inputs.tables, inputs.config
    (layers, keys), signs = inputs.oracle.keys, inputs.oracle.signs
    looked_at = signs * memory_selection.count(config.looked_at, layers, keys // signs)
    if step == "triggers":
        reasons = trigger_table.reasons(tables["triggers"], inputs.corpus, config.triggers, looked_at)
    elif step == "mutations":
        _, reasons = _drawn(inputs, looked_at)
    elif step == "composition":
        examples = len(tables["examples"])
        missing = 0 if inputs.given is not None else config.composition.examples - examples
        reasons = composition.reasons(tables["refinement"], examples, missing)
    elif step == "causal":
        zero = sum(int((inputs.norms(layer) == 0).sum()) for layer in range(1, layers + 1))
        reasons = causal.reasons(tables["causal"], layers, zero, config.causal)
    else:
        reasons = removals.reasons(inputs.corpus, config.seed, config.removals, keys // signs)
    if any(n < 0 for n in reasons.values()):
        return None
    return recorded_tables.conform(recorded_tables.counts(step, reasons), recorded_tables.TABLES["counts"])


def _asked(inputs: AuditInputs) -> Frame:
    """Return the (layer, key) that the config asks for."""
    layers, keys = inputs.oracle.keys
    asked = inputs.looked_at or [(layer, key) for layer in range(1, layers + 1) for key in range(keys)]
    return pl.DataFrame(asked, schema={"layer": pl.UInt8, "key": pl.UInt16}, orient="row")


def _as_expected(name: str, found: Frame, again: Frame) -> Iterator[str]:
    """Yield how a table's rows, or their cells in the columns of ``again``, are other than these."""
    key = [column for column in recorded_tables.TABLES[name].key if column in again.columns]
    plain = pl.col(again.columns).cast(pl.String)  # whatever the types of integers and categories
    one, two = (frame.select(plain).sort(key) for frame in (found, again))
    if not one.select(key).equals(two.select(key)):
        yield "not the rows that the config, the seed and other tables give"
        return
    for column in again.columns:
        if not one[column].equals(two[column]):
            yield f"{column} does not follow from the seed, the text or other tables"


def _triggers(inputs: AuditInputs) -> Iterator[str]:
    triggers, options = inputs.tables["triggers"], inputs.config.triggers
    inside = triggers.filter(pl.col("sentence") < inputs.corpus.train)
    if len(inside) < len(triggers):
        yield "a sentence is not one of the training text"
    if len(triggers.join(_asked(inputs), on=KEY, how="anti")):
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
    if not triggers["next_token"].equals(_following(inputs, triggers)):
        yield "a next token is not the one in the text"


def _following(inputs: AuditInputs, rows: Frame) -> pl.Series:
    """Return the token behind each (sentence, position), null at the end of a sentence or outside of the text."""
    sentence, position = (rows[name].cast(pl.Int64).to_numpy() for name in ("sentence", "position"))
    in_text = sentence < len(inputs.corpus)
    following = inputs.corpus.following(np.where(in_text, sentence, 0), position)
    token = pl.Series("next_token", np.where(in_text, following, -1))
    return token.set(token < 0, None).cast(pl.UInt32)


def _drawn(inputs: AuditInputs, looked_at: int | None = None) -> tuple[Frame, dict[str, int]]:
    triggers, options, seed = inputs.tables["triggers"], inputs.config.mutations, inputs.config.seed
    words = Words(inputs.corpus) if options.unit == "word" else None
    return mutations.sample(triggers, *inputs.oracle.keys, options, seed, looked_at, words)


def _mutations(inputs: AuditInputs) -> Iterator[str]:
    recorded, (again, _) = inputs.tables["mutations"], _drawn(inputs)
    if inputs.found_here:  # random tokens are drawn in the order of triggers, in which near-ties may change places
        again = again.drop("removed", "removed_tokens", "coefficient", strict=False)
    else:
        its = inputs.tables["triggers"].select(*KEY, "rank", "coefficient")
        again = again.drop("coefficient", strict=False).join(its, on=[*KEY, "rank"])
    columns_ = [column for column in again.columns if column in recorded.columns]
    yield from _as_expected("mutations", recorded, again.select(columns_))
    ratio = recorded["mutated"].cast(pl.Float64) / recorded["coefficient"].cast(pl.Float64) - 1
    if ((ratio - recorded["change"]).abs() > 1e-6 * (1 + recorded["change"].abs())).any():
        yield "a change does not follow from its coefficients"


def _examples(inputs: AuditInputs) -> Iterator[str]:
    corpus, options, again = inputs.corpus, inputs.config.composition, inputs.given
    if again is None:
        again = composition.sample_examples(corpus.lengths[corpus.train :], corpus.train, options, inputs.config.seed)
    again = again.select("example", "sentence", "position")
    yield from _as_expected("examples", inputs.tables["examples"], again.with_columns(_following(inputs, again)))


def _values(inputs: AuditInputs) -> Iterator[str]:
    recorded, config, again = inputs.tables["values"], inputs.config, _asked(inputs)
    suffixes = [s for s in ("", f"_{other(config.values.types)}") if f"top_token{s}" in recorded.columns]
    tops = recorded.select(*KEY, *(pl.col(f"top_token{s}").alias(f"top{s}") for s in suffixes))
    if inputs.found_here:
        again = again.join(recorded.select(*KEY, "next_token"), on=KEY, how="left")
    else:
        start = getattr(inputs.oracle, "start", BOS)
        trigger_targets = targets(inputs.tables["triggers"], inputs.corpus, config.values.target, start)
        first = trigger_targets.filter(pl.col("rank") == 1).select(*KEY, next_token=pl.col("target").cast(pl.UInt32))
        listed = trigger_targets.drop_nulls("target").join(tops, on=KEY, how="left").group_by(KEY)
        hits = {f"agreeing_triggers{s}": (pl.col("target") == pl.col(f"top{s}")).sum() for s in suffixes}
        again = again.join(first, on=KEY, how="left").join(listed.agg(triggers=pl.len(), **hits), on=KEY, how="left")
        again = again.with_columns(pl.col("triggers", *hits).fill_null(0))
    again = again.join(tops, on=KEY, how="left")
    agrees = {f"agrees{s}": pl.col("next_token") == pl.col(f"top{s}") for s in suffixes}
    yield from _as_expected("values", recorded, again.with_columns(**agrees).drop(f"top{s}" for s in suffixes))


def _observed(inputs: AuditInputs) -> Frame:
    """Return the (example, layer) that are looked at, with the tokens that the model predicts."""
    layers = pl.DataFrame({"layer": range(1, inputs.oracle.keys[0] + 1)}, schema={"layer": pl.UInt8})
    return inputs.tables["examples"].select("example", "model_top").join(layers, how="cross")


def _composition(inputs: AuditInputs) -> Iterator[str]:
    yield from _as_expected("composition", inputs.tables["composition"], _observed(inputs).drop("model_top"))


def _refinement(inputs: AuditInputs) -> Iterator[str]:
    recorded, on = inputs.tables["refinement"], ["example", "layer"]
    again = _observed(inputs).join(inputs.tables["composition"].select(*on, "ffn_top", "output_top"), on=on)
    again = again.join(recorded.select(*on, kinds().alias("kind")), on=on)
    yield from _as_expected("refinement", recorded, again)


def _causal(inputs: AuditInputs) -> Iterator[str]:
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
    if inputs.surveyed is not None:
        yield from _as_drawn(inputs, inputs.surveyed())


def _as_drawn(inputs: AuditInputs, seen: survey.Survey) -> Iterator[str]:
    """Draw the rows of ``causal`` again, from what the engine finds here; prefixes may be others at a near-tie."""
    sampled = causal.sample(seen, inputs.corpus, inputs.config.causal, inputs.config.seed, inputs.looked_at)
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
    unlike = own.join(again, on=own.columns, how="anti", nulls_equal=True).select(KEY).unique().sort(KEY)
    for layer, key in unlike.iter_rows():
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


def _removals(inputs: AuditInputs) -> Iterator[str]:
    (layers, memories), options = inputs.oracle.keys, inputs.config.removals
    sentence, position = removals.tested(inputs.corpus, inputs.config.seed, options.prefixes)
    numbers = removals.asked(options.memories, memories // inputs.oracle.signs)
    rows = [(removals.SIZE, n) for n in numbers] + [(removals.MARGIN, 1)]
    again = pl.DataFrame({"layer": range(1, layers + 1)})
    again = again.join(pl.DataFrame({"prefix": inputs.corpus.offsets[sentence] + position - 1}), how="cross")
    again = again.join(pl.DataFrame(rows, schema=["by", "removed"], orient="row"), how="cross")
    yield from _as_expected("removals", inputs.tables["removals"], again)


CHECKS: dict[str, Callable[[AuditInputs], Iterator[str]]] = {
    check.__name__.removeprefix("_"): check
    for check in (_triggers, _mutations, _examples, _values, _composition, _refinement, _causal, _removals)
}

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
import torch

from ff_memories import tables as recorded_tables
from ff_memories.audit.recompute.basis import Basis
from ff_memories.audit.recompute.tolerances import Tolerances
from ff_memories.base.precision import Precision
from ff_memories.corpus.prefixes import available
from ff_memories.corpus.words import Words
from ff_memories.memories import causal, composition, mutations, removals
from ff_memories.memories.refinement import kinds
from ff_memories.memories.search import chosen, trigger_table
from ff_memories.memories.shown import coefficient_sample
from ff_memories.memories.shown import keys as shown_keys
from ff_memories.memories.targets import targets
from ff_memories.memories.values import other

Frame = pl.DataFrame
KEY = ["layer", "key"]
AT_ONCE = 256  # vectors compared with all others at once
# steps that run the model and count what they skip
COUNTS = ("triggers", "mutations", "composition", "causal", "removals")


def faults(basis: Basis) -> list[str]:
    """Return what contradicts other tables, the text or the config, each as ``table: what``."""
    checks: list[tuple[str, Callable[[Basis], Iterator[str]]]] = [
        ("mutations", _mutations),
        ("examples", _examples),
        ("values", _values),
        ("composition", _observed),
        ("refinement", _refinement),
        ("causal", _causal),
        ("removals", _removals),
    ]
    if not basis.found_here:
        checks = [
            ("triggers", _triggers),
            ("firing", _firing),
            *checks,
            ("shading", _along),
            ("promoted", _promoted),
            ("similar", _similar),
            ("samples", _samples),
            ("histogram", _histogram),
        ]
    return [said for name, check in checks if name in basis.tables for said in check(basis)]


def as_written(files: Mapping[str, Path], precision: Precision) -> Iterator[str]:
    """Yield which tables' files are not as a step writes them: in order, each key once, with the config's precision.

    Args:
        files: {table: its file}.
    """
    for name, file in files.items():
        if not recorded_tables.in_order(file, name):
            yield f"{name}: its rows are not in the order of their key, or one has several rows"
        if recorded_tables.TABLES[name].measured and (said := recorded_tables.precision_of(file)) != precision:
            yield f"{name}: its file states that it was measured in {said}, but the config says {precision}"


def counted(basis: Basis, step: str) -> dict[str, int] | None:
    """Return what the table ``counts`` has to say of a measuring step; ``None`` for a step without a rule."""
    tables, config = basis.tables, basis.config
    (layers, keys), signs = basis.oracle.keys, basis.oracle.signs
    looked_at = signs * chosen.count(config.looked_at, layers, keys // signs)
    if step == "triggers":
        return trigger_table.reasons(tables["triggers"], basis.corpus, config.triggers, looked_at)
    if step == "mutations":
        return _drawn(basis, looked_at).counts
    if step == "composition":
        examples = len(tables["examples"])
        missing = 0 if basis.given is not None else config.composition.examples - examples
        return composition.reasons(tables["refinement"], examples, missing)
    if step == "causal":
        zero = sum(int((basis.norms(layer) == 0).sum()) for layer in range(1, layers + 1))
        return causal.reasons(tables["causal"], layers, zero, config.causal)
    if step == "removals":
        return removals.reasons(basis.corpus, config.seed, config.removals, keys // signs)
    return None


def counts_again(basis: Basis, step: str) -> Frame | None:
    """Return the table ``counts`` of a measuring step; ``None`` if its tables give a number that cannot be."""
    reasons = counted(basis, step) or {}
    if any(n < 0 for n in reasons.values()):
        return None
    return recorded_tables.conform(recorded_tables.counts(step, reasons), recorded_tables.TABLES["counts"])


def _asked(basis: Basis) -> Frame:
    """Return the (layer, key) that the config asks for."""
    layers, keys = basis.oracle.keys
    asked = basis.looked_at or [(layer, key) for layer in range(1, layers + 1) for key in range(keys)]
    return pl.DataFrame(asked, schema={"layer": pl.UInt8, "key": pl.UInt16}, orient="row")


def in_gallery(basis: Basis) -> Frame:
    """Return the (layer, key) that the gallery shows."""
    (layers, keys), signs, config = basis.oracle.keys, basis.oracle.signs, basis.config
    changed = basis.tables["causal"]
    return shown_keys.shown(config.gallery.keys, _asked(basis), changed, layers, keys // signs, config.seed)


def _same_rows(one: Frame, other: Frame, columns: list[str]) -> bool:
    plain = lambda frame: frame.select(
        pl.col(c).cast(pl.String) if c in ("mutation", "of", "by") else pl.col(c).cast(pl.Int64) for c in columns
    ).sort(columns)
    return plain(one).equals(plain(other))


def _triggers(basis: Basis) -> Iterator[str]:
    found, options = basis.tables["triggers"], basis.config.triggers
    inside = found.filter(pl.col("sentence") < basis.corpus.train)
    if len(inside) < len(found):
        yield "triggers: a sentence is not one of the training text"
    if len(found.join(_asked(basis), on=KEY, how="anti")):
        yield "triggers: not the keys that the config asks for"
    same, next_one = pl.col("coefficient").diff().over(KEY).fill_null(-1), pl.int_range(pl.len()).over(KEY) + 1
    place = pl.col("sentence").cast(pl.Int64) * (1 << 16) + pl.col("position")
    steps = found.select(
        ((pl.col("rank") == next_one) & (pl.col("rank") <= options.top)).all().alias("ranks"),
        ((same < 0) | ((same == 0) & (place.diff().over(KEY).fill_null(1) > 0))).all().alias("order"),
        (pl.col("coefficient") > 0).all().alias("positive"),
    ).row(0, named=True)
    if not all(steps.values()):
        yield "triggers: not in descending order of their coefficients"
    entry = [*KEY, "sentence"] + ([] if options.per_sentence == "best" else ["position"])
    if found.select(entry).is_duplicated().any():
        yield "triggers: a prefix is listed twice"
    if options.duplicates == "drop" and trigger_table.repeated(inside, basis.corpus):
        yield "triggers: two triggers of a key have the same text"
    if not found["next_token"].equals(_following(basis, found)):
        yield "triggers: a next token is not the one in the text"


def _following(basis: Basis, rows: Frame) -> pl.Series:
    """Return the token behind each (sentence, position), null at the end of a sentence or outside of the text."""
    corpus = basis.corpus
    sentence, position = (rows[name].cast(pl.Int64).to_numpy() for name in ("sentence", "position"))
    known = sentence < len(corpus)
    sentence = np.where(known, sentence, 0)
    inside = known & (position < corpus.lengths[sentence])
    token = pl.Series("next_token", corpus.tokens[np.where(inside, corpus.offsets[sentence] + position, 0)])
    return pl.select(pl.when(pl.Series(inside)).then(token.cast(pl.UInt32)).alias("next_token")).to_series()


def _firing(basis: Basis) -> Iterator[str]:
    found, triggers = basis.tables["firing"], basis.tables["triggers"]
    if not _same_rows(found, _asked(basis), KEY):
        yield "firing: not the keys that the config asks for"
    fires = found.filter(pl.col("fired") > 0).select(KEY)
    if not fires.equals(triggers.select(KEY).unique().sort(KEY)):
        yield "firing: the keys that fire are not those with triggers"
    total = int(available(basis.corpus, basis.config.triggers.positions).sum())
    if not (found["prefixes"] == total).all():
        yield f"firing: the training text has {total:,} prefixes"
    listed = found.join(triggers.group_by(KEY).len("listed"), on=KEY)
    if len(listed.filter((pl.col("fired") < pl.col("listed")) | (pl.col("fired") > total))):
        yield "firing: a key fires less often than its triggers show"


def _drawn(basis: Basis, looked_at: int | None = None) -> mutations.Sample:
    layers, keys = basis.oracle.keys
    options = basis.config.mutations
    return mutations.sample(
        basis.tables["triggers"],
        layers,
        keys,
        keys_per_layer=options.keys_per_layer,
        top=options.top,
        random=options.random,
        single_token=options.single_token,
        seed=basis.config.seed,
        looked_at=looked_at,
        words=Words.of(basis.corpus) if options.unit == "word" else None,
    )


def _mutations(basis: Basis) -> Iterator[str]:
    found, again = basis.tables["mutations"], _drawn(basis).rows
    word = basis.config.mutations.unit == "word"
    key = [*KEY, "rank", "mutation"]
    # random tokens are drawn in the order of the triggers, which a near-tie may change where they were found here
    drawn = [] if basis.found_here else ["removed", *(["removed_tokens"] if word else [])]
    if word != ("removed_tokens" in found.columns) or not _same_rows(found, again, key + drawn):
        yield "mutations: not the keys and tokens that the seed draws"
    ratio = found["mutated"].cast(pl.Float64) / found["coefficient"].cast(pl.Float64) - 1
    if ((ratio - found["change"]).abs() > 1e-6 * (1 + found["change"].abs())).any():
        yield "mutations: a change does not follow from its coefficients"
    if not basis.found_here:
        own = found.join(basis.tables["triggers"].select(*KEY, "rank", its="coefficient"), on=[*KEY, "rank"])
        if len(own) < len(found) or not own["coefficient"].equals(own["its"]):
            yield "mutations: a coefficient is not its trigger's"


def _examples(basis: Basis) -> Iterator[str]:
    found, corpus, options = basis.tables["examples"], basis.corpus, basis.config.composition
    again = basis.given
    if again is None:
        again = composition.sample_examples(
            corpus.lengths[corpus.train :],
            corpus.train,
            examples=options.examples,
            sample=options.sample,
            positions=options.positions,
            seed=basis.config.seed,
        )
    if not _same_rows(found, again, ["example", "sentence", "position"]):
        whose = "that the seed draws" if basis.given is None else "of composition.sample_file"
        yield f"examples: not the prefixes {whose}"
    if not found["next_token"].equals(_following(basis, found)):
        yield "examples: a next token is not the one in the text"


def _values(basis: Basis) -> Iterator[str]:
    found, config = basis.tables["values"], basis.config
    if not _same_rows(found, _asked(basis), KEY):
        yield "values: not the keys that the config asks for"
    agrees = (found["next_token"] == found["top_token"]).rename("agrees")
    if not found["agrees"].equals(agrees):
        yield "values: agrees does not follow from the tokens"
    if basis.found_here:
        return
    known = targets(basis.tables["triggers"], basis.corpus, config.values.target)
    first = known.filter(pl.col("rank") == 1).select(*KEY, its_next=pl.col("target").cast(pl.UInt32))
    known = known.drop_nulls("target")
    suffixes = [s for s in ("", f"_{other(config.values.types)}") if f"top_token{s}" in found.columns]
    joined = found.join(first, on=KEY, how="left", maintain_order="left")
    joined = joined.join(known.group_by(KEY).len("its_triggers"), on=KEY, how="left", maintain_order="left")
    for suffix in suffixes:
        tops = known.join(found.select(*KEY, top=f"top_token{suffix}"), on=KEY)
        hits = tops.group_by(KEY).agg((pl.col("target") == pl.col("top")).sum().alias(f"its_agreeing{suffix}"))
        joined = joined.join(hits, on=KEY, how="left", maintain_order="left")
    named = {"next_token": "its_next", "triggers": "its_triggers"}
    named |= {f"agreeing_triggers{suffix}": f"its_agreeing{suffix}" for suffix in suffixes}
    for column, its in named.items():
        right = joined[its] if column == "next_token" else joined[its].fill_null(0)
        if not joined[column].cast(pl.Int64).equals(right.cast(pl.Int64).rename(column)):
            yield f"values: {column} does not follow from the triggers"


def _observed(basis: Basis) -> Iterator[str]:
    layers, _ = basis.oracle.keys
    examples = basis.tables["examples"].select(pl.col("example").cast(pl.Int64))
    every = examples.join(pl.DataFrame({"layer": range(1, layers + 1)}), how="cross")
    for name in ("composition", "refinement"):
        if not _same_rows(basis.tables[name], every, ["example", "layer"]):
            yield f"{name}: not a row for every example and layer"


def _refinement(basis: Basis) -> Iterator[str]:
    found, tables = basis.tables["refinement"], basis.tables
    if not found["kind"].cast(pl.String).equals(found.select(kind=kinds()).to_series()):
        yield "refinement: a kind does not follow from its tokens"
    beside = found.join(tables["composition"], on=["example", "layer"], suffix="_its")
    beside = beside.join(tables["examples"].select("example", its_model="model_top"), on="example")
    if not (
        beside["output_top"].equals(beside["output_top_its"].rename("output_top"))
        and beside["ffn_top"].equals(beside["ffn_top_its"].rename("ffn_top"))
    ):
        yield "refinement: its predictions are not those of the table composition"
    if not beside["model_top"].equals(beside["its_model"].rename("model_top")):
        yield "refinement: model_top is not that of the table examples"


def _causal(basis: Basis) -> Iterator[str]:
    found, options, corpus = basis.tables["causal"], basis.config.causal, basis.corpus
    if len(found.join(_asked(basis), on=KEY, how="anti")):
        yield "causal: not the memories that the config asks for"
    if not set(found["intervention"].cast(pl.String)) <= set(options.interventions):
        yield "causal: not the interventions that the config asks for"
    sentence, position = causal.drawn_prefixes(corpus, basis.config.seed)
    own = set((corpus.offsets[sentence] + position - 1)[::2].tolist())
    if not set(found["prefix"]) | set(found["other_prefix"].drop_nulls()) <= own:
        yield "causal: not the prefixes that the seed draws"
    control, intervention = found["control"].cast(pl.String), found["intervention"].cast(pl.String)
    if ((control == "matched") != found["matched_key"].is_not_null()).any():
        yield "causal: a matched key does not belong to a matched control"
    other = (control == "inactive") | (intervention == "resample")
    if (other != found["other_prefix"].is_not_null()).any():
        yield "causal: another prefix does not belong to a row that has none"
    if basis.surveyed is not None:
        yield from _as_drawn(basis, basis.surveyed())


def _as_drawn(basis: Basis, seen: causal.Survey) -> Iterator[str]:
    """Draw the rows of ``causal`` again, from what the engine finds here; prefixes may be others at a near-tie."""
    options, column = basis.config.causal, lambda name: pl.col(name).cast(pl.Int64)
    drawn = causal.sample(
        seen,
        basis.corpus,
        keys_per_layer=options.keys_per_layer,
        prefixes=options.prefixes,
        interventions=options.interventions,
        seed=basis.config.seed,
        looked_at=basis.looked_at,
    )
    numbers, words = (*KEY, "prefix", "other_prefix", "matched_key"), ("intervention", "control")
    own, again = (
        frame.select(*map(column, numbers), *(pl.col(name).cast(pl.String) for name in words))
        for frame in (basis.tables["causal"], drawn)
    )
    if not own.select(KEY).unique().sort(KEY).equals(again.select(KEY).unique().sort(KEY)):
        yield "causal: not the memories that the seed draws among those that are active"
        return
    how = [*KEY, "intervention", "control"]
    if not own.group_by(how).len().sort(how).equals(again.group_by(how).len().sort(how)):
        yield "causal: a memory lacks a prefix, an intervention or a control, or has one too many"
    limits, tested = basis.near.limits, basis.corpus.offsets[seen.sentence] + seen.position - 1
    twins = own.join(again, on=[*how, "prefix"]).filter(pl.col("matched_key") != pl.col("matched_key_right"))
    for layer, key, prefix, twin in twins.select(*KEY, "prefix", "matched_key").iter_rows():
        if not _as_alike(seen, limits, layer, key, int(np.flatnonzero(tested == prefix)[0]), twin):
            yield f"causal: layer {layer} key {key}: {twin} is not the active memory that is most like it"
    own, again = own.drop("matched_key"), again.drop("matched_key")
    unlike = own.join(again, on=own.columns, how="anti", nulls_equal=True).select(KEY).unique().sort(KEY)
    for layer, key in unlike.iter_rows():
        m, this = seen.of(layer, key), (pl.col("layer") == layer) & (pl.col("key") == key)
        recorded, expected = (np.sort(m[np.isin(tested, frame.filter(this)["prefix"])]) for frame in (own, again))
        noise = limits.noise * float(np.abs(m).max())
        unsure = np.abs(m[m != 0]).min(initial=np.inf) <= noise  # whether it is active there hangs on rounding
        if len(recorded) != len(expected) or not (unsure or np.allclose(recorded, expected, limits.tie, noise)):
            yield f"causal: layer {layer} key {key}: not the prefixes that the seed draws where it is active"
        beside = (
            own.filter(this)
            .join(again.filter(this), on=[*how, "prefix"])
            .filter(
                pl.col("other_prefix").ne_missing(pl.col("other_prefix_right"))
                & ((pl.col("intervention") == "resample") | (not unsure))
            )
        )
        if len(beside):
            yield f"causal: layer {layer} key {key}: not the other prefix that the seed draws"


def _as_alike(seen: causal.Survey, limits: Tolerances, layer: int, memory: int, at: int, key: int) -> bool:
    """Return whether rounding may make ``key`` the memory that is most like another one and active at a prefix."""
    neurons, m = seen.mean.shape[1], seen.coefficients[layer - 1][at]
    best = causal.matched_memory(seen, layer, memory, at)
    if best is None or key >= neurons:
        return False
    if min(abs(m[key]), abs(m[best % neurons])) <= limits.noise * np.abs(m).max():
        return True  # whether it is active there hangs on rounding
    fires, twin = seen.fires.copy(), key + neurons * (seen.fires.shape[1] > neurons and m[key] < 0)
    now, slack = seen.fires[layer - 1], max(1, round(limits.count * seen.others))
    fires[layer - 1, twin] += np.clip(now[memory] - now[twin], -slack, slack)
    fires[layer - 1, best] += slack if now[best] >= now[memory] else -min(slack, now[best])
    return causal.matched_memory(replace(seen, fires=fires), layer, memory, at) == twin


def _removals(basis: Basis) -> Iterator[str]:
    (layers, memories), options = basis.oracle.keys, basis.config.removals
    most = options.prefixes
    sentence, position = removals.tested(basis.corpus, basis.config.seed, most)
    prefixes = pl.DataFrame({"prefix": basis.corpus.offsets[sentence] + position - 1}).sort("prefix")
    numbers = removals.asked(options.memories, memories // basis.oracle.signs)
    rows = [(removals.SIZE, n) for n in numbers] + [(removals.MARGIN, 1)]
    every = pl.DataFrame({"layer": range(1, layers + 1)}).join(prefixes, how="cross")
    every = every.join(pl.DataFrame(rows, schema=["by", "removed"], orient="row"), how="cross")
    if not _same_rows(basis.tables["removals"], every, ["layer", "prefix", "by", "removed"]):
        yield "removals: not the prefixes and numbers of memories that the config asks for"


def _along(basis: Basis) -> Iterator[str]:
    options, shown = basis.config.gallery, in_gallery(basis)
    triggers = basis.tables["triggers"].join(shown, on=KEY, how="semi")
    for name, most in (("shading", options.shaded), ("levels", options.triggers if options.shaded else 0)):
        every = triggers.filter(pl.col("rank") <= most).select(
            *KEY, "rank", pl.int_ranges(1, pl.col("position").cast(pl.Int64) + 1).alias("position")
        )
        every = every.explode("position").drop_nulls("position")
        if not _same_rows(basis.tables[name], every, [*KEY, "rank", "position"]):
            yield f"{name}: not a row for every token of the triggers that the config asks for"


def _promoted(basis: Basis) -> Iterator[str]:
    shown, oracle = in_gallery(basis), basis.oracle
    with torch.inference_mode():
        types = oracle.of_value(oracle.value(1, 0)).shape[-1]
    n = min(basis.config.gallery.tokens, types)
    for name, score in (("promoted", "probability"), ("demoted", "logit")):
        found = basis.tables[name]
        every = shown.with_columns(token_rank=pl.int_ranges(0, n)).explode("token_rank").drop_nulls("token_rank")
        if not _same_rows(found, every, [*KEY, "token_rank"]) or found.select(*KEY, "token").is_duplicated().any():
            yield f"{name}: not the keys that the config asks for, each with {n} tokens"
        sign = -1 if name == "promoted" else 1
        drop = (sign * found[score].cast(pl.Float64)).alias("score")
        ordered = found.select(*KEY, drop).select(pl.col("score").diff().over(KEY).fill_null(0))
        slack = basis.near.limits.probability
        if (ordered.to_series() < -slack * (found[score].abs() if name == "promoted" else 1)).any():
            yield f"{name}: not in the order of its {score}"


def _similar(basis: Basis) -> Iterator[str]:
    found, (layers, memories) = basis.tables["similar"], basis.oracle.keys
    neurons = memories // basis.oracle.signs
    shown = in_gallery(basis).select("layer", pl.col("key").cast(pl.Int64) % neurons).unique().sort(KEY)
    most = min(basis.config.gallery.similar, layers * neurons - 1)
    counts = found.group_by(pl.col("layer"), pl.col("key").cast(pl.Int64), pl.col("of").cast(pl.String)).agg(
        pl.col("place").sort().eq(1 + pl.int_range(pl.len())).all().alias("places"),
        pl.len().alias("n"),
        pl.struct("other_layer", "other_key").n_unique().alias("others"),
    )
    itself = (pl.col("layer") == pl.col("other_layer")) & (pl.col("key") == pl.col("other_key"))
    every = shown.join(pl.DataFrame({"of": ["key", "value"]}), how="cross")
    counts = every.join(counts, on=[*KEY, "of"], how="full", coalesce=True)
    whole = counts["places"].drop_nulls().all() and counts["others"].equals(counts["n"].rename("others"))
    beyond = len(counts) > len(every) or (counts["n"] > most).any()
    if not whole or beyond or len(found.filter(itself)) or _too_few(basis, counts, most):
        yield f"similar: not {most} other memories for each that the gallery shows"


def _too_few(basis: Basis, counts: Frame, most: int) -> bool:
    """Return whether a memory has fewer than the ``most`` similar ones, though more have a cosine that counts.

    ``counts``: (layer, key, of) and n, the rows that it has; null for none.
    """
    limit, layers = basis.near.limits.coefficient, basis.oracle.keys[0]
    numbers = lambda series: torch.tensor(series.cast(pl.Int64).to_list())
    for (of,), part in counts.with_columns(pl.col("n").fill_null(0)).filter(pl.col("n") < most).group_by("of"):
        with torch.inference_mode():
            units, signed = basis.units(str(of))
            own, n = (numbers(part["layer"]) - 1) * (len(units) // layers) + numbers(part["key"]), numbers(part["n"])
            for rows, had in zip(own.split(AT_ONCE), n.split(AT_ONCE), strict=True):
                cosines = units[rows] @ units.T
                cosines = cosines.abs() if signed else cosines
                cosines.scatter_(1, rows[:, None], -torch.inf)
                if ((cosines > limit).sum(1).clamp(max=most) > had).any():
                    return True
    return False


def _samples(basis: Basis) -> Iterator[str]:
    config = basis.config
    own = coefficient_sample.drawn(basis.corpus, config.gallery.sampled, config.triggers.positions, config.seed)
    if not set(basis.tables["samples"]["sentence"]) <= set(own.tolist()):
        yield "samples: not the sentences that the seed draws"


def _histogram(basis: Basis) -> Iterator[str]:
    fires = in_gallery(basis).join(basis.tables["triggers"], on=KEY, how="semi")
    keys = {name: basis.tables[name].select(KEY).unique() for name in ("histogram", "samples")}
    for name, its in keys.items():
        if len(its.join(fires, on=KEY, how="anti")):
            yield f"{name}: not the keys that the config asks for"
    if not _same_rows(keys["histogram"], keys["samples"], KEY):
        yield "samples: not the keys that the histogram shows to fire"

"""Decide whether two runs' tables are equal: a rule for every column of every table.

Some columns must be identical. Numbers must agree within ``tolerances``. Entries of a ranked list may change places if
their scores are almost equal. A cell that depends on a comparison of numbers (a top token, a rank, a count of active
memories, a kind) is open if it differs: only recomputing the row can settle it (``compare``). Statistics and labels
follow from other tables, and may differ only as far as those tables do.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from ff_memories.audit import tolerances
from ff_memories.audit.tolerances import INTERVAL, Tolerances
from ff_memories.tables import FOLDED, TABLES

SHOWN = 5  # differences shown per table
SAME, COEFFICIENT, CHANGE, PROBABILITY, LOGIT, LEVEL, COUNT, DECIDED, STATISTIC, FOLLOWS = (
    "same", "coefficient", "change", "probability", "logit", "level", "count", "decided", "statistic", "follows",
)  # fmt: skip
SHOWN_ONLY = (  # tables of the gallery: no statistic follows from them
    "firing", "promoted", "demoted", "shading", "levels", "histogram", "samples", "similar",
)  # fmt: skip
RANKED = {  # lists in order: the columns of their place, of their score, and of the entry
    "triggers": ("rank", "coefficient", ["sentence", "position"]),
    "promoted": ("token_rank", "probability", ["token"]),
    "demoted": ("token_rank", "logit", ["token"]),
}

TYPES = ("", "_all", "_trained")  # suffixes of columns that exist for both choices of `values.types`

# the rule of each column; columns that are not listed must be identical
UNTRAINED = ("control", "baselines")  # tables of models that a run does not keep
RULES: dict[str, dict[str, str]] = {
    "sentences": {},
    "triggers": {"coefficient": COEFFICIENT},
    "firing": {"fired": COUNT},
    "promoted": {"probability": PROBABILITY, "logit": LOGIT},
    "demoted": {"logit": LOGIT},
    "shading": {"coefficient": COEFFICIENT},
    "levels": {"level": LEVEL},
    "histogram": {"n": COUNT},
    "samples": {"coefficient": COEFFICIENT},
    "similar": {"cosine": COEFFICIENT},
    "mutations": {"coefficient": COEFFICIENT, "mutated": COEFFICIENT, "change": CHANGE},
    "values": {
        "next_token": DECIDED, "triggers": DECIDED,
        **{name + types: PROBABILITY if name == "top_probability" else DECIDED
           for name in ("top_token", "top_probability", "next_token_rank", "agrees", "agreeing_triggers", *FOLDED)
           for types in TYPES},
    },
    "examples": {"model_top": DECIDED},
    "composition": {
        "active": DECIDED, "ffn_top": DECIDED, "output_top": DECIDED,
        **{"agreeing_memories" + types: DECIDED for types in TYPES}, "effective": PROBABILITY,
    },
    "refinement": {
        "residual_top": DECIDED, "ffn_top": DECIDED, "output_top": DECIDED, "model_top": DECIDED,
        "residual_probability": PROBABILITY, "kind": DECIDED,
    },
    "released_layer": {
        name: PROBABILITY if dtype.is_float() else DECIDED
        for name, dtype in TABLES["released_layer"].columns.items() if name not in TABLES["released_layer"].key
    },
    "released_dim": {
        name: PROBABILITY if dtype.is_float() else DECIDED
        for name, dtype in TABLES["released_dim"].columns.items() if name not in TABLES["released_dim"].key
    },
    **{
        name: {column: STATISTIC for column, dtype in (TABLES[name].columns | TABLES[name].optional).items()
               if dtype.is_numeric() and column not in TABLES[name].key}
        for name in ("agreeing", "annotation_scores", "projection_seeds", *UNTRAINED, "counts", "sensitivity", "claims")
    },
    **{
        name: {column: FOLLOWS for column in TABLES[name].columns if column not in TABLES[name].key}
        for name in ("annotation_plan", "annotations", "pattern_labels", "distance_labels")
    },
}  # fmt: skip
# looser limits, because p-values count resamples, and baselines are measured on few keys and examples
NEIGHBOUR = 0.1  # of a key's largest coefficient, between neighbouring ones of a sample
FLIP = 0.005  # one or two units of a few hundred change sides
LOOSE = {"p": 0.5, "p_holm": 0.5, "baseline": 0.1, "baselines": 0.1}
UNITS = ("n", "agreeing", "keys", "examples", "pairs")  # columns with the number of units of a statistic
Side = Literal["a", "b"]
FLOAT32 = tolerances.of("float32")


@dataclass
class Outcome:
    """The comparison of one table.

    Attributes:
        rows: number of rows in each run.
        limits: the tolerances.
        cells: {column: number of cells that differ in any bit}.
        within: {column: how many of these are within the tolerance}.
        exchanged: number of rows in ranked lists that moved, or that another row replaced, at a near-tie.
        gap: the largest relative gap between the scores of exchanged rows.
        largest: the largest difference of a number, in the unit of its tolerance.
        open: rows of both runs that only a recomputation can settle.
        different: the differences in words.
        settled: number of open rows that a recomputation found equal.
    """

    name: str
    rows: tuple[int, int]
    limits: Tolerances
    cells: dict[str, int] = field(default_factory=dict)
    within: dict[str, int] = field(default_factory=dict)
    exchanged: int = 0
    gap: float = 0.0
    largest: float = 0.0
    open: dict[Side, list[dict[str, Any]]] = field(default_factory=lambda: {"a": [], "b": []})
    different: list[str] = field(default_factory=list)
    settled: int = 0

    @property
    def moved(self) -> int:
        """Number of rows in which something discrete differs, even if both versions are right."""
        return self.exchanged + len(self.open["b"]) + self.settled

    def differs(self, rows: Iterable[dict[str, Any]], says: str) -> None:
        key = TABLES[self.name].key
        for row in rows:
            place = " ".join(f"{column} {row[column]}" for column in key if column in row)
            self.different.append(f"{self.name}, {place}: {says}")


def compare(a: dict[str, pl.DataFrame], b: dict[str, pl.DataFrame], limits: Tolerances = FLOAT32) -> dict[str, Outcome]:
    """Compare the tables of two runs. Return {table: its outcome}, measurements before tables that follow from them.

    A table that one run lacks counts as different.
    """
    out: dict[str, Outcome] = {}
    lists = a.get("triggers"), b.get("triggers")
    moved = pl.DataFrame(schema={"layer": pl.UInt8, "key": pl.UInt16})  # keys whose triggers were exchanged
    recounted = moved  # keys whose histograms differ
    for name in [name for name in RULES if name in a or name in b]:
        if name not in a or name not in b:
            out[name] = Outcome(name, (len(a.get(name, ())), len(b.get(name, ()))), limits)
            out[name].different.append(f"{name}: only one of the runs has this table")
        elif name in RANKED:
            out[name], exchanged = _ranked(name, a[name], b[name], limits)
            moved = exchanged if name == "triggers" else moved
        elif name == "histogram":
            out[name], recounted = _counts(name, a[name], b[name], limits)
        elif name == "samples":
            out[name] = _percentiles(name, a[name], b[name], recounted, lists[1], limits)
        elif name in ("mutations", "shading", "levels") and lists[0] is not None and lists[1] is not None:
            out[name] = _along(name, a[name], b[name], lists[0], lists[1], moved, limits)
        elif FOLLOWS in RULES[name].values():
            out[name] = _following(name, a[name], b[name], moved, out, limits)
        elif STATISTIC in RULES[name].values():
            out[name] = _statistics(name, a[name], b[name], out, limits)
        else:
            out[name] = _rows(name, a[name], b[name], list(TABLES[name].key), limits)
    return out


def _joined(a: pl.DataFrame, b: pl.DataFrame, key: list[str]) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the rows in both tables, with B's columns as ``other:...``, the rows only in A, and those only in B."""
    both = a.join(b.rename({c: f"other:{c}" for c in b.columns if c not in key}), on=key, nulls_equal=True)
    return both, a.join(b, on=key, how="anti", nulls_equal=True), b.join(a, on=key, how="anti", nulls_equal=True)


def _most(frame: pl.DataFrame) -> pl.Expr:
    """Return the largest coefficient in a row's layer; noise is relative to it."""
    most = frame.group_by("layer").agg(pl.col("coefficient").max())
    return pl.col("layer").replace_strict(most["layer"], most["coefficient"], return_dtype=pl.Float64, default=0.0)


def _numbers(out: Outcome, both: pl.DataFrame, column: str, rule: str, most: pl.Expr | None) -> None:
    """Compare one column of numbers in the rows that both tables have."""
    one, other = pl.col(column).cast(pl.Float64), pl.col(f"other:{column}").cast(pl.Float64)
    size = pl.max_horizontal(one.abs(), other.abs())
    share = out.limits.noise
    limit = out.limits.probability if rule == PROBABILITY else out.limits.coefficient
    noise = pl.lit(0.0) if most is None else share * most
    if rule == LOGIT:  # an absolute error, as of a log-probability
        limit, size = out.limits.probability, pl.lit(1.0)
    if rule == LEVEL:
        limit, size = 1.0, pl.lit(1.0)
    if rule == COUNT:  # of coefficients above a bound: those next to it may be counted or not
        limit, noise = 200 * share, pl.lit(2.0)
    if rule == CHANGE:  # mutated / coefficient - 1: the errors of both add up
        size = 2 * (1 + size)
        noise = noise * (2 + size) / pl.col("coefficient").cast(pl.Float64)
    elif column == "mutated":
        size = pl.max_horizontal(size, pl.col("coefficient").cast(pl.Float64))
    gap = (one - other).abs()
    judged = both.select(
        *[c for c in TABLES[out.name].key if c in both.columns],
        (pl.col(column).ne_missing(pl.col(f"other:{column}"))).alias("differs"),
        (gap <= limit * size + noise).fill_null(pl.col(column).eq_missing(pl.col(f"other:{column}"))).alias("within"),
        (gap / pl.max_horizontal(size, noise / share, pl.lit(1e-30))).fill_null(0.0).alias("gap"),
    )
    out.cells[column] = int(judged["differs"].sum())
    out.within[column] = int((judged["differs"] & judged["within"]).sum())
    if len(judged):
        out.largest = max(out.largest, float(judged["gap"].max()))  # type: ignore[arg-type]
    out.differs(judged.filter(~pl.col("within")).iter_rows(named=True), f"{column} differs")


def _same(out: Outcome, both: pl.DataFrame, column: str) -> None:
    differ = both.filter(pl.col(column).ne_missing(pl.col(f"other:{column}")))
    out.cells[column] = len(differ)
    out.differs(differ.iter_rows(named=True), f"{column} differs")


def _rows(name: str, a: pl.DataFrame, b: pl.DataFrame, key: list[str], limits: Tolerances) -> Outcome:
    """Compare tables row by row; rows with a difference in a decided column stay open."""
    out, rules = Outcome(name, (len(a), len(b)), limits), RULES[name]
    shared = [column for column in a.columns if column in b.columns]
    for column in sorted(set(a.columns) ^ set(b.columns)):
        out.different.append(f"{name}: only one of the runs has the column {column}")
    a, b = a.select(shared), b.select(shared)
    both, only_a, only_b = _joined(a, b, key)
    out.differs(only_a.iter_rows(named=True), "only one of the runs has this row")
    out.differs(only_b.iter_rows(named=True), "only one of the runs has this row")
    decided = [column for column in a.columns if rules.get(column) == DECIDED]
    differ = [pl.col(column).ne_missing(pl.col(f"other:{column}")) for column in decided]
    for column, differs in zip(decided, differ, strict=True):
        out.cells[column] = both.filter(differs).height
    unsure = both.filter(pl.any_horizontal(differ)) if decided else both.clear()
    out.open = {
        "a": a.join(unsure, on=key, how="semi").to_dicts(),
        "b": b.join(unsure, on=key, how="semi").to_dicts(),
    }
    sure = both.join(unsure, on=key, how="anti") if len(unsure) else both
    for column in a.columns:
        if column in key or column in decided:
            continue
        if (rule := rules.get(column, SAME)) == SAME:
            _same(out, both, column)
        else:
            _numbers(out, sure, column, rule, None)
    return out


def _ranked(name: str, a: pl.DataFrame, b: pl.DataFrame, limits: Tolerances) -> tuple[Outcome, pl.DataFrame]:
    """Compare ranked lists entry by entry; also return the keys whose lists differ in order.

    An entry may move, or be replaced, only if the scores at both places are almost equal. The scores of the two lists
    must also agree rank by rank, which they do not if a list lacks an entry.
    """
    place, score, entry = RANKED[name]
    rule = RULES[name][score]
    if name == "demoted":  # the lowest comes first
        a, b = (frame.with_columns(-pl.col(score)) for frame in (a, b))
    out = Outcome(name, (len(a), len(b)), limits)
    by_rank, only_a, only_b = _joined(a, b, ["layer", "key", place])
    most = _most(a) if rule == COEFFICIENT else None
    near_zero = limits.noise * most if most is not None else pl.lit(0.0)
    for side in (only_a, only_b):  # a score close to zero may be positive in only one run
        out.exchanged += side.filter(pl.col(score) <= near_zero).height
        out.differs(side.filter(pl.col(score) > near_zero).iter_rows(named=True), "only one of the runs has this row")
    _numbers(out, by_rank, score, rule, most)
    moved = by_rank.filter(pl.any_horizontal(pl.col(c).ne_missing(pl.col(f"other:{c}")) for c in entry))
    out.cells |= {c: moved.filter(pl.col(c).ne_missing(pl.col(f"other:{c}"))).height for c in entry}
    stays = by_rank.join(moved, on=["layer", "key", place], how="anti")
    for column in sorted(set(a.columns) ^ set(b.columns)):
        out.different.append(f"{name}: only one of the runs has the column {column}")
    for column in (set(a.columns) & set(b.columns)) - {"layer", "key", place, score, *entry}:
        if column in RULES[name]:
            _numbers(out, stays, column, RULES[name][column], None)
        else:
            _same(out, stays, column)
    if len(moved):
        _exchanges(out, moved, a, b, entry, place, score, most)
    keys = pl.concat([frame.select("layer", "key") for frame in (moved, only_a, only_b)]).unique()
    return out, keys


def _exchanges(
    out: Outcome, moved: pl.DataFrame, a: pl.DataFrame, b: pl.DataFrame, entry: list[str], place: str, score: str,
    most: pl.Expr | None,
) -> None:  # fmt: skip
    """Judge the entries that have another rank in the other list, or that it lacks."""
    for own, other, prefix in ((a, b, ""), (b, a, "other:")):
        here = moved.select("layer", "key", place, *(pl.col(prefix + c).alias(c) for c in entry))
        here = here.join(own, on=["layer", "key", place, *entry])
        there = other.select("layer", "key", *entry, pl.col(place).alias("at"), pl.col(score).alias("its"))
        found = here.join(there, on=["layer", "key", *entry], how="left")
        # the rival: this list's entry at the rank that the other list gives, or its last if the other lacks the entry
        rival = own.select("layer", "key", pl.col(place).alias("at"), pl.col(score).alias("rival"))
        ends = own.group_by("layer", "key").agg(pl.col(score).min().alias("end"))
        found = found.join(rival, on=["layer", "key", "at"], how="left").join(ends, on=["layer", "key"])
        if "sentence" in entry:  # a list has one prefix per sentence: another prefix of the sentence may be as good
            best = other.group_by("layer", "key", "sentence").agg(pl.col(score).max().alias("sibling"))
            found = found.join(best, on=["layer", "key", "sentence"], how="left")
        else:
            found = found.with_columns(pl.lit(None, pl.Float32).alias("sibling"))
        its = pl.coalesce("rival", "sibling", "end").cast(pl.Float64)
        gap = (pl.col(score).cast(pl.Float64) - its).abs()
        size = pl.max_horizontal(pl.col(score).cast(pl.Float64), its)
        limit = (out.limits.tie if score == "coefficient" else out.limits.probability) * (
            pl.lit(1.0) if score == "logit" else size
        )
        limit += out.limits.noise * most if most is not None else 0.0
        judged = found.with_columns(gap=gap, size=size, near=gap <= limit)
        near = judged.filter("near")
        out.exchanged += near.height if prefix == "other:" else 0
        relative = near.select((pl.col("gap") / pl.col("size")).max()).item()
        out.gap = max(out.gap, relative or 0.0)
        out.differs(
            judged.filter(~pl.col("near")).iter_rows(named=True), "another row has this rank, and it is not a near-tie"
        )


def _counts(name: str, a: pl.DataFrame, b: pl.DataFrame, limits: Tolerances) -> tuple[Outcome, pl.DataFrame]:
    """Compare counts of which those of 0 have no row; also return the keys with a difference."""
    out, key = Outcome(name, (len(a), len(b)), limits), list(TABLES[name].key)
    both = a.join(b.rename({"n": "other:n"}), on=key, how="full", coalesce=True)
    both = both.with_columns(pl.col("n", "other:n").fill_null(0))
    _numbers(out, both, "n", COUNT, None)
    return out, both.filter(pl.col("n") != pl.col("other:n")).select("layer", "key").unique()


def _percentiles(
    name: str,
    a: pl.DataFrame,
    b: pl.DataFrame,
    recounted: pl.DataFrame,
    triggers: pl.DataFrame | None,
    limits: Tolerances,
) -> Outcome:
    """Compare prefixes at percentiles of a key's coefficients.

    Another prefix may stand there if its coefficient is the same, up to the tolerance. If the key's histogram differs
    by a few counts, the percentiles are those of neighbouring coefficients: they may differ by ``NEIGHBOUR`` of the
    key's largest, and one percentile more or less may fall on a prefix of its own.
    """
    out, key = Outcome(name, (len(a), len(b)), limits), list(TABLES[name].key)
    both, only_a, only_b = _joined(a, b, key)
    for side in (only_a, only_b):
        single = side.filter(pl.len().over("layer", "key") == 1)
        excused = single.join(recounted, on=["layer", "key"], how="semi")
        out.exchanged += excused.height
        missing = side.join(excused, on=key, how="anti")
        out.differs(missing.iter_rows(named=True), "only one of the runs has this row")
    places = [pl.col(c) != pl.col(f"other:{c}") for c in ("sentence", "position")]
    out.exchanged += both.filter(pl.any_horizontal(places)).height
    alike = both.join(recounted, on=["layer", "key"], how="anti")
    _numbers(out, alike, "coefficient", COEFFICIENT, _most(a))
    if triggers is not None and len(recounted):
        most = triggers.filter(pl.col("rank") == 1).select("layer", "key", pl.col("coefficient").alias("most"))
        others = both.join(recounted, on=["layer", "key"], how="semi").join(most, on=["layer", "key"], how="left")
        gap = (pl.col("coefficient") - pl.col("other:coefficient")).abs()
        far = others.filter((gap > NEIGHBOUR * pl.col("most")).fill_null(True))
        out.differs(far.iter_rows(named=True), "coefficient differs")
    return out


def _along(
    name: str,
    a: pl.DataFrame,
    b: pl.DataFrame,
    triggers_a: pl.DataFrame,
    triggers_b: pl.DataFrame,
    moved: pl.DataFrame,
    limits: Tolerances,
) -> Outcome:
    """Compare measurements on triggers, trigger by trigger, whatever their rank.

    Rows of triggers that only one run has count as exchanged. Random tokens are drawn in the table's order: if a
    trigger has another place in the table, its random token may differ, and the row stays open.
    """
    out, rank = Outcome(name, (len(a), len(b)), limits), ["layer", "key", "rank"]
    identity = {
        "sentence": pl.col("sentence").alias("of_sentence"),
        "position": pl.col("position").alias("of_position"),
    }
    known = [t.select(*rank, *identity.values()) for t in (triggers_a, triggers_b)]
    left, right = (frame.join(of, on=rank, how="left") for frame, of in zip((a, b), known, strict=True))
    key = ["layer", "key", "of_sentence", "of_position", "mutation" if name == "mutations" else "position"]
    both, only_a, only_b = _joined(left, right, key)
    for side in (only_a, only_b):
        excused = side.join(moved, on=["layer", "key"], how="semi")
        out.exchanged += len(excused)
        out.differs(
            side.join(moved, on=["layer", "key"], how="anti").iter_rows(named=True),
            "only one of the runs has this row",
        )
    if name == "mutations":
        places = [frame.select(rank).unique().sort(rank).with_row_index("place") for frame in (a, b)]
        both = both.join(places[0], on=rank).join(
            places[1].rename({c: f"other:{c}" for c in ("rank", "place")}), on=["layer", "key", "other:rank"]
        )
        redrawn = (pl.col("place") != pl.col("other:place")) & (pl.col("mutation") == "random")
        redrawn &= pl.col("removed") != pl.col("other:removed")
        open_ = both.filter(redrawn)
        out.cells["removed"] = both.filter(pl.col("removed") != pl.col("other:removed")).height
        out.open["a"] = open_.select(a.columns).to_dicts()
        out.open["b"] = right.join(open_.select(key), on=key, how="semi").select(b.columns).to_dicts()
        both = both.filter(~redrawn)
        for column in ("removed", "removed_tokens"):
            if f"other:{column}" in both.columns:
                other = both.filter(pl.col(column) != pl.col(f"other:{column}"))
                out.differs(other.iter_rows(named=True), f"{column} differs")
        for side in (left, right):
            told = (
                pl.col("mutated").cast(pl.Float64) / pl.col("coefficient").cast(pl.Float64) - 1 - pl.col("change")
            ).abs()
            wrong = side.filter(told > 1e-5 * (1 + pl.col("change").abs()))
            out.differs(wrong.iter_rows(named=True), "change does not follow from its coefficients")
    for column, rule in RULES[name].items():
        _numbers(out, both, column, rule, _most(triggers_a))
    return out


def _following(
    name: str, a: pl.DataFrame, b: pl.DataFrame, moved: pl.DataFrame, before: dict[str, Outcome], limits: Tolerances
) -> Outcome:
    """Compare labels and plans; they may differ only for keys or examples whose measurements differ."""
    out = Outcome(name, (len(a), len(b)), limits)
    if name == "distance_labels":
        rows = before["refinement"].open["b"] if "refinement" in before else []
        moved = pl.DataFrame({"example": [row["example"] for row in rows]}, schema={"example": pl.UInt32}).unique()
    on = [c for c in moved.columns]
    for one, other in ((a, b), (b, a)):
        differ = one.join(other, on=list(one.columns), how="anti", nulls_equal=True)
        excused = differ.join(moved, on=on, how="semi")
        out.exchanged += len(excused) if one is b else 0
        out.differs(differ.join(moved, on=on, how="anti").iter_rows(named=True), "the row differs")
    return out


def _statistics(name: str, a: pl.DataFrame, b: pl.DataFrame, before: dict[str, Outcome], limits: Tolerances) -> Outcome:
    """Compare statistics: they must be the same if their tables are, and may move a little if their tables moved.

    A count may move by the number of moved rows, a share by that number over its units, and a statistic with an
    interval by ``INTERVAL`` of its width. The models of ``UNTRAINED`` leave no rows to count: one unit in a thousand,
    at least one, may change sides.
    """
    out, key = Outcome(name, (len(a), len(b)), limits), list(TABLES[name].key)
    both, only_a, only_b = _joined(a, b, key)
    out.differs(only_a.iter_rows(named=True), "only one of the runs has this row")
    out.differs(only_b.iter_rows(named=True), "only one of the runs has this row")
    numbers = [column for column, rule in RULES[name].items() if rule == STATISTIC and column in a.columns]
    for column in a.columns:
        if column not in key and column not in numbers:
            _same(out, both, column)
    before = {name: outcome for name, outcome in before.items() if name not in SHOWN_ONLY}
    rows = sum(outcome.moved for outcome in before.values())
    numeric = any(any(outcome.cells.values()) for outcome in before.values())
    units = [pl.col(c).cast(pl.Float64) for c in UNITS if c in a.columns]
    count = pl.max_horizontal(pl.lit(1.0), pl.min_horizontal(units)) if units else pl.lit(1e30)
    share = count / 1000 if units else pl.lit(1.0)
    flips = pl.max_horizontal(pl.lit(1.0), share) if name in UNTRAINED else pl.lit(float(rows))
    width = pl.lit(0.0)
    if {"low", "high"} <= set(a.columns):
        width = (pl.col("high") - pl.col("low")).fill_null(0.0)
    for column in numbers:
        one, other = pl.col(column).cast(pl.Float64), pl.col(f"other:{column}").cast(pl.Float64)
        gap, size = (one - other).abs(), pl.max_horizontal(one.abs(), other.abs())
        may = (
            flips
            if a.schema[column].is_integer()
            else limits.coefficient * size
            + pl.max_horizontal(INTERVAL * width, flips / count)
            + LOOSE.get(column if name == "claims" else name, 0.0) * pl.max_horizontal(size, width)
            + (FLIP if name == "baselines" else 0.0)
        )
        limit = may if numeric or name in UNTRAINED else 1e-9 * size
        judged = both.select(
            *key,
            pl.col(column).ne_missing(pl.col(f"other:{column}")).alias("differs"),
            (gap <= limit).fill_null(pl.col(column).eq_missing(pl.col(f"other:{column}"))).alias("within"),
        )
        out.cells[column] = int(judged["differs"].sum())
        out.within[column] = int((judged["differs"] & judged["within"]).sum())
        out.differs(judged.filter(~pl.col("within")).iter_rows(named=True), f"{column} differs")
    return out

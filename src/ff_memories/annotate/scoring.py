"""Turn annotators' records into tables and into scores of their reliability."""

from collections.abc import Callable, Iterable
from functools import partial

import krippendorff
import numpy as np
import polars as pl
from krippendorff.krippendorff import LevelOfMeasurement
from numpy.typing import ArrayLike, DTypeLike

from ff_memories import tables
from ff_memories.annotate.annotation_files import Pattern
from ff_memories.base.draws import generator, interval
from ff_memories.schema import RANK, Columns
from ff_memories.tables.annotation import MODEL, PEOPLE, is_person

Score = tuple[float | None, float | None, float | None, int]  # a value with its 95 % interval, and n
Measured = tuple[str, *Score]  # a measure and its score
Row = tuple[str, str, *Score]  # with the annotator: a row of ``annotation_scores``


def annotations(records: Iterable[Pattern], plan: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of ``annotations``: numbered patterns of keys, without those of repeats and foils."""
    keys = {item: (lay, key) for item, lay, key in plan.filter(kind="key").select("item", "layer", "key").iter_rows()}
    rows = []
    numbers: dict[tuple[str, str], int] = {}
    for r in records:
        if r.type and r.item in keys:
            number = numbers[r.annotator, r.item] = numbers.get((r.annotator, r.item), 0) + 1
            rows.append((r.annotator, *keys[r.item], number, r.description, r.type, sorted(r.ranks)))
    return pl.DataFrame(rows, schema=tables.TABLES["annotations"].columns, orient="row")


def item_labels(records: Iterable[Pattern], plan: pl.DataFrame) -> pl.DataFrame:
    """Return the label of every prefix of every annotated item, with the item's columns from the plan."""
    types_of: dict[tuple[str, str], dict[int, set[str]]] = {}
    for r in records:
        ranks = types_of.setdefault((r.annotator, r.item), {})
        for rank in r.ranks if r.type else ():
            ranks.setdefault(rank, set()).add(r.type)
    prefixes = dict(plan.select("item", "prefixes").iter_rows())
    rows = [
        (annotator, item, rank, label_of(ranks.get(rank, set())))
        for (annotator, item), ranks in sorted(types_of.items())
        for rank in range(1, prefixes[item] + 1)
    ]
    schema: Columns = {"annotator": pl.String, "item": pl.String, "rank": RANK, "label": pl.String}
    asked = plan.select("item", "kind", "layer", "key")
    return pl.DataFrame(rows, schema=schema, orient="row").join(asked, on="item", how="left", maintain_order="left")


def label_of(types: set[str]) -> str:
    """Return the label of a prefix with patterns of these types (Figure 2)."""
    return "both" if len(types) == 2 else next(iter(types), "none")


def pattern_labels(labels: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of ``pattern_labels``: the prefixes of keys."""
    schema = tables.TABLES["pattern_labels"].columns
    return labels.filter(pl.col("kind") == "key").select(pl.col(c).cast(t) for c, t in schema.items())


def scores(patterns: pl.DataFrame, labels: pl.DataFrame, proxy_labels: pl.DataFrame, seed: int) -> list[Row]:
    """Return the rows of ``annotation_scores`` based on the labels of people and of language models."""
    rows, given = [], proxy_labels.select("layer", "key", "rank", pl.col("label").cast(pl.String))
    keys = labels.filter(is_person(), pl.col("kind") == "key")
    by_key = [
        counted([unit.to_list() for unit in part.group_by("rank", maintain_order=True).agg("label")["label"]])
        for _, part in keys.sort("layer", "key", "rank", "annotator").group_by("layer", "key", maintain_order=True)
    ]
    shared = [counts for counts in by_key if (counts.sum(1) >= 2).any()]
    for measure in MEASURES:
        rated = by_key if measure == "gwet_ac1" and shared else shared  # its chance counts all rated units
        rows.append((PEOPLE, measure, *over_keys(rated, seed, measure), len(shared)))
    for (name,), mine in labels.group_by("annotator", maintain_order=True):
        theirs = patterns.filter(pl.col("annotator") == name)
        of_keys = mine.filter(pl.col("kind") == "key")
        rows += [(name, *row) for row in [*of_annotator(theirs, of_keys, seed), *_noise(mine, seed)]]
        rows.append((name, "labels_as_proxy", *_same(of_keys, given, seed)))
        if name.startswith(MODEL):
            rows.append((name, "labels_as_people", *_same(of_keys, keys, seed)))
    return rows


def of_annotator(patterns: pl.DataFrame, labels: pl.DataFrame, seed: int) -> list[Measured]:
    """Return (measure, value, low, high, n) of one annotator: keys, patterns per key, coverage."""
    counts = patterns.group_by("layer", "key").len()
    keys = labels.group_by("layer", "key").agg(covered=(pl.col("label") != "none").mean())
    keys = keys.join(counts, on=["layer", "key"], how="left").sort("layer", "key")
    number = keys["len"].fill_null(0).to_numpy()
    of_key = {"patterns_per_key": number, "keys_with_pattern": number > 0, "coverage": keys["covered"].to_numpy()}
    return [(measure, *_mean(values, seed)) for measure, values in of_key.items()]


def _mean(values: ArrayLike, seed: int) -> Score:
    values = np.asarray(values, dtype=np.float64)
    if not len(values):
        return None, None, None, 0
    return float(values.mean()), *interval(values, seed), len(values)


def share(right: int, n: int) -> Score:
    """Return a share, its exact 95 % interval (Clopper and Pearson 1934) and n."""
    if not n:
        return None, None, None, 0
    from scipy.stats import binomtest  # takes half a second to load

    low, high = binomtest(right, n).proportion_ci(method="exact")
    return right / n, float(low), float(high), n


def _noise(mine: pl.DataFrame, seed: int) -> list[Measured]:
    """Return the share of foils in which an annotator saw a pattern, and of repeated prefixes labelled alike."""
    seen = mine.filter(pl.col("kind") == "foil").group_by("item").agg((pl.col("label") != "none").any())["label"]
    once, twice = (mine.filter(pl.col("kind") == kind) for kind in ("key", "repeat"))
    return [("foil_rate", *share(int(seen.sum()), len(seen))), ("repeat_agreement", *_same(once, twice, seed))]


def _same(mine: pl.DataFrame, theirs: pl.DataFrame, seed: int) -> Score:
    """Return the share of prefixes with the same label: by key, the mean over its prefixes, then over keys."""
    both = mine.join(theirs, on=["layer", "key", "rank"], suffix="_other")
    same = both.group_by("layer", "key").agg((pl.col("label") == pl.col("label_other")).mean().alias("same"))
    return _mean(same.sort("layer", "key")["same"], seed)


def distance_scores(judged: pl.DataFrame, seed: int) -> list[Row]:
    """Return the rows of ``annotation_scores`` for E14: the share judged distant, and people's agreement."""
    by_annotator = judged.sort("annotator", "example").group_by("annotator", maintain_order=True)
    rows = [(name, "distant", *_mean(mine["label"] == "distant", seed)) for (name,), mine in by_annotator]
    people = judged.filter(is_person())
    if people["annotator"].n_unique() > 1:
        as_type = {"distant": "shallow", "related": "semantic"}  # any two names will do
        units = [
            counted([[as_type[label] for label in part["label"]]])
            for _, part in people.sort("example").group_by("example", maintain_order=True)
        ]
        shared = [counts for counts in units if counts.sum() >= 2]
        for measure in ("agreement", "alpha_nominal"):
            rows.append((PEOPLE, f"distance_{measure}", *over_keys(shared, seed, measure), len(shared)))
    return rows


RESAMPLES = 500
LABELS = ("shallow", "both", "semantic", "none")
# MASI distances of ``LABELS`` as sets of types (Passonneau 2006): 1 - Jaccard's index times a weight of the overlap,
# which is 1/2 * 2/3 for `both` and one of its parts
PART = 1 - 1 / 3
MASI = np.array([[0, PART, 1, 1], [PART, 0, PART, 1], [1, PART, 0, 1], [1, 1, 1, 0]])


def _masi_metric(
    v1: np.ndarray, v2: np.ndarray, i1: np.ndarray, i2: np.ndarray, n_v: np.ndarray, dtype: DTypeLike = np.float64
) -> np.ndarray:
    return MASI[v1.astype(int), v2.astype(int)].astype(dtype)


def _alpha(counts: np.ndarray, metric: LevelOfMeasurement) -> float | None:
    """Return Krippendorff's alpha. ``counts`` (units, labels): number of annotators."""
    counts = _paired(counts)
    if not len(counts) or (counts.sum(0) > 0).sum() < 2:
        return None  # no pairs of annotators, or only one label
    domain = np.arange(counts.shape[1])
    return float(krippendorff.alpha(value_counts=counts, value_domain=domain, level_of_measurement=metric))


def gwet_ac1(counts: np.ndarray) -> float | None:
    """Return Gwet's AC1 (2008), which stays meaningful if nearly all labels are equal."""
    paired, rated = _paired(counts), counts[counts.sum(1) >= 1]
    if not len(paired):
        return None
    raters = paired.sum(1, keepdims=True)
    observed = (paired * (paired - 1) / (raters * (raters - 1))).sum(1).mean()
    share = (rated / rated.sum(1, keepdims=True)).mean(0)  # over all units, including those with one annotator
    chance = (share * (1 - share)).sum() / (counts.shape[1] - 1)
    return float((observed - chance) / (1 - chance))


def agreement(counts: np.ndarray) -> float | None:
    """Return the share of annotator pairs that gave a unit the same label."""
    counts = _paired(counts)
    if not len(counts):
        return None
    raters = counts.sum(1)
    return float((counts * (counts - 1)).sum(1).sum() / (raters * (raters - 1)).sum())


def _paired(counts: np.ndarray) -> np.ndarray:
    return counts[counts.sum(1) >= 2]


MEASURES: dict[str, Callable[[np.ndarray], float | None]] = {
    "agreement": agreement,
    "alpha_nominal": partial(_alpha, metric="nominal"),
    "alpha_masi": partial(_alpha, metric=_masi_metric),  # of sets of types: `both` is closer to `shallow` than `none`
    "gwet_ac1": gwet_ac1,
}


def counted(labels: list[list[str]]) -> np.ndarray:
    """Return counts (units, labels) from each unit's labels."""
    return np.array([[given.count(name) for name in LABELS] for given in labels], np.int64).reshape(-1, len(LABELS))


def over_keys(keys: list[np.ndarray], seed: int, measure: str) -> tuple[float | None, float | None, float | None]:
    """Return a measure with its 95 % bootstrap interval over keys. ``keys``: the ``counts`` of each key's prefixes."""
    function = MEASURES[measure]
    if not keys:
        return None, None, None
    value = function(np.concatenate(keys))
    rng = generator(seed, f"bootstrap of {measure}")
    resamples = (rng.integers(0, len(keys), len(keys)) for _ in range(RESAMPLES))
    values = [m for rows in resamples if (m := function(np.concatenate([keys[i] for i in rows]))) is not None]
    if value is None or not values:
        return value, None, None
    low, high = np.percentile(values, [2.5, 97.5])
    return value, float(low), float(high)

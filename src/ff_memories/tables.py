"""The schema of every table: columns, types, keys and sort order. Tables are checked when written and when read.

Tables are Parquet files, byte-identical from run to run. Token columns are dictionary ids, so tables contain no corpus
text; text is joined when a table is shown.

In a run with both signs (``triggers.signs``), tables of keys have a further key column ``sign``: 1 for the memory with
value v_i, -1 for the one with value -v_i and the coefficients' signs changed. The steps count such memories as keys:
``read`` returns key ``d_m + i`` for key i with sign -1, and ``write`` takes it apart again.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import atomic_write, require_file
from ff_memories.base.precision import ROUNDOFF, Precision

PRECISION = "extraction.precision"  # the key in a file's metadata
NEURONS = "d_m"  # likewise, of a table with both signs
LAYER, KEY, RANK, SIGN = pl.UInt8, pl.UInt16, pl.UInt16, pl.Int8
SENTENCE, POSITION, TOKEN, EXAMPLE = pl.UInt32, pl.UInt16, pl.UInt32, pl.UInt32
MUTATION = pl.Enum(["first", "last", "random"])
KIND = pl.Enum(["residual", "agreement", "composition", "ffn"])
SPLIT = pl.Enum(["train", "validation"])
HISTOGRAM_BINS = 20
TOP_LEVEL = 61  # of the table `levels`
MOST_NEURONS = 1 << 15  # with both signs, so keys still fit their type
Columns = dict[str, pl.DataType | type[pl.DataType]]


@dataclass(frozen=True)
class Schema:
    """One table: a description, the key columns in sort order, all columns, those that may be null or absent."""

    about: str
    key: tuple[str, ...]
    columns: Columns
    nullable: frozenset[str] = frozenset()
    optional: Columns = field(default_factory=dict)

    @property
    def may_be_null(self) -> frozenset[str]:
        """The columns that may hold nulls: a sign where its key may."""
        return self.nullable | ({"sign"} if "key" in self.nullable else frozenset())

    def of(self, names: Collection[str]) -> Columns | None:
        """Return the columns with these names; ``None`` if they do not fit this table."""
        every = self.columns | ({"sign": SIGN} if "key" in self.columns else {}) | self.optional
        return (
            {n: t for n, t in every.items() if n in names}
            if self.columns.keys() <= set(names) <= every.keys()
            else None
        )


def _both(columns: Columns) -> Columns:
    """Return copies of columns for both choices of ``values.types``, with suffixes ``_all`` and ``_trained``.

    A table has the copies of the choice that the run did not make.
    """
    return {f"{name}_{types}": kind for types in ("all", "trained") for name, kind in columns.items()}


_PREDICTED: Columns = {
    "top_token": TOKEN, "top_probability": pl.Float32, "next_token_rank": pl.UInt32, "agrees": pl.Boolean,
    "agreeing_triggers": pl.UInt16,
}  # fmt: skip
FOLDED: Columns = {"agrees_folded": pl.Boolean, "agreeing_triggers_folded": pl.UInt16}  # of models of `transformers`
VERDICTS = (
    "reproduced", "not_reproduced", "holds", "holds_as_untrained", "fails", "measured", "not_applicable",
    "not_attempted",
)  # fmt: skip
VERDICT = pl.Enum(VERDICTS)
BASELINES = ("untrained", "same_sample", "random_pairs", "unigram", "random_types", "every_case")

TABLES = {
    "sentences": Schema(
        "every sentence of the corpus and its place in the text files",
        ("sentence",),
        {"sentence": SENTENCE, "split": SPLIT, "file": pl.String, "line": pl.UInt32,
         "first_token": pl.UInt32, "tokens": pl.UInt16},
    ),
    "triggers": Schema(
        "E1: every key's triggers, the prefixes with its highest memory coefficients",
        ("layer", "key", "rank"),
        {"layer": LAYER, "key": KEY, "rank": RANK, "coefficient": pl.Float32, "sentence": SENTENCE,
         "position": POSITION, "next_token": TOKEN},
        frozenset({"next_token"}),
    ),
    "firing": Schema(
        "how often every key fires: of so many prefixes of the training text (`triggers.positions`), `fired` have a "
        "positive memory coefficient",
        ("layer", "key"),
        {"layer": LAYER, "key": KEY, "fired": pl.UInt64, "prefixes": pl.UInt64},
    ),
    "mutations": Schema(
        "E3: memory coefficients of triggers with one token removed; with `mutations.unit: word`, with the "
        "`removed_tokens` tokens of a word removed, of which `removed` is the first",
        ("layer", "key", "rank", "mutation"),
        {"layer": LAYER, "key": KEY, "rank": RANK, "mutation": MUTATION, "removed": pl.UInt16,
         "coefficient": pl.Float32, "mutated": pl.Float32, "change": pl.Float32},
        optional={"removed_tokens": pl.UInt16},
    ),
    "values": Schema(
        "E4-E7: every value's prediction, and how it compares with the tokens that follow its key's triggers; `folded` "
        "counts types that differ only in case and in blanks around them as one",
        ("layer", "key"),
        {"layer": LAYER, "key": KEY, "top_token": TOKEN, "top_probability": pl.Float32, "next_token": TOKEN,
         "next_token_rank": pl.UInt32, "agrees": pl.Boolean, "agreeing_triggers": pl.UInt16,
         "triggers": pl.UInt16},
        frozenset({"next_token", *(name + suffix for name in ("next_token_rank", "agrees", "agrees_folded")
                                   for suffix in ("", "_all", "_trained"))}),
        FOLDED | _both(_PREDICTED | FOLDED),
    ),
    "promoted": Schema(
        "the tokens that every value promotes most, for the gallery; `token_rank` 0 is the top token. `logit` is what "
        "the value adds to the token's log-probability under a vector of zeros, less the mean over the vocabulary",
        ("layer", "key", "token_rank"),
        {"layer": LAYER, "key": KEY, "token_rank": pl.UInt16, "token": TOKEN, "probability": pl.Float32},
        optional={"logit": pl.Float32},
    ),
    "demoted": Schema(
        "the tokens that every value demotes most, for the gallery; `token_rank` 0 has the lowest `logit` (as in "
        "`promoted`)",
        ("layer", "key", "token_rank"),
        {"layer": LAYER, "key": KEY, "token_rank": pl.UInt16, "token": TOKEN, "logit": pl.Float32},
    ),
    "shading": Schema(
        "every key's memory coefficient after each token of its best triggers, for the gallery",
        ("layer", "key", "rank", "position"),
        {"layer": LAYER, "key": KEY, "rank": RANK, "position": POSITION, "coefficient": pl.Float32},
    ),
    "levels": Schema(
        "how high every key's memory coefficient is after each token of a shown trigger, for the gallery: 0 for none "
        f"or less, {TOP_LEVEL} for the key's largest",
        ("layer", "key", "rank", "position"),
        {"layer": LAYER, "key": KEY, "rank": RANK, "position": POSITION, "level": pl.UInt8},
    ),
    "histogram": Schema(
        "every key's positive coefficients in a random sample of the training text, for the gallery: how many lie in "
        f"each of {HISTOGRAM_BINS} equal bins from 0 to the coefficient of its top trigger; empty bins have no row",
        ("layer", "key", "bin"),
        {"layer": LAYER, "key": KEY, "bin": pl.UInt8, "n": pl.UInt32},
    ),
    "samples": Schema(
        "prefixes of that sample on which a key fires, for the gallery: at these percentiles of its positive "
        "coefficients; a key that fires on few prefixes has fewer",
        ("layer", "key", "percentile"),
        {"layer": LAYER, "key": KEY, "percentile": pl.UInt8, "coefficient": pl.Float32, "sentence": SENTENCE,
         "position": POSITION},
    ),
    "similar": Schema(
        "the memories of any layer with the most similar keys and values, by cosine, for the gallery. With both signs, "
        "the most similar up to sign: a negative cosine is a similarity to that memory with its sign changed",
        ("layer", "key", "of", "place"),
        {"layer": LAYER, "key": KEY, "of": pl.Enum(["key", "value"]), "place": pl.UInt8, "other_layer": LAYER,
         "other_key": KEY, "cosine": pl.Float32},
    ),
    "examples": Schema(
        "the validation prefixes on which the layers are observed (section 5)",
        ("example",),
        {"example": EXAMPLE, "sentence": SENTENCE, "position": POSITION, "next_token": TOKEN,
         "model_top": TOKEN},
        frozenset({"next_token"}),
    ),
    "composition": Schema(
        "E8-E10: how many memories are active, and how many agree with their layer's prediction; `effective` is the "
        "participation ratio of their energies",
        ("example", "layer"),
        {"example": EXAMPLE, "layer": LAYER, "active": pl.UInt16, "ffn_top": TOKEN, "output_top": TOKEN,
         "agreeing_memories": pl.UInt16},
        optional={"effective": pl.Float32} | _both({"agreeing_memories": pl.UInt16}),
    ),
    "agreeing": Schema(
        "E10 by layer: how often stop words and short prefixes occur when some memory agrees, and in all cases",
        ("layer",),
        {"layer": LAYER, "pairs": pl.UInt32, "agreeing": pl.UInt32, "agreeing_stop_word": pl.Float64,
         "every_stop_word": pl.Float64, "agreeing_next_stop_word": pl.Float64, "every_next_stop_word": pl.Float64,
         "agreeing_short": pl.Float64, "every_short": pl.Float64},
        frozenset({"agreeing_stop_word", "agreeing_next_stop_word", "every_next_stop_word", "agreeing_short"}),
    ),
    "refinement": Schema(
        "E11-E13: the predictions of the residual, the feed-forward and the output at every layer",
        ("example", "layer"),
        {"example": EXAMPLE, "layer": LAYER, "residual_top": TOKEN, "ffn_top": TOKEN, "output_top": TOKEN,
         "model_top": TOKEN, "residual_probability": pl.Float32, "kind": KIND},
    ),
    "annotation_plan": Schema(
        "E2: the items shown to annotators, in order: keys, repeated keys, and foils made of random prefixes",
        ("item",),
        {"item": pl.String, "content": pl.String, "kind": pl.Enum(["key", "repeat", "foil"]), "layer": LAYER,
         "key": KEY, "prefixes": pl.UInt16, "order": pl.UInt16},
        frozenset({"layer", "key"}),
    ),
    "annotation_scores": Schema(
        "E2 and E14: how well annotators agree with each other, with themselves and with the proxy, and what they see "
        "in foils; `who` is an annotator, `people` (all together) or `proxy`",
        ("who", "measure"),
        {"who": pl.String, "measure": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64,
         "n": pl.UInt32},
        frozenset({"value", "low", "high"}),
    ),
    "annotations": Schema(
        "E2: the patterns found in keys, by annotator",
        ("annotator", "layer", "key", "pattern"),
        {"annotator": pl.String, "layer": LAYER, "key": KEY, "pattern": pl.UInt16, "description": pl.String,
         "type": pl.Enum(["shallow", "semantic"]), "ranks": pl.List(RANK)},
    ),
    "pattern_labels": Schema(
        "E2: the label of every annotated trigger",
        ("annotator", "layer", "key", "rank"),
        {"annotator": pl.String, "layer": LAYER, "key": KEY, "rank": RANK,
         "label": pl.Enum(["shallow", "semantic", "both", "none"])},
    ),
    "distance_labels": Schema(
        "E14: whether last-layer compositions are related to the predictions that they compose",
        ("annotator", "example"),
        {"annotator": pl.String, "example": EXAMPLE, "label": pl.Enum(["distant", "related"])},
    ),
    "released_layer": Schema(
        "the released code's 'layer' columns, with its names; only with `fidelity: released`",
        ("example", "layer"),
        {"example": EXAMPLE, "layer": LAYER, "layer_output_argmax": TOKEN, "layer_output_argmax_prob": pl.Float32,
         "residual_argmax": TOKEN, "residual_argmax_prob": pl.Float32, "residual_argmax_change": pl.UInt8,
         "residual_output_rank": pl.UInt32, "residual_output_prob": pl.Float32,
         "ffn_matching_dims_count": pl.UInt32, "ffn_output_rank": pl.UInt32, "ffn_output_prob": pl.Float32,
         "ffn_residual_output_rank": pl.UInt32, "ffn_residual_output_prob": pl.Float32, "ffn_argmax": TOKEN,
         "ffn_argmax_prob": pl.Float32, "coeffs_l0": pl.UInt32, "coeffs_residual_rank": pl.UInt32},
    ),
    "released_dim": Schema(
        "the released code's 'dim' columns of the last layer; key d_m is the residual; only with `fidelity: released`",
        ("example", "layer", "key"),
        {"example": EXAMPLE, "layer": LAYER, "key": pl.UInt32, "coeffs_vals": pl.Float32, "dim_pattern_preds": TOKEN,
         "dim_pattern_output_rank": pl.UInt32, "dim_pattern_ffn_output_rank": pl.UInt32,
         "dim_pattern_ffn_output_prob": pl.Float32},
        frozenset({"dim_pattern_ffn_output_rank", "dim_pattern_ffn_output_prob"}),
    ),
    "projection_seeds": Schema(
        "ranks of the top triggers' targets by layer, under the released script's random projections (`random`, one "
        "row per seed) and the model's own softmax (`adaptive`, seed 0); `moved` is the share of ranks that differ "
        "from the model's own, and the quartiles cover the `n_tail` targets outside the softmax's head",
        ("projection", "seed", "layer"),
        {"projection": pl.Enum(["adaptive", "random"]), "seed": pl.UInt64, "layer": LAYER, "n": pl.UInt32,
         "agreement": pl.Float64, "moved": pl.Float64, "n_tail": pl.UInt32, "q1": pl.Float64, "median": pl.Float64,
         "q3": pl.Float64},
        frozenset({"q1", "median", "q3"}),
    ),
    "control": Schema(
        "untrained models of the same shape, on a sample of the text: number of keys that fire, agreement of their "
        "values, median share of active memories, share of examples with zero agreement, and share with a residual "
        "that predicts the output. Each number is a mean over the models; `_low` and `_high` are the extremes",
        ("layer",),
        {"layer": LAYER, "keys": pl.UInt32, "agreement": pl.Float64, "examples": pl.UInt32, "active": pl.Float64,
         "zero_agreement": pl.Float64, "residual_predicts": pl.Float64},
        frozenset({"agreement", "agreement_low", "agreement_high"}),
        {f"{measure}_{end}": pl.Float64 for measure in
         ("agreement", "active", "zero_agreement", "residual_predicts") for end in ("low", "high")},
    ),
    "benchmark": Schema(
        "the speed of the engine, with targets: ratios are medians over rounds, and low and high are the extremes",
        ("row",),
        {"row": pl.UInt16, "model": pl.String, "machine": pl.String, "threads": pl.UInt16, "measure": pl.String,
         "tokens": pl.UInt64, "unit": pl.String, "sign": pl.String, "target": pl.Float64, "reached": pl.Float64,
         "low": pl.Float64, "high": pl.Float64, "rounds": pl.UInt8, "met": pl.Boolean},
        frozenset({"sign", "target", "met"}),
    ),
    "counts": Schema(
        "how many items each step skipped, split, cut or left unfilled, and why",
        ("step", "reason"),
        {"step": pl.String, "reason": pl.String, "n": pl.UInt64},
    ),
    "sensitivity": Schema(
        "every claim under each alternative choice; the choice `baseline` is the run itself",
        ("claim", "choice", "value"),
        {"claim": pl.String, "choice": pl.String, "value": pl.String, "measured": pl.Float64, "low": pl.Float64,
         "high": pl.Float64, "verdict": VERDICT},
        frozenset({"measured", "low", "high"}),
    ),
    "baselines": Schema(
        "every claim's measure on its baselines: untrained models, values paired with random keys, and guesses. "
        "`measured`, `low` and `high` are the mean and the extremes over `runs` seeds; the claim's direction holds in "
        "`holding` of them. `same_sample` is the run's own model on the smaller text of the untrained models",
        ("claim", "baseline"),
        {"claim": pl.String, "baseline": pl.Enum(BASELINES), "measured": pl.Float64, "low": pl.Float64,
         "high": pl.Float64, "runs": pl.UInt16, "holding": pl.UInt16},
        frozenset({"measured", "low", "high"}),
    ),
    "claims": Schema(
        "every claim of the paper, with the value measured here and a verdict. `low` and `high` bound the interval, "
        "and `resampled` names its unit. `baseline` is the mean of untrained models. `p` is the p-value of the "
        "one-sided test, if there is one, and `p_holm` the same after Holm's correction",
        ("claim",),
        {"claim": pl.String, "statement": pl.String, "source": pl.String, "paper_value": pl.String,
         "measured": pl.Float64, "low": pl.Float64, "high": pl.Float64, "n": pl.UInt64,
         "scope": pl.Enum(["paper", "surrogate", "model"]),
         "verdict": VERDICT, "baseline": pl.Float64, "resampled": pl.String, "p": pl.Float64, "p_holm": pl.Float64,
         "reason": pl.String},
        frozenset({"measured", "low", "high", "n", "baseline", "resampled", "p", "p_holm", "reason"}),
    ),
}  # fmt: skip


def name_of(path: str | Path) -> str:
    """Return a file's table, which has the file's name. Raises ``UserError`` for other names."""
    name = Path(path).stem
    if name not in TABLES:
        raise UserError(
            f"{path}: there is no table {name!r}", "name the file as a run does, such as tables/values.parquet"
        )
    return name


def conform(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Return the frame with the schema's columns and types, sorted by its key.

    Raises ``ValueError`` for missing or extra columns, values that do not fit their type, forbidden nulls or NaN, and
    duplicate keys: these are bugs of the step that writes the table, not user errors.
    """
    columns = schema.of(frame.columns)
    if columns is None:
        raise ValueError(f"columns {sorted(frame.columns)} instead of {sorted(schema.columns)}")
    frame = frame.select(pl.col(c).cast(t, strict=True) for c, t in columns.items())
    for column in frame.columns:
        if column not in schema.may_be_null and frame[column].null_count():
            raise ValueError(f"{frame[column].null_count()} nulls in {column!r}")
        if frame[column].dtype.is_float() and frame[column].is_nan().any():
            raise ValueError(f"NaN in {column!r}")
    key = _sorted_by(schema, columns)
    if frame.select(key).is_duplicated().any():
        raise ValueError(f"several rows for the same {', '.join(key)}")
    return frame.sort(key, maintain_order=True)


def write(frame: pl.DataFrame, path: str | Path, precision: Precision = "float32", neurons: int | None = None) -> None:
    """Check a table against its schema and write it atomically, sorted by its key.

    Raises:
        UserError: a number is none, as what comes of numbers that overflow.

    Args:
        precision: if it is not float32, the file's metadata record it.
        neurons: d_m, where keys count both signs; the metadata record it.
    """
    said = {} if precision == "float32" else {PRECISION: str(precision)}
    if neurons is not None:
        sign = pl.when(pl.col("key").is_not_null()).then(1 - 2 * (pl.col("key") >= neurons).cast(SIGN)).alias("sign")
        frame, said = frame.with_columns(sign, pl.col("key") % neurons), said | {NEURONS: str(neurons)}
    if odd := [name for name in frame.columns if frame[name].dtype.is_float() and frame[name].is_nan().any()]:
        raise UserError(f"{path}: NaN in {odd[0]!r}: the model's numbers overflow", "use another checkpoint")
    frame = conform(frame, TABLES[name_of(path)])
    with atomic_write(path) as partial:
        frame.write_parquet(
            partial, compression="zstd", compression_level=9, row_group_size=1 << 17, metadata=said or None
        )


def neurons_of(path: str | Path) -> int | None:
    """Return d_m where a table counts both signs, else ``None``. Raises ``UserError`` if its metadata are damaged."""
    said = pl.read_parquet_metadata(path).get(NEURONS)
    if said is not None and not (said.isdecimal() and 0 < int(said) <= MOST_NEURONS):
        raise UserError(f"{path}: {NEURONS} is {said!r} in its metadata", rebuild_hint(path))
    return None if said is None else int(said)


def precision_of(path: str | Path) -> Precision:
    """Return the precision that a table was measured in. Raises ``UserError`` for an unknown one."""
    said = pl.read_parquet_metadata(path).get(PRECISION, "float32")
    if said not in ROUNDOFF:
        raise UserError(f"{path}: unknown precision {said!r} in its metadata", rebuild_hint(path))
    return said


def require_precision(path: str | Path, precision: Precision) -> None:
    """Raise ``UserError`` if a table was not measured in the given precision."""
    if (found := precision_of(path)) != precision:
        raise UserError(
            f"{path}: measured in {found}, but extraction.precision is {precision}; one run cannot mix them",
            rebuild_hint(path),
        )


def in_order(path: str | Path, name: str) -> bool:
    """Return whether a table's rows are sorted by its key, each key once, as ``write`` leaves them."""
    frame = pl.read_parquet(path)
    key = _sorted_by(TABLES[name], frame.columns)
    keys = frame.select(key)
    return keys.equals(keys.unique().sort(key))


def _sorted_by(schema: Schema, columns: Collection[str]) -> list[str]:
    """Return a table's key columns in the order of sorting, with the sign behind the key where there is one."""
    return [name for n in schema.key for name in ((n, "sign") if n == "key" and "sign" in columns else (n,))]


def read(path: str | Path, name: str | None = None) -> pl.DataFrame:
    """Read a table and check its columns and types. Raises ``UserError`` naming the file.

    ``name``: the table's, if the file is not called after it.
    """
    name = name_of(path) if name is None else name
    schema = TABLES[name]
    require_file(path)
    try:
        frame = pl.read_parquet(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such table", rebuild_hint(path)) from None
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{path}: cannot be read as a table ({error})", rebuild_hint(path)) from None
    if dict(frame.schema) != schema.of(frame.columns):
        raise UserError(f"{path}: does not have the columns of the table {name!r}", rebuild_hint(path))
    if lacking := [c for c in frame.columns if frame[c].null_count() and c not in schema.may_be_null]:
        raise UserError(f"{path}: missing values in {', '.join(lacking)}", rebuild_hint(path))
    if not {"sign", "key"} <= set(frame.columns):  # the table `benchmark` has another column of that name
        return frame
    neurons = neurons_of(path)
    if neurons is None or not frame["sign"].drop_nulls().is_in([1, -1]).all() or (frame["key"] >= neurons).any():
        raise UserError(f"{path}: its signs do not fit its keys", rebuild_hint(path))
    folded = pl.when(pl.col("sign") > 0).then("key").otherwise(pl.col("key") + neurons).cast(KEY).alias("key")
    return frame.with_columns(folded).drop("sign").sort(schema.key, maintain_order=True)


def counts(step: str, reasons: dict[str, int]) -> pl.DataFrame:
    """Return the ``counts`` rows of one step. Zeros are kept: "nothing was skipped" is a finding too."""
    return pl.DataFrame(
        {"step": [step] * len(reasons), "reason": list(reasons), "n": list(reasons.values())},
        schema=TABLES["counts"].columns,
    )


def write_counts(step: str, reasons: dict[str, int], path: str | Path) -> None:
    """Write one step's rows of the ``counts`` table."""
    frame = conform(counts(step, reasons), TABLES["counts"])
    with atomic_write(path) as partial:
        frame.write_parquet(partial, compression="zstd")

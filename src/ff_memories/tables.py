"""Every table's schema in one place: columns, types, keys and sort order; checked when written and when read.

Tables are Parquet files that come out byte-identical from run to run. Token columns are dictionary ids: text is
joined when a table is shown, so tables hold no corpus text.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import atomic_write
from ff_memories.base.precision import ROUNDOFF, Precision

PRECISION = "extraction.precision"  # the name under which a file's metadata has it
LAYER, KEY, RANK = pl.UInt8, pl.UInt16, pl.UInt16
SENTENCE, POSITION, TOKEN, EXAMPLE = pl.UInt32, pl.UInt16, pl.UInt32, pl.UInt32
MUTATION = pl.Enum(["first", "last", "random"])
KIND = pl.Enum(["residual", "agreement", "composition", "ffn"])
SPLIT = pl.Enum(["train", "validation"])
Columns = dict[str, pl.DataType | type[pl.DataType]]


@dataclass(frozen=True)
class Schema:
    """One table: its key columns in sort order, its columns, which of them may be null, and which may be absent."""

    about: str
    key: tuple[str, ...]
    columns: Columns
    nullable: frozenset[str] = frozenset()
    optional: Columns = field(default_factory=dict)

    def of(self, names: Collection[str]) -> Columns | None:
        """Return the columns of a table that has columns of these names; nothing where they are not this one's."""
        every = self.columns | self.optional
        return (
            {n: t for n, t in every.items() if n in names}
            if self.columns.keys() <= set(names) <= every.keys()
            else None
        )


def _both(columns: Columns) -> Columns:
    """Return columns once more for the types that ``values.types`` does not say: those of all, or of the trained."""
    return {f"{name}_{types}": kind for types in ("all", "trained") for name, kind in columns.items()}


_PREDICTED: Columns = {
    "top_token": TOKEN, "top_probability": pl.Float32, "next_token_rank": pl.UInt32, "agrees": pl.Boolean,
    "agreeing_triggers": pl.UInt16,
}  # fmt: skip
VERDICTS = (
    "reproduced", "not_reproduced", "holds", "holds_as_untrained", "fails", "measured", "not_applicable",
    "not_attempted",
)  # fmt: skip
VERDICT = pl.Enum(VERDICTS)
BASELINES = ("untrained", "same_sample", "random_pairs", "unigram", "random_types", "every_case")

TABLES = {
    "sentences": Schema(
        "every sentence of the corpus and where it stands in the text files",
        ("sentence",),
        {"sentence": SENTENCE, "split": SPLIT, "file": pl.String, "line": pl.UInt32,
         "first_token": pl.UInt32, "tokens": pl.UInt16},
    ),
    "triggers": Schema(
        "E1: the prefixes with the highest memory coefficients of every key",
        ("layer", "key", "rank"),
        {"layer": LAYER, "key": KEY, "rank": RANK, "coefficient": pl.Float32, "sentence": SENTENCE,
         "position": POSITION, "next_token": TOKEN},
        frozenset({"next_token"}),
    ),
    "mutations": Schema(
        "E3: memory coefficients of triggers with one token removed",
        ("layer", "key", "rank", "mutation"),
        {"layer": LAYER, "key": KEY, "rank": RANK, "mutation": MUTATION, "removed": pl.UInt16,
         "coefficient": pl.Float32, "mutated": pl.Float32, "change": pl.Float32},
    ),
    "values": Schema(
        "E4-E7: what every value predicts, and whether its key's triggers are followed by it",
        ("layer", "key"),
        {"layer": LAYER, "key": KEY, "top_token": TOKEN, "top_probability": pl.Float32, "next_token": TOKEN,
         "next_token_rank": pl.UInt32, "agrees": pl.Boolean, "agreeing_triggers": pl.UInt16,
         "triggers": pl.UInt16},
        frozenset({"next_token", *(name + suffix for name in ("next_token_rank", "agrees")
                                   for suffix in ("", "_all", "_trained"))}),
        _both(_PREDICTED),
    ),
    "promoted": Schema(
        "the tokens that every value promotes most, for the gallery; `token_rank` counts from 0 = top",
        ("layer", "key", "token_rank"),
        {"layer": LAYER, "key": KEY, "token_rank": pl.UInt16, "token": TOKEN, "probability": pl.Float32},
    ),
    "shading": Schema(
        "a key's memory coefficient after each token of its best triggers, for the gallery",
        ("layer", "key", "rank", "position"),
        {"layer": LAYER, "key": KEY, "rank": RANK, "position": POSITION, "coefficient": pl.Float32},
    ),
    "examples": Schema(
        "the validation prefixes on which sections 5.1 and 5.2 observe the layers",
        ("example",),
        {"example": EXAMPLE, "sentence": SENTENCE, "position": POSITION, "next_token": TOKEN,
         "model_top": TOKEN},
        frozenset({"next_token"}),
    ),
    "composition": Schema(
        "E8-E10: active memories and those that agree with their layer's prediction",
        ("example", "layer"),
        {"example": EXAMPLE, "layer": LAYER, "active": pl.UInt16, "ffn_top": TOKEN, "output_top": TOKEN,
         "agreeing_memories": pl.UInt16},
        optional=_both({"agreeing_memories": pl.UInt16}),
    ),
    "agreeing": Schema(
        "E10 by layer: how often stop words and short prefixes occur where a memory agrees, and where any does or none",
        ("layer",),
        {"layer": LAYER, "pairs": pl.UInt32, "agreeing": pl.UInt32, "agreeing_stop_word": pl.Float64,
         "every_stop_word": pl.Float64, "agreeing_next_stop_word": pl.Float64, "every_next_stop_word": pl.Float64,
         "agreeing_short": pl.Float64, "every_short": pl.Float64},
        frozenset({"agreeing_stop_word", "agreeing_next_stop_word", "every_next_stop_word", "agreeing_short"}),
    ),
    "refinement": Schema(
        "E11-E13: what residual, feed-forward and output predict at every layer",
        ("example", "layer"),
        {"example": EXAMPLE, "layer": LAYER, "residual_top": TOKEN, "ffn_top": TOKEN, "output_top": TOKEN,
         "model_top": TOKEN, "residual_probability": pl.Float32, "kind": KIND},
    ),
    "annotation_plan": Schema(
        "E2: what annotators are shown and in which order: keys, some of them again, and foils of random prefixes",
        ("item",),
        {"item": pl.String, "content": pl.String, "kind": pl.Enum(["key", "repeat", "foil"]), "layer": LAYER,
         "key": KEY, "prefixes": pl.UInt16, "order": pl.UInt16},
        frozenset({"layer", "key"}),
    ),
    "annotation_scores": Schema(
        "E2 and E14: how far annotators agree, with each other, with themselves and with the proxy, and what they see "
        "in noise; `who` is an annotator, `people` together, or `proxy`",
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
        "E14: how far last-layer compositions lie from what they compose",
        ("annotator", "example"),
        {"annotator": pl.String, "example": EXAMPLE, "label": pl.Enum(["distant", "related"])},
    ),
    "released_layer": Schema(
        "the released code's 'layer' columns, under its names; only with fidelity: released",
        ("example", "layer"),
        {"example": EXAMPLE, "layer": LAYER, "layer_output_argmax": TOKEN, "layer_output_argmax_prob": pl.Float32,
         "residual_argmax": TOKEN, "residual_argmax_prob": pl.Float32, "residual_argmax_change": pl.UInt8,
         "residual_output_rank": pl.UInt32, "residual_output_prob": pl.Float32,
         "ffn_matching_dims_count": pl.UInt32, "ffn_output_rank": pl.UInt32, "ffn_output_prob": pl.Float32,
         "ffn_residual_output_rank": pl.UInt32, "ffn_residual_output_prob": pl.Float32, "ffn_argmax": TOKEN,
         "ffn_argmax_prob": pl.Float32, "coeffs_l0": pl.UInt32, "coeffs_residual_rank": pl.UInt32},
    ),
    "released_dim": Schema(
        "the released code's 'dim' columns of the last layer; key d_m is the residual; only with fidelity: released",
        ("example", "layer", "key"),
        {"example": EXAMPLE, "layer": LAYER, "key": pl.UInt32, "coeffs_vals": pl.Float32, "dim_pattern_preds": TOKEN,
         "dim_pattern_output_rank": pl.UInt32, "dim_pattern_ffn_output_rank": pl.UInt32,
         "dim_pattern_ffn_output_prob": pl.Float32},
        frozenset({"dim_pattern_ffn_output_rank", "dim_pattern_ffn_output_prob"}),
    ),
    "projection_seeds": Schema(
        "ranks of top triggers' targets under the released agreement script's random projections, by seed, and under "
        "the model's own softmax (`adaptive`, seed 0): how many are not the model's, quartiles outside the head",
        ("projection", "seed", "layer"),
        {"projection": pl.Enum(["adaptive", "random"]), "seed": pl.UInt64, "layer": LAYER, "n": pl.UInt32,
         "agreement": pl.Float64, "moved": pl.Float64, "n_tail": pl.UInt32, "q1": pl.Float64, "median": pl.Float64,
         "q3": pl.Float64},
        frozenset({"q1", "median", "q3"}),
    ),
    "control": Schema(
        "untrained models of the same shape, on a sample of the text: keys that fire, agreement of their values, the "
        "median share of active memories, and the shares of examples with zero agreement and with a residual that "
        "predicts the output; means over the models, with the least and the largest",
        ("layer",),
        {"layer": LAYER, "keys": pl.UInt32, "agreement": pl.Float64, "examples": pl.UInt32, "active": pl.Float64,
         "zero_agreement": pl.Float64, "residual_predicts": pl.Float64},
        frozenset({"agreement", "agreement_low", "agreement_high"}),
        {f"{measure}_{end}": pl.Float64 for measure in
         ("agreement", "active", "zero_agreement", "residual_predicts") for end in ("low", "high")},
    ),
    "benchmark": Schema(
        "how fast the engine is, with targets: ratios are medians over rounds, low and high their extremes",
        ("row",),
        {"row": pl.UInt16, "model": pl.String, "machine": pl.String, "threads": pl.UInt16, "measure": pl.String,
         "tokens": pl.UInt64, "unit": pl.String, "sign": pl.String, "target": pl.Float64, "reached": pl.Float64,
         "low": pl.Float64, "high": pl.Float64, "rounds": pl.UInt8, "met": pl.Boolean},
        frozenset({"sign", "target", "met"}),
    ),
    "counts": Schema(
        "what was skipped, split, cut or left unfilled, and why",
        ("step", "reason"),
        {"step": pl.String, "reason": pl.String, "n": pl.UInt64},
    ),
    "sensitivity": Schema(
        "every claim under each alternative choice; choice `baseline` is the run's own",
        ("claim", "choice", "value"),
        {"claim": pl.String, "choice": pl.String, "value": pl.String, "measured": pl.Float64, "low": pl.Float64,
         "high": pl.Float64, "verdict": VERDICT},
        frozenset({"measured", "low", "high"}),
    ),
    "baselines": Schema(
        "every claim's measure without what it is about: of untrained models, of values paired with others' triggers, "
        "of guesses; mean, least and largest over `runs` seeds, and in how many of them the claim's direction holds. "
        "`same_sample` is this model itself on the sample of the text that the untrained ones see",
        ("claim", "baseline"),
        {"claim": pl.String, "baseline": pl.Enum(BASELINES), "measured": pl.Float64, "low": pl.Float64,
         "high": pl.Float64, "runs": pl.UInt16, "holding": pl.UInt16},
        frozenset({"measured", "low", "high"}),
    ),
    "claims": Schema(
        "every claim of the paper, with the value measured here and a verdict; `baseline` is what untrained models "
        "show, `resampled` what the interval draws again, `p` of a one-sided test where there is one, `p_holm` the "
        "same after Holm's correction over all of them",
        ("claim",),
        {"claim": pl.String, "statement": pl.String, "source": pl.String, "paper_value": pl.String,
         "measured": pl.Float64, "low": pl.Float64, "high": pl.Float64, "n": pl.UInt64,
         "scope": pl.Enum(["paper", "surrogate"]),
         "verdict": VERDICT, "baseline": pl.Float64, "resampled": pl.String, "p": pl.Float64, "p_holm": pl.Float64,
         "reason": pl.String},
        frozenset({"measured", "low", "high", "n", "baseline", "resampled", "p", "p_holm", "reason"}),
    ),
}  # fmt: skip


def name_of(path: str | Path) -> str:
    """Return the table that a file holds, which is what the file is called. Raises ``UserError`` for other names."""
    name = Path(path).stem
    if name not in TABLES:
        raise UserError(f"{path}: no table is called {name!r}", "name it as a run does, such as tables/values.parquet")
    return name


def conform(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Return the frame with the schema's columns and types, sorted by its key.

    Raises ``ValueError`` on missing or extra columns, values that do not fit, nulls and NaN where none may be,
    and keys that occur twice: these are faults of the step that wrote it, not of its user.
    """
    columns = schema.of(frame.columns)
    if columns is None:
        raise ValueError(f"columns {sorted(frame.columns)} instead of {sorted(schema.columns)}")
    frame = frame.select(pl.col(c).cast(t, strict=True) for c, t in columns.items())
    for column in frame.columns:
        if column not in schema.nullable and frame[column].null_count():
            raise ValueError(f"{frame[column].null_count()} nulls in {column!r}")
        if frame[column].dtype.is_float() and frame[column].is_nan().any():
            raise ValueError(f"NaN in {column!r}")
    if frame.select(schema.key).is_duplicated().any():
        raise ValueError(f"several rows for the same {', '.join(schema.key)}")
    return frame.sort(schema.key, maintain_order=True)


def write(frame: pl.DataFrame, path: str | Path, precision: Precision = "float32") -> None:
    """Check a table against its schema and write it whole or not at all, sorted by its key.

    A table measured in another ``precision`` than float32 says so in its file's metadata.
    """
    frame = conform(frame, TABLES[name_of(path)])
    said: dict[str, str] | None = None if precision == "float32" else {PRECISION: precision}
    with atomic_write(path) as partial:
        frame.write_parquet(partial, compression="zstd", compression_level=9, row_group_size=1 << 17, metadata=said)


def precision_of(path: str | Path) -> Precision:
    """Return the precision that a table was measured in. Raises ``UserError`` where there is no such precision."""
    said = pl.read_parquet_metadata(path).get(PRECISION, "float32")
    if said not in ROUNDOFF:
        raise UserError(f"{path}: no precision is called {said!r}", rebuild_hint(path))
    return said


def require_precision(path: str | Path, precision: Precision) -> None:
    """Raise ``UserError`` where a table was measured in another precision than its reader computes in."""
    if (found := precision_of(path)) != precision:
        raise UserError(
            f"{path}: measured in {found}, and extraction.precision is {precision}: the two are never mixed",
            rebuild_hint(path),
        )


def read(path: str | Path) -> pl.DataFrame:
    """Read a table and check its columns and types. Raises ``UserError`` naming the file."""
    schema = TABLES[name_of(path)]
    try:
        frame = pl.read_parquet(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such table", rebuild_hint(path)) from None
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{path}: not a readable table ({error})", rebuild_hint(path)) from None
    if dict(frame.schema) != schema.of(frame.columns):
        raise UserError(f"{path}: its columns are not those of {name_of(path)!r}", rebuild_hint(path))
    if lacking := [name for name in frame.columns if frame[name].null_count() and name not in schema.nullable]:
        raise UserError(f"{path}: values are missing in {', '.join(lacking)}", rebuild_hint(path))
    return frame


def counts(step: str, reasons: dict[str, int]) -> pl.DataFrame:
    """Return the ``counts`` rows of one step. Zeros stay: that nothing was skipped is a finding too."""
    return pl.DataFrame(
        {"step": [step] * len(reasons), "reason": list(reasons), "n": list(reasons.values())},
        schema=TABLES["counts"].columns,
    )


def write_counts(step: str, reasons: dict[str, int], path: str | Path) -> None:
    """Write a step's own rows of the ``counts`` table."""
    frame = conform(counts(step, reasons), TABLES["counts"])
    with atomic_write(path) as partial:
        frame.write_parquet(partial, compression="zstd")

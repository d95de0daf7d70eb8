"""The schema of every table: columns, types, order, and how two runs' rows compare; checked when written and when read.

A table is declared in one place: in the `tables` of the paper's section that measures it, or in a module of this
package. Tables are Parquet files, byte-identical from run to run. Token columns are dictionary ids, so tables contain
no running text, which is joined when a table is shown. Only descriptions of patterns quote words of it.

In a run with both signs (``triggers.signs``), tables of keys have a further key column ``sign``: 1 for the memory with
value v_i, -1 for the one with value -v_i and the coefficients' signs changed. The steps count such memories as keys:
``read`` returns key ``d_m + i`` for key i with sign -1, and ``write`` takes it apart again.
"""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ff_memories.base import sections
from ff_memories.base.arithmetic import ROUNDOFF, Precision
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import atomic_write, require_file
from ff_memories.base.parameters import WHOLE, Shard
from ff_memories.schema import KEY, SIGN, Schema
from ff_memories.tables import annotation, gallery, results
from ff_memories.tables.results import SAMPLED as SAMPLED
from ff_memories.tables.results import SHOWS as SHOWS

_sections = sections.modules("ff_memories.paper.*.tables").values()
TABLES = {"sentences": results.TABLES["sentences"]} | {  # the text first: what differs there explains the rest
    name: schema for module in (*_sections, gallery, annotation, results) for name, schema in module.TABLES.items()
}
Frames = dict[str, pl.DataFrame]  # tables by name
PRECISION = "extraction.precision"  # the key in a file's metadata
NEURONS = "d_m"  # likewise, of a table with both signs
MOST_NEURONS = 1 << 15  # with both signs, so keys still fit their type


def name_of(path: str | Path) -> str:
    """Return a file's table, which has the file's name. Raises ``UserError`` for other names."""
    name = Path(path).stem
    if name not in TABLES:
        hint = "name the file as a run does, such as tables/values.parquet"
        raise UserError(f"{path}: there is no table {name!r}", hint)
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
    key = schema.order(columns)
    if frame.select(key).is_duplicated().any():
        raise ValueError(f"several rows for the same {', '.join(key)}")
    return frame.sort(key, maintain_order=True)


def write(frame: pl.DataFrame, path: str | Path, precision: Precision = "float32", neurons: int | None = None) -> None:
    """Check a table against its schema and write it atomically, sorted by its key. Raises ``UserError`` for NaN.

    The metadata record ``precision``, if it is not float32, and ``neurons``: d_m, where keys count both signs.
    """
    metadata = {} if precision == "float32" else {PRECISION: str(precision)}
    if neurons is not None:
        sign = pl.when(pl.col("key").is_not_null()).then(1 - 2 * (pl.col("key") >= neurons).cast(SIGN)).alias("sign")
        frame = frame.with_columns(sign, pl.col("key") % neurons)
        metadata[NEURONS] = str(neurons)
    if odd := [name for name in frame.columns if frame[name].dtype.is_float() and frame[name].is_nan().any()]:
        raise UserError(f"{path}: NaN in {odd[0]!r}: the model's numbers overflow", "use another checkpoint")
    frame = conform(frame, TABLES[name_of(path)])
    save(frame, path, metadata)


def save(frame: pl.DataFrame, path: str | Path, metadata: dict[str, str] | None = None) -> None:
    """Write a table atomically, as it is.

    Groups of a million rows make it a tenth smaller than groups of 2^17, as each has dictionaries of its own. The level
    takes a core 0.5 to 2 s per million rows. Splitting numbers into streams of bytes, which polars does not write,
    would save another 7 %.
    """
    with atomic_write(path) as partial:
        frame.write_parquet(
            partial,
            compression="zstd",
            compression_level=19,
            row_group_size=1 << 20,
            data_page_size=1 << 23,
            metadata=metadata or None,
        )


def neurons_of(path: str | Path) -> int | None:
    """Return d_m where a table counts both signs, else ``None``. Raises ``UserError`` if its metadata are damaged."""
    text = pl.read_parquet_metadata(path).get(NEURONS)
    if text is not None and not (text.isdecimal() and 0 < int(text) <= MOST_NEURONS):
        raise UserError(f"{path}: {NEURONS} is {text!r} in its metadata", rebuild_hint(path))
    return None if text is None else int(text)


def precision_of(path: str | Path) -> Precision:
    """Return the precision that a table was measured in. Raises ``UserError`` for an unknown one, or for no table."""
    try:
        precision = pl.read_parquet_metadata(path).get(PRECISION, "float32")
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{path}: cannot be read as a table ({error})", rebuild_hint(path)) from None
    if precision not in ROUNDOFF:
        raise UserError(f"{path}: unknown precision {precision!r} in its metadata", rebuild_hint(path))
    return precision


def require_precision(path: str | Path, precision: Precision) -> None:
    """Raise ``UserError`` if a table was not measured in the given precision."""
    if (measured_in := precision_of(path)) != precision:
        what = f"measured in {measured_in}, but extraction.precision is {precision}; one run cannot mix them"
        raise UserError(f"{path}: {what}", rebuild_hint(path))


def in_order(path: str | Path, name: str) -> bool:
    """Return whether a table's rows are sorted by its key, each key once, as ``write`` leaves them."""
    frame = pl.read_parquet(path, glob=False)
    key = TABLES[name].order(frame.columns)
    keys = frame.select(key)
    return keys.equals(keys.unique().sort(key))


def read(path: str | Path, name: str | None = None) -> pl.DataFrame:
    """Read a table and check its columns and types. Raises ``UserError`` naming the file.

    ``name``: the table's, if the file is not called after it.
    """
    name = name_of(path) if name is None else name
    schema = TABLES[name]
    require_file(path)
    try:
        frame = pl.read_parquet(path, glob=False)
    except FileNotFoundError:
        raise UserError(f"{path}: no such table", rebuild_hint(path)) from None
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{path}: cannot be read as a table ({error})", rebuild_hint(path)) from None
    if dict(frame.schema) != schema.of(frame.columns):
        raise UserError(f"{path}: does not have the columns of the table {name!r}", rebuild_hint(path))
    if lacking := [c for c in frame.columns if frame[c].null_count() and c not in schema.may_be_null]:
        raise UserError(f"{path}: missing values in {', '.join(lacking)}", rebuild_hint(path))
    if "sign" not in frame.columns:
        return frame
    neurons = neurons_of(path)
    if neurons is None or not frame["sign"].drop_nulls().is_in([1, -1]).all() or (frame["key"] >= neurons).any():
        raise UserError(f"{path}: its signs do not fit its keys", rebuild_hint(path))
    folded = pl.when(pl.col("sign") > 0).then("key").otherwise(pl.col("key") + neurons).cast(KEY).alias("key")
    return frame.with_columns(folded).drop("sign").sort(schema.key, maintain_order=True)


def join(parts: Sequence[Path], path: Path) -> None:
    """Write a table of the rows that its parts have, as ``write`` writes them together; counts are summed."""
    name = "counts" if path.parent.name == "counts" else name_of(path)
    frame = pl.concat([read(part, name) for part in parts])
    if name == "counts":
        save(conform(frame.group_by("step", "reason").agg(pl.col("n").sum()), TABLES[name]), path)
    else:
        write(frame, path, precision_of(parts[0]), neurons_of(parts[0]))


def concat(name: str, parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return a table of parts, of which there may be none, in its columns' types; other columns are left out."""
    empty = pl.DataFrame(schema=TABLES[name].columns)
    return pl.concat([empty, *(part.select(empty.columns).cast(empty.schema) for part in parts)])


def counts(step: str, reasons: dict[str, int]) -> pl.DataFrame:
    """Return the table ``counts`` of one step. Zeros are kept: "nothing was skipped" is a finding too."""
    rows = [(step, reason, n) for reason, n in reasons.items()]
    return conform(pl.DataFrame(rows, schema=TABLES["counts"].columns, orient="row"), TABLES["counts"])


def write_counts(step: str, reasons: dict[str, int], path: str | Path, shard: Shard = WHOLE) -> None:
    """Write one step's rows of the ``counts`` table; of reasons that hold for all shards, the first one's alone."""
    save(counts(step, reasons if shard[0] == 1 else dict.fromkeys(reasons, 0)), path)

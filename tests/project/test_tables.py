"""Tables and model info: what is written is whole and sorted, the same each time; what is none is refused by name."""

import json

import polars as pl
import pytest

from ff_memories import schema, tables
from ff_memories.base.errors import UserError
from ff_memories.model.info import NEEDED, read_info

ROWS = pl.DataFrame({"step": ["b", "a", "a"], "reason": ["x", "y", "x"], "n": [1, 2, 3]})


def test_a_table_is_written_sorted_by_its_key_with_its_types_and_the_same_bytes_twice(tmp_path):
    path = tmp_path / "new [1]*" / "counts.parquet"  # a name, not a pattern
    tables.write(ROWS, path)
    assert tables.read(path).rows() == [("a", "x", 3), ("a", "y", 2), ("b", "x", 1)]
    assert tables.read(path).schema == tables.TABLES["counts"].columns
    first = path.read_bytes()
    tables.write(pl.concat([ROWS[1:], ROWS[:1]], rechunk=False), path)
    assert path.read_bytes() == first and [p.name for p in path.parent.iterdir()] == ["counts.parquet"]


@pytest.mark.parametrize("change, said", [
    (lambda f: f.drop("n"), "columns .* instead of"), (lambda f: f.with_columns(more=1), "columns .* instead of"),
    (lambda f: f.with_columns(reason=pl.lit(None, pl.String)), "3 nulls in 'reason'"),
    (lambda f: f.with_columns(reason=pl.lit("x")), "several rows for the same step, reason"),
    (lambda f: f.with_columns(n=pl.lit(-1)), "conversion"),
])  # fmt: skip
def test_rows_that_do_not_fit_their_table_are_a_fault_of_their_step(tmp_path, change, said):
    with pytest.raises((ValueError, pl.exceptions.InvalidOperationError), match=said):
        tables.write(change(ROWS), tmp_path / "counts.parquet")
    assert not list(tmp_path.iterdir())


def test_nulls_stand_where_they_may_and_what_is_no_number_nowhere(tmp_path):
    row = {"claim": "K1", "choice": "baseline", "value": "", "measured": None, "low": None, "high": None}
    frame = pl.DataFrame([row | {"verdict": "holds"}], schema=tables.TABLES["sensitivity"].columns)
    tables.write(frame, tmp_path / "sensitivity.parquet")
    assert tables.read(tmp_path / "sensitivity.parquet")["measured"].to_list() == [None]
    with pytest.raises(UserError, match=r"sensitivity\.parquet: NaN in 'measured': the model's numbers overflow"):
        tables.write(frame.with_columns(measured=pl.lit(float("nan"))), tmp_path / "sensitivity.parquet")


def test_a_file_that_is_no_table_is_refused_by_name(tmp_path):
    path = tmp_path / "counts.parquet"
    with pytest.raises(UserError, match=r"counts\.parquet: no such table"):
        tables.read(path)
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(UserError, match=r"counts\.parquet: cannot be read as a table"):
        tables.read(path)
    ROWS.write_parquet(path)  # whose numbers have a sign
    with pytest.raises(UserError, match=r"counts\.parquet: does not have the columns of the table 'counts'"):
        tables.read(path)


CARD = dict.fromkeys(NEEDED, 1) | {"scope": "surrogate"}


@pytest.mark.parametrize(
    "content, said",
    [
        (None, "no such file"),
        ("{", "not readable as JSON"),
        ("[]", "Input should be an object"),
        (json.dumps({k: v for k, v in CARD.items() if k != "keys"}), r"lacks keys\n"),
        (json.dumps(CARD | {"scope": "mine"}), "scope is 'mine', none of paper, surrogate, model"),
    ],
)
def test_a_card_that_is_none_is_refused_by_name(tmp_path, content, said):
    path = tmp_path / "info.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=rf"info\.json: {said}"):
        read_info(path)
    path.write_text(json.dumps(CARD))
    assert read_info(path) == CARD


def test_keys_of_both_signs_are_told_apart_on_the_disk_and_counted_on_in_memory(tmp_path):
    frame = pl.DataFrame({"layer": 1, "key": [0, 0, 2, 3, 5], "token_rank": [0, 1, 0, 0, 0], "token": 7,
                          "probability": 0.5})  # fmt: skip
    path = tmp_path / "promoted.parquet"
    tables.write(frame, path, neurons=3)
    assert pl.read_parquet(path).select("key", "sign").rows() == [(0, -1), (0, 1), (0, 1), (2, -1), (2, 1)]
    assert tables.neurons_of(path) == 3
    assert tables.read(path)["key"].to_list() == [0, 0, 2, 3, 5]
    assert tables.read(path)["key"].dtype == schema.KEY
    tables.write(frame, path)
    assert "sign" not in pl.read_parquet(path).columns and tables.neurons_of(path) is None
    assert tables.read(path)["key"].to_list() == frame["key"].to_list()


@pytest.mark.parametrize("change", [{"sign": pl.lit(2, pl.Int8)}, {"key": pl.lit(9, pl.UInt16)}])
def test_a_sign_that_does_not_fit_its_key_is_refused(tmp_path, change):
    path = tmp_path / "promoted.parquet"
    frame = pl.DataFrame({"layer": 1, "key": [0], "token_rank": 0, "token": 7, "probability": 0.5})
    tables.write(frame, path, neurons=3)
    pl.read_parquet(path).with_columns(**change).write_parquet(path, metadata={tables.NEURONS: "3"})
    with pytest.raises(UserError, match="signs do not fit"):
        tables.read(path)

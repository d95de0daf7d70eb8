"""The oracle of real runs agrees with a small run, and sees what was changed in it."""

import shutil

import polars as pl
import pytest
from pipeline import run_steps
from transformers_run import prepare

from benchmarks import oracle

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run's folder, laid out as in results/, and its model's folder."""
    folder = tmp_path_factory.mktemp("oracle")
    out = run_steps(folder, prepare(folder, "llama"))
    for name, to in (("info.json", "model"), ("corpus.safetensors", "corpus")):
        (folder / "run" / to).mkdir(parents=True)
        shutil.copy(out / name, folder / "run" / to)
    shutil.copytree(out, folder / "run/tables", ignore=lambda _, names: [n for n in names if ".parquet" not in n])
    return folder / "run", folder / "model"


def test_all_rows_of_a_sound_run_agree(run):
    found = oracle.check(run[0], run[1], number=40)
    assert found.keys() == oracle.CHECKS.keys()
    assert all(sum(counts.values()) > 20 and not counts[oracle.DIFFERS] for counts in found.values())


CHANGED = {
    "triggers": pl.col("coefficient") * 1.001, "mutations": pl.col("mutated") + 0.01, "values": pl.col("top_token") + 1,
    "promoted": pl.col("logit") * 1.01, "demoted": pl.col("token_rank") + 30, "shading": pl.col("coefficient") + 0.01,
    "samples": pl.col("coefficient") * 1.01, "examples": pl.col("model_top") + 1,
    "composition": pl.col("agreeing_memories") + 30, "refinement": pl.col("residual_probability") * 1.01,
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_table_is_seen(run, name, tmp_path, capsys):
    folder = shutil.copytree(run[0], tmp_path / "run")
    path = folder / f"tables/{name}.parquet"
    frame = pl.read_parquet(path)
    column = CHANGED[name].meta.output_name()
    frame.with_columns(CHANGED[name].cast(frame.schema[column])).write_parquet(path)
    made = oracle.Oracle(folder, run[1])
    said = [oracle.CHECKS[name](made, row) for row in oracle.rows(made, name, 20, 1).iter_rows(named=True)]
    assert sum(oracle.DIFFERS in each for each in said) >= 18

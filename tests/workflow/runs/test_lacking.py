"""A run that ends says what it lacks: a file in between, of which all that is made of it is there."""

import pytest
from running import command, snakemake
from transformers_run import prepare

pytestmark = [pytest.mark.more, pytest.mark.workflow]
TARGET = "results/small/tables/values.parquet"
GONE = "results/small/tables/triggers.parquet"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    prepare(folder, "gpt2", train=60, validation=30)
    snakemake(folder, TARGET)
    return folder


def test_a_missing_file_is_named_with_the_command_that_makes_it(run):
    assert "not whole" not in snakemake(run, TARGET).stderr
    (run / GONE).unlink()
    said = snakemake(run, TARGET).stderr
    fix = f"fix: run ff-memories run my.yaml -- {GONE}\n"
    assert "Nothing to be done" in said
    assert f"results/small is not whole: missing 1 of its files\n  {GONE}\n  {fix}" in said
    command("ff-memories", *fix.split()[3:], cwd=run)
    assert (run / GONE).is_file()
    assert "not whole" not in snakemake(run, TARGET).stderr


def test_so_when_other_jobs_ran(run):
    unread = "results/small/tables/sentences.parquet"
    (run / unread).unlink()
    said = snakemake(run, "results/small/tables/mutations.parquet").stderr
    assert "Finished jobid" in said and f"missing 1 of its files\n  {unread}\n" in said
    snakemake(run, unread)


def test_commands_that_read_the_workflow_say_nothing(run):
    said = command("ff-memories", "sources", "--configfile", "my.yaml", cwd=run, check=False)
    assert "not whole" not in said.stdout + said.stderr

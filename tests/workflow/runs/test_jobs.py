"""A stage of DVC makes again what is not its jobs' own result, which Snakemake would leave by its time."""

import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from pipeline import config

from ff_memories.base.errors import UserError
from ff_memories.workflow import jobs, private_api
from ff_memories.workflow.dvc_lock_file import digest
from ff_memories.workflow.records import refuse_edited
from ff_memories.workflow.run import Run

TABLE, SHARD, INPUT = "results/r/tables/t.parquet", "results/r/shards/1-of-2/t.parquet", "text.txt"


@pytest.fixture
def records(tmp_path, monkeypatch):
    """A folder with an output, its shard and an input, and Snakemake's records of them."""
    monkeypatch.chdir(tmp_path)
    for name in (TABLE, SHARD, INPUT):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    checksum = lambda path: {path: f"sha256:{digest(path, 'sha256')}"}
    record = lambda path, given: SimpleNamespace(
        rule="t", endtime=os.stat(path).st_mtime, input=[given], input_checksums=checksum(given)
    )
    found = {TABLE: record(TABLE, SHARD), SHARD: record(SHARD, INPUT)}
    monkeypatch.setattr(private_api, "recorded_jobs", lambda: found.get)
    return found


def left(*targets):
    jobs.remove_not_own(["snakemake", "--allowed-rules", "t", "--", *targets])
    return {path for path in (TABLE, SHARD, INPUT) if os.path.exists(path)}


def test_nothing_is_removed_beside_another_snakemake(records, tmp_path):
    records.clear()
    (tmp_path / jobs.LOCKS).mkdir(parents=True)
    (tmp_path / jobs.LOCKS / "0.output.lock").write_text(TABLE)
    with pytest.raises(UserError, match=r"locked\n  fix: .* snakemake --unlock"):
        left(TABLE)
    assert os.path.exists(TABLE)


def test_what_a_job_wrote_of_the_inputs_here_stays(records):
    assert left(TABLE) == {TABLE, SHARD, INPUT}


def older_input(records):
    Path(INPUT).write_text("x")
    os.utime(INPUT, (1, 1))


@pytest.mark.parametrize(
    "change, removed",
    [
        (lambda records: os.utime(TABLE, (1, 1)), {TABLE}),  # edited, or pulled again
        (lambda records: records.pop(TABLE), {TABLE}),  # pulled
        (older_input, {SHARD, TABLE}),
        (lambda records: os.unlink(TABLE), {TABLE}),
    ],
)
def test_what_no_job_wrote_of_them_is_removed(records, change, removed):
    change(records)
    assert left(TABLE) == {TABLE, SHARD, INPUT} - removed


@pytest.mark.parametrize("name, time, refused", [("y", 1, True), ("y", 2**33, False), (INPUT, 1, False)])
def test_another_input_is_refused_only_if_it_is_older_because_snakemake_reads_newer_ones(records, name, time, refused):
    corpus = Path("results/r/corpus/corpus.safetensors")
    corpus.parent.mkdir()
    os.replace(SHARD, corpus)
    records[str(corpus)] = records.pop(SHARD)
    run = Run(config(run="r"))
    jobs.refuse_replaced(run)
    Path("new").write_text(name)
    os.utime("new", (time, time))
    os.replace("new", INPUT)
    with pytest.raises(UserError, match=r"text\.txt\n  fix: touch text\.txt") if refused else nullcontext():
        jobs.refuse_replaced(run)
    corpus.write_text("of the other input, by a job that was killed before it was recorded")
    jobs.refuse_replaced(run)


def test_an_output_of_other_inputs_is_refused_and_one_of_another_time_only_if_it_is_not_recorded(records):
    run, outputs = Run(config(run="r")), [(TABLE, records[TABLE])]
    refuse_edited(run, outputs, "not adopted")
    os.utime(TABLE, (1, 1))
    with pytest.raises(UserError, match=rf"not adopted:\n  {TABLE}: changed since t wrote it\n  fix: .* delete them"):
        refuse_edited(run, outputs, "not adopted")
    run.dvc_lock.parent.mkdir(parents=True)
    run.dvc_lock.write_text(f"stages: {{t: {{outs: [{{path: {TABLE}, md5: {digest(TABLE)}}}]}}}}")
    refuse_edited(run, outputs, "not adopted")
    Path(SHARD).write_text("of another text")
    with pytest.raises(
        UserError, match=rf"{TABLE}: its input {SHARD} has changed since\n  fix: .* ff-memories restore"
    ):
        refuse_edited(run, outputs, "not adopted")

"""The workflow on a real SLURM cluster, through the project's profile: jobs killed, and the whole run stopped."""

import os
import signal
import subprocess
import time

import pytest
import slurm
from planted_run import prepare
from running import BIN, ROOT, change, snakemake

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if reason := slurm.why_not():
        pytest.skip(reason)
    with slurm.cluster(tmp_path_factory.mktemp("slurm")):
        yield


def start(folder):
    arguments = ["--snakefile", ROOT / "Snakefile", "--directory", folder, "--configfile", folder / "my.yaml",
                 "--workflow-profile", ROOT / "workflow/profiles/slurm", "--latency-wait", "10",
                 "--seconds-between-status-checks", "2", "--slurm-init-seconds-before-status-checks", "2"]  # fmt: skip
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    with (folder / "slurm.log").open("a") as out:
        return subprocess.Popen([BIN / "snakemake", *arguments], cwd=folder, stdout=out, stderr=out,
                                env={**os.environ, "PATH": path})  # fmt: skip


def running(rule, process, patience=300):
    """Wait until a job of a rule runs; return its id."""
    for _ in range(patience * 5):
        if found := [job for job, comment in slurm.jobs("RUNNING") if rule in comment]:
            return found[0]
        assert process.poll() is None, "the run ended before"
        time.sleep(0.2)
    raise AssertionError(f"no job of {rule} ran")


def test_a_killed_job_and_a_stopped_run_go_on_to_the_same_tables(cluster, planted_run, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    prepare(folder)
    change(folder, "execution.shards", 3)
    first = start(folder)
    killed = running("trigger_shard", first)
    subprocess.run(["scancel", killed], check=True)
    running("triggers", first)  # so the killed shard was made again
    first.send_signal(signal.SIGKILL)
    first.wait()
    subprocess.run(["scancel", *(job for job, _ in slurm.jobs("PENDING,RUNNING"))], check=True)
    snakemake(folder, "--unlock")
    before = set(slurm.jobs())
    second = start(folder)
    assert second.wait(1500) == 0, (folder / "slurm.log").read_text()[-4000:]
    again = [comment for job, comment in slurm.jobs() if (job, comment) not in before]
    assert again and not any("trigger_shard" in comment or "corpus" in comment for comment in again)
    for path in (planted_run / "results/planted/tables").glob("*.parquet"):
        assert (folder / "results/planted/tables" / path.name).read_bytes() == path.read_bytes(), path.name
    assert "Nothing to be done" in (lambda d: d.stdout + d.stderr)(snakemake(folder, "-n"))

"""Rebuild files in a scratch folder: run jobs again with the same rules, on links to their inputs.

``verify`` rebuilds derived files and compares them with the record. ``restore`` rebuilds files that are never shared.
Both write only to the scratch folder and allow only the rules that they name, so they cannot change the run's files.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ff_memories.base.progress import Progress
from ff_memories.workflow import dvc_lock_file, dvc_yaml
from ff_memories.workflow.jobs import is_intermediate, workflow
from ff_memories.workflow.run import Run, snakefile


@dataclass
class Task:
    """A job to run again: its stage, rule, inputs, outputs and log."""

    stage: str
    rule: str
    reads: list[str]
    makes: list[str]
    log: str = ""


def tasks(
    run: Run, wanted: Callable[[Task], bool] = lambda task: not all(map(is_intermediate, task.makes))
) -> tuple[list[Task], list[str]]:
    """Return a run's jobs that measure nothing and can run again, and the missing inputs of those that cannot.

    Measurements are by jobs that run the model. Downloads are excluded, because no code of the package determines them.
    ``wanted``: tells the jobs to include, besides those that make, on the way, what these read; a job whose missing
    input no other of them makes is left out. Default: those that make an output of the run.
    """
    possible: list[Task] = []
    with workflow(run, forceall=True) as read:
        for job in read.dag.jobs:
            if job.output and job.params.get("code") and not job.resources.get("device"):
                reads, makes, logs = (list(map(str, files)) for files in (job.input, job.output, job.log))
                possible.append(Task(dvc_yaml.stage_of(job), job.rule.name, reads, makes, *logs))
    every = [task for task in possible if wanted(task)]
    lacking: set[str] = set()
    while True:
        outputs = {path for task in every for path in task.makes}
        missing = {path for task in every for path in task.reads if path not in outputs and not Path(path).exists()}
        on_the_way = {path for task in possible for path in filter(is_intermediate, task.makes)}
        if gone := missing - on_the_way:
            lacking |= gone
            possible, every = ([task for task in some if not gone & set(task.reads)] for some in (possible, every))
        elif missing:
            every += [task for task in possible if missing & set(task.makes)]
        else:
            return sorted(every, key=lambda task: task.makes), sorted(lacking)


def make(folder: Path, todo: list[Task], run: Run, cores: int = 1) -> None:
    """Run jobs again in an empty ``folder``; a job that fails leaves no output."""
    outputs = [path for task in todo for path in task.makes]
    # Snakemake lists the folder, whatever it runs
    listed = set() if run.inputs.model_folder is None else set(run.inputs.model_files)
    reads = {*run.files} | listed | {path for task in todo for path in task.reads} - set(outputs)
    for path in reads:
        if not Path(path).is_absolute() and Path(path).exists():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).symlink_to(Path(path).resolve())
    # inside the folder, so outputs which name the config's path, like the report, do not change
    rules = snakefile().resolve()
    command: list[str | Path] = [Path(sys.executable).with_name("snakemake"), "--snakefile", rules]
    command += ["--workflow-profile", rules.parent / "profiles/default"]  # else one in the folder, of any input
    command += ["--configfile", run.file, "--cores", str(cores), "--keep-going", "--quiet", "all"]
    command += ["--allowed-rules", *sorted({task.rule for task in todo}), "--", *outputs]
    temporary = folder / "temporary"  # removed with the folder, whatever Snakemake leaves in it
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with (folder / "snakemake.log").open("w") as log, Progress(len(outputs), "files", "rebuilding") as progress:
        work = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environment)
        try:
            there = 0
            while work.poll() is None:
                time.sleep(0.2)
                now = sum((folder / path).exists() for path in outputs)
                progress.step(now - there)
                there = now
        finally:  # Snakemake ends its jobs
            work.terminate()
            work.wait()


def compare(
    folder: Path, todo: list[Task], run: Run, computed_here: frozenset[str] = frozenset()
) -> tuple[list[str], list[str]]:
    """Compare the files rebuilt in ``folder`` with the record: return those with its bytes, and a line for each other.

    ``computed_here``: files of the run, from tables that differ from the record. Their rebuilt copies are compared with
    these files, and other files that are missing here are not compared.
    """
    recorded, same, differ = dvc_lock_file.outputs(run), list[str](), list[str]()
    for task in todo:
        for path in task.makes:
            if not (folder / path).exists():
                differ.append(f"{path}: could not be rebuilt{reason(folder, task)}")
                continue
            if path not in recorded or (computed_here and not Path(path).exists()):
                continue
            mine = path in computed_here
            if dvc_lock_file.content(folder / path) == (dvc_lock_file.content(path) if mine else recorded[path][1]):
                same.append(path)
            else:
                differ.append(f"{path}: the rebuilt file differs from {'the one here' if mine else run.dvc_lock}")
    return same, differ


def reason(folder: Path, task: Task) -> str:
    """Return why a job failed: a missing input, or its log's last error."""
    if absent := [path for path in task.reads if not (folder / path).exists()]:
        return f", because {absent[0]} is missing"
    log = folder / task.log
    lines = [line for line in log.read_text(encoding="utf-8").splitlines() if line] if log.is_file() else []
    line = next((line for line in reversed(lines) if line.startswith("error: ")), lines[-1] if lines else "")
    return f" ({line.removeprefix('error: ')})" if line else ""

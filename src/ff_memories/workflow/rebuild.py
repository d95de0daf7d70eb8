"""Jobs run again in a folder of their own, by the same rules, on links to what they read.

``verify`` makes again what takes no measurement and compares it with what is recorded. ``restore`` makes again what is
never shared. Both write in the folder alone, and only the rules that they name can run: no job of theirs can change a
file of the run.
"""

import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ff_memories.base.progress import Progress
from ff_memories.workflow import lock, processes, stages


@dataclass
class Task:
    """A job to run again: its stage and rule, what it reads and makes, and where it says what went wrong."""

    stage: str
    rule: str
    reads: list[str]
    makes: list[str]
    log: str | None


@dataclass
class Rebuilt:
    """What came out: files with the recorded bytes, and what others are instead."""

    same: list[str] = field(default_factory=list)
    differ: list[str] = field(default_factory=list)


def measures(job: Any) -> bool:
    """Whether a job's output is a measurement on the model: it runs the model, or gathers the shards of such jobs."""
    before = [shard for shard in job.dag.dependencies[job] if stages.is_shard(shard)]
    return any(one.resources.get("device") for one in (job, *before))


def gathers(job: Any) -> bool:
    """Whether a job belongs to work that is cut into shards because it takes hours."""
    return stages.is_shard(job) or any(map(stages.is_shard, job.dag.dependencies[job]))


def tasks(configfile: Path | None = None, sharded: bool = False) -> tuple[list[Task], list[str]]:
    """Return the jobs of a run that measure nothing and can be run again, and the inputs that others lack.

    Downloads, which no source of the package determines, are none of them; jobs in shards are if ``sharded`` says so.
    """
    with stages.workflow(configfile, forceall=True) as found:
        every = [
            Task(stages.stage_of(job), job.rule.name, list(map(str, job.input)), list(map(str, job.output)),
                 next(map(str, job.log), None))
            for job in found.dag.jobs
            if job.output and job.params.get("sources") and not measures(job) and (sharded or not gathers(job))
        ]  # fmt: skip
    lacking: set[str] = set()
    while True:
        made = {path for task in every for path in task.makes}
        missing = {path for task in every for path in task.reads if path not in made and not Path(path).exists()}
        if not missing:
            return sorted(every, key=lambda task: task.makes), sorted(lacking)
        lacking |= missing
        every = [task for task in every if not missing & set(task.reads)]


def run(folder: Path, todo: list[Task], configfile: Path | None = None, cores: int = 1) -> None:
    """Run jobs again in an empty ``folder``; one that fails leaves nothing there."""
    made = [path for task in todo for path in task.makes]
    config = str(configfile or stages.DEFAULT)
    _link(folder, {config} | {path for task in todo for path in task.reads} - set(made))
    _run(folder, todo, made, config, cores)


def compare(
    folder: Path, todo: list[Task], configfile: Path | None = None, own: frozenset[str] = frozenset()
) -> Rebuilt:
    """Compare what jobs made in ``folder`` with what is recorded.

    ``own``: files of the run that were computed here, from other tables than the recorded ones. They are compared with
    themselves, and what else follows from such tables and is not here is compared with nothing.
    """
    recorded, out = lock.outputs(configfile), Rebuilt()
    for task in todo:
        for path in task.makes:
            if not (folder / path).exists():
                out.differ.append(f"{path}: could not be made again{reason(folder, task)}")
            elif path not in recorded or (own and not Path(path).exists()):
                continue
            elif lock.content(folder / path) == (lock.content(path) if path in own else recorded[path][1]):
                out.same.append(path)
            elif path in own:
                out.differ.append(f"{path}: made again, it is not what is here")
            else:
                out.differ.append(f"{path}: made again, it is not what {lock.path_of(configfile)} records")
    return out


def _link(folder: Path, paths: set[str]) -> None:
    for path in paths:
        if not Path(path).is_absolute():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).symlink_to(Path(path).resolve())


def _run(folder: Path, todo: list[Task], made: list[str], config: str, cores: int) -> None:
    """Run Snakemake within the folder: what names the config's path, as the report does, then names the same."""
    snakemake = [Path(sys.executable).with_name("snakemake"), "--snakefile", Path("Snakefile").resolve()]
    options = ["--configfile", config, "--cores", str(cores), "--keep-going"]
    rules = sorted({task.rule for task in todo})
    command = [*snakemake, *options, "--quiet", "all", "--allowed-rules", *rules, "--", *made]
    temporary = folder / "temporary"  # goes with the folder, whatever Snakemake leaves there
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with (
        (folder / "snakemake.log").open("w") as log,
        processes.start(command, stdout=log, stderr=log, cwd=folder, env=environment) as work,
        Progress(len(made), "files", "rebuilding") as progress,
    ):
        there = 0
        while work.poll() is None:
            time.sleep(0.2)
            now = sum((folder / path).exists() for path in made)
            progress.step(now - there)
            there = now


def reason(folder: Path, task: Task) -> str:
    """Return a failed job's last words."""
    if absent := [path for path in task.reads if not (folder / path).exists()]:
        return f", for want of {absent[0]}"
    log = folder / (task.log or "")
    lines = [line for line in log.read_text(encoding="utf-8").splitlines() if line] if log.is_file() else []
    said = next((line for line in reversed(lines) if line.startswith("error: ")), lines[-1] if lines else "")
    return f" ({said.removeprefix('error: ')})" if said else ""

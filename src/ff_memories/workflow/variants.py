"""A run with one choice made otherwise, of which only what that choice changes is computed.

The steps, what they read and how they are called come from the Snakefile, through its jobs: a variant takes those
whose config differs or whose inputs do, runs their commands on files of its own, and stops early where one came out
unchanged.
"""

import filecmp
import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.config import Config
from ff_memories.workflow import stages
from ff_memories.workflow.sources import PACKAGE

SNAKEFILE = PACKAGE.parents[1] / "Snakefile"
BASELINES = ("baseline_model", "baselines")  # what is there without training does not ask for choices
PREFIX, REDIRECTION = ("ff-memories", "step"), "2>"


@dataclass(frozen=True)
class Job:
    """One job of the run: its files, and its step with the options that its rule gives it."""

    rule: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    config: str
    command: tuple[str, ...]


def jobs_of(configfile: str, target: str, cores: int) -> list[Job]:
    """Return the run's jobs that lead to a target, each after those it needs.

    Raises:
        UserError: no job of the run makes the target.
    """
    with stages.workflow(Path(configfile), forceall=True, snakefile=SNAKEFILE, cores=cores) as found:
        dag = found.dag
        wanted = next((job for job in dag.jobs if target in map(str, job.output)), None)
        if wanted is None:
            raise UserError(f"{target}: no step of {configfile} makes it", "name it as the run does, from its folder")
        needed, waiting = {wanted}, [wanted]
        while waiting:
            new = set(dag.dependencies[waiting.pop()]) - needed
            needed |= new
            waiting += new
        order = [job for level in dag.toposorted() for job in sorted(level, key=str) if job in needed and job.output]
        return [_job(job) for job in order]


def _job(job: Any) -> Job:
    command = shlex.split(job.shellcmd)
    return Job(
        job.rule.name,
        tuple(map(str, job.input)),
        tuple(map(str, job.output)),
        dict(job.params.items())["config"],
        tuple(command[len(PREFIX) : command.index(REDIRECTION)]),
    )


def changed(config: str, resolved: dict[str, Any]) -> str:
    """Return a job's declared sections as another config has them."""
    part = json.loads(config)
    for name, section in part.items():
        part[name] = {key: resolved[name][key] for key in section} if isinstance(section, dict) else resolved[name]
    return json.dumps(part, sort_keys=True)


def evaluate(jobs: list[Job], config: Config, folder: Path, run: Callable[[list[str]], None]) -> dict[str, str]:
    """Run what a config changes of a run, baselines left out.

    Returns:
        Where the files that came out otherwise now lie, by their own path.

    Args:
        jobs: of the run itself, whose files exist.
        config: the variant's.
        folder: for the variant's files.
        run: carries out one step, given with its options.
    """
    resolved = config.resolved()
    jobs = [job for job in jobs if job.rule not in BASELINES]
    moved: dict[str, str] = {}
    for job in jobs:
        declared = changed(job.config, resolved)
        if declared == job.config and not any(path in moved for path in job.inputs):
            continue
        made = {path: str(folder / path) for path in job.outputs}
        replaced = moved | made | {job.config: declared}
        for path in made.values():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        run([replaced.get(word, word) for word in job.command])
        moved |= {path: new for path, new in made.items() if not _same(path, new)}
    return moved


def _same(path: str, new: str) -> bool:
    return Path(path).exists() and filecmp.cmp(path, new, shallow=False)

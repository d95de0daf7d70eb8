"""Evaluate a variant of a run, with one choice changed, and compute only what that choice affects.

The steps, their inputs and their commands come from the Snakefile's jobs. A variant runs the jobs whose config or
inputs differ, on files of its own. If an output comes out unchanged, the jobs after it do not run.
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
from ff_memories.workflow.jobs import workflow
from ff_memories.workflow.runs.run import Run

# begin the names of rules that no varied choice concerns: the baselines', and what claims beyond the paper rest on
LEFT_OUT = ("models", "baselines", "perplexity", "interventions")
PREFIX, REDIRECTION = ("ff-memories", "step"), "2>"


@dataclass(frozen=True)
class StepJob:
    """One job of the run: its files, and its step with the rule's options."""

    rule: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    config: str
    command: tuple[str, ...]


def jobs_of(run: Run, target: str, cores: int) -> list[StepJob]:
    """Return the run's jobs that a target needs, in topological order.

    Raises:
        UserError: no job of the run makes the target.
    """
    with workflow(run, forceall=True, cores=cores) as found:
        dag = found.dag
        wanted = next((job for job in dag.jobs if target in map(str, job.output)), None)
        if wanted is None:
            raise UserError(
                f"{target}: no step of {run.file} makes this file", "give its path from the project's top folder"
            )
        needed, waiting = {wanted}, [wanted]
        while waiting:
            new = set(dag.dependencies[waiting.pop()]) - needed
            needed |= new
            waiting += new
        every = (job for level in dag.toposorted() for job in sorted(level, key=str) if job in needed and job.output)
        order = [job for job in every if not job.wildcards_dict.get("model")]  # no choice concerns the baselines
        return [_job(job) for job in order]


def _job(job: Any) -> StepJob:
    command = shlex.split(job.shellcmd)
    return StepJob(
        job.rule.name,
        tuple(map(str, job.input)),
        tuple(map(str, job.output)),
        dict(job.params.items())["config"],
        tuple(command[len(PREFIX) : command.index(REDIRECTION)]),
    )


def changed(config: str, resolved: dict[str, Any]) -> str:
    """Return a job's declared config sections with another config's values."""
    part = json.loads(config)
    for name, section in part.items():
        part[name] = {key: resolved[name][key] for key in section} if isinstance(section, dict) else resolved[name]
    return json.dumps(part, sort_keys=True)


def evaluate(jobs: list[StepJob], config: Config, folder: Path, run: Callable[[list[str]], None]) -> dict[str, str]:
    """Run the steps of a run that another config changes, without those in ``LEFT_OUT``.

    Args:
        jobs: the jobs of the run itself, whose files exist.
        config: the variant's config.
        folder: folder for the variant's files.
        run: runs one step, given its name and options.

    Returns:
        {path in the run: path of the variant's file}, for files that differ.
    """
    resolved = config.resolved()
    jobs = [job for job in jobs if not job.rule.startswith(LEFT_OUT)]
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

"""Show a file's provenance as a tree for the terminal: its rule and inputs, down to the raw inputs."""

import difflib
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.base.progress import duration
from ff_memories.workflow.engines import lock
from ff_memories.workflow.recorded.provenance import Job, Stage

SHORT = 12  # characters of a digest that are shown


def tree(stages: dict[str, Stage], path: str, brief: bool = False) -> Iterator[str]:
    """Yield the lines of a file's tree; a stage with several outputs in the tree is described once.

    Args:
        stages: from ``provenance.read``.
        path: an output or an input of the run.
        brief: omit commands, code and cost.

    Raises:
        UserError: the run neither wrote nor read the file.
    """
    made = {out: stage for stage in stages.values() for out in stage.outputs}
    read = {dep: md5 for stage in stages.values() for dep, md5 in stage.inputs.items()}
    path = os.path.normpath(os.path.relpath(path) if os.path.isabs(path) else path)
    if path not in made and path not in read:
        near = difflib.get_close_matches(path, [*made, *read], n=1)
        raise UserError(f"{path}: not an output or input of this run", f"did you mean {near[0]}?" if near else None)
    yield from _node(path, made, read, "", "", set(), brief)


def _node(
    path: str, made: dict[str, Stage], read: dict[str, str], first: str, rest: str, told: set[str], brief: bool
) -> Iterator[str]:
    stage = made.get(path)
    md5 = stage.outputs[path] if stage else read[path]
    again = stage is not None and stage.name in told
    yield f"{first}{path}  {md5[:SHORT]}{_state(path, md5)}" + ("  (see above)" if again else "")
    if stage is None:
        if Path(path + ".dvc").is_file():
            yield f"{rest}    input, tracked by {path}.dvc"
        return
    if again:
        return
    told.add(stage.name)
    inputs = sorted(stage.inputs, key=lambda dep: (dep not in made, dep))
    bar = "│ " if inputs else "  "
    yield from (f"{rest}{bar}  {line}" for line in _told(stage, brief))
    for dep in inputs:
        last = dep == inputs[-1]
        yield from _node(
            dep, made, read, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), told, brief
        )


def _state(path: str, md5: str) -> str:
    if not os.path.exists(path):
        return "  (missing)"
    return "" if lock.content(path) == md5 else "  (DIFFERS from the record)"


def _told(stage: Stage, brief: bool) -> Iterator[str]:
    yield f"rule {stage.rule}: {stage.about}"
    if brief:
        return
    yield from (f"$ {job.command}" for job in stage.jobs)
    if stage.params:
        yield f"config keys {', '.join(sorted(stage.params))}"
    yield f"code {stage.code[:SHORT]}, environment {stage.environment[:SHORT]}"
    yield from _cost(stage.jobs)


def _cost(jobs: list[Job]) -> Iterator[str]:
    seconds = [job.seconds for job in jobs if job.seconds is not None]
    if not seconds:
        yield "time and machine unknown"
        return
    peaks = [job.peak_mib for job in jobs if job.peak_mib is not None]
    parts = [duration(sum(seconds))]
    parts += [f"{max(peaks) / 1024:.2f} GiB"] if peaks else []
    parts += [f"{len(seconds)} jobs"] if len(seconds) > 1 else []
    ended = max(datetime.fromisoformat(job.ended) for job in jobs if job.ended)
    yield f"took {', '.join(parts)}; ended {ended:%Y-%m-%d %H:%M} UTC"
    yield from (f"on {machine}" for machine in dict.fromkeys(job.machine for job in jobs if job.machine))

"""The provenance of every output of a run: rule, command, inputs, parameters, code, environment, time and machine.

Rules come from Snakemake, and recorded digests from dvc.lock. Neither has times, memory and machines, which differ from
run to run. Snakemake's benchmark files and the steps' logs have them where the run was computed, and ``keep`` gathers
them in provenance.json, next to dvc.lock and in git with it.
"""

import csv
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.base.hardware import machine
from ff_memories.report.cost import reading
from ff_memories.workflow.engines import lock, stages
from ff_memories.workflow.recorded import environment
from ff_memories.workflow.runs.run import Run


@dataclass(frozen=True)
class Job:
    """One job as it ran: its cost, and its machine in words, as far as they are known."""

    command: str
    seconds: float | None = None
    peak_mib: float | None = None
    ended: str | None = None
    machine: str = ""


@dataclass(frozen=True)
class Stage:
    """A stage of dvc.lock with everything that its outputs depend on.

    Attributes:
        inputs, outputs: {path: recorded MD5}.
        params: {config key: recorded value}.
        code: digest of what the stage does: its command, what its code means, and the config's values.
        environment: SHA-256 of the environment's lock, constraints.txt.
    """

    name: str
    rule: str
    about: str
    jobs: list[Job]
    inputs: dict[str, str]
    outputs: dict[str, str]
    params: dict[str, Any]
    code: str
    environment: str


def read(run: Run) -> dict[str, Stage]:
    """Return {name: stage with its provenance}. Raises ``UserError`` if the run was not recorded."""
    kept, declared, does = _kept(run), _declared(run), str(run.sources_yaml)
    out = {}
    for name, entry in lock.read(run).items():
        rule, about, jobs = declared.get(name) or _unread(run, name, entry)
        params = entry.get("params", {})
        deps = {dep["path"]: dep["md5"] for dep in entry.get("deps", [])}
        outputs = {made["path"]: made["md5"] for made in entry.get("outs", [])}
        known = kept.get(name, {})
        if known.get("outputs") == outputs:
            jobs, lock_of_environment = [Job(**job) for job in known["jobs"]], known["environment"]
        else:  # never kept, or kept for an earlier state
            lock_of_environment = environment.digest()
        out[name] = Stage(
            name,
            rule,
            about,
            jobs,
            inputs=deps,
            outputs=outputs,
            params={key: value for file, keys in params.items() if file != does for key, value in keys.items()},
            code=next(iter(params.get(does, {}).values()), ""),
            environment=lock_of_environment,
        )
    return out


def keep(run: Run) -> Path:
    """Save the times, memory and machines of recorded stages whose logs are here, and keep those already known."""
    recorded = read(run)
    kept = {name: known for name, known in _kept(run).items() if name in recorded}
    for stage in recorded.values():
        if kept.get(stage.name, {}).get("outputs") != stage.outputs and any(job.seconds for job in stage.jobs):
            kept[stage.name] = {
                "outputs": stage.outputs,
                "environment": stage.environment,
                "jobs": [asdict(job) for job in stage.jobs],
            }
    jobs = [job for stage in kept.values() for job in stage["jobs"]]
    machines = sorted({job["machine"] for job in jobs})  # listed once; a job refers to one by its index
    for job in jobs:
        job["machine"] = machines.index(job["machine"])
    path = run.provenance_json
    write_whole(path, json.dumps({"machines": machines, "stages": dict(sorted(kept.items()))}, indent=1) + "\n")
    return path


def _kept(run: Run) -> dict[str, Any]:
    path = run.provenance_json
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        for stage in found["stages"].values():
            for job in stage["jobs"]:
                job["machine"] = found["machines"][job["machine"]]
    except (ValueError, LookupError, TypeError) as error:
        raise UserError(f"{path}: not valid JSON ({error})", f"run git checkout {path}") from None
    return found["stages"]


def _declared(run: Run) -> dict[str, tuple[str, str, list[Job]]]:
    """Return {stage: (rule, docstring, jobs)} of a run; shards belong to the stage that gathers them."""
    out: dict[str, tuple[str, str, list[Job]]] = {}
    with stages.workflow(run, forceall=True) as found:
        jobs = [job for job in found.dag.jobs if job.output]
        for job in sorted(jobs, key=lambda job: (not stages.is_shard(job), str(job.output))):
            name = stages.stage_of(job)
            _, _, before = out.get(name, ("", "", []))
            about = " ".join((job.rule.docstring or "").split())
            out[name] = (job.rule.name, about, [*before, _job(job)])
    return out


def _unread(run: Run, name: str, entry: dict[str, Any]) -> tuple[str, str, list[Job]]:
    """Describe, from dvc.yaml, a stage that Snakemake omits because its inputs are not here."""
    declared = lock.declared(run).get(name, {})
    return name.partition("-")[0], declared.get("desc", ""), [Job(entry["cmd"])]


def _job(job: Any) -> Job:
    """Return a job with the cost and machine from its benchmark file and log, if they are here."""
    command = " ".join((job.shellcmd or "").split())
    log = next((Path(str(path)) for path in job.log), Path())
    benchmark = Path(str(job.benchmark)) if job.benchmark else None
    if benchmark is None or not benchmark.is_file():
        return Job(command)
    with benchmark.open(encoding="utf-8", newline="") as file:
        row = list(csv.DictReader(file, delimiter="\t"))[-1]
    ended = datetime.fromtimestamp(benchmark.stat().st_mtime, UTC).isoformat(timespec="seconds")
    return Job(command, reading(row.get("s")), reading(row.get("max_rss")), ended, machine.of(log))

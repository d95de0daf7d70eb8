"""After ``snakemake``: record its outputs in dvc.lock and DVC's cache, if all of them are sound."""

import os

from ff_memories.base.errors import UserError
from ff_memories.workflow.engines import dvc, lock, records, stages
from ff_memories.workflow.runs.run import Run


def adopt(run: Run) -> list[str]:
    """Record Snakemake's outputs since the last time; return the recorded stages.

    They include stages whose outputs match the record if DVC's cache lacks one, as in a clone that computed and did not
    pull: DVC reruns a stage if an output is not in its cache.

    Raises ``UserError`` if dvc.yaml does not match the Snakefile, if Snakemake has jobs left to run, or if a file is
    not as a job left it; ``dvc commit`` alone would record any file.
    """
    stages.check(run)
    stages.write_sources(run)
    lock.repair(run)
    every = dvc.changes(run)
    changed, lacking = dvc.out_of_date(run, every), dvc.not_cached(every)
    wrong: list[str] = []
    names: set[str] = set()
    with stages.workflow(run) as found:
        if due := sorted({stages.stage_of(job) for job in found.dag.needrun_jobs() if job.output}):
            raise UserError(
                f"not adopted, because Snakemake still has to run {', '.join(due)}",
                f"run {run.again()}",
            )
        for job in found.dag.jobs:
            name = stages.stage_of(job) if job.output else ""
            states = changed.get(name, {})
            if (states or name in lacking) and any(map(os.path.exists, job.output)):
                new = job.output if stages.is_shard(job) else states
                wrong += records.faults(found, job, map(str, new))
                names.add(name)
    if wrong:
        hint = f"undo the edits with dvc checkout, then run ff-memories restore{run.option} and {run.again()}"
        raise UserError("not adopted:\n  " + "\n  ".join(dict.fromkeys(wrong)), hint)
    with lock.kept(run):
        if names:
            dvc.commit(sorted(names), run)
        if run.dvc_lock.is_file():
            lock.forget(run)
    dvc.call("commit", "--force", "--quiet", str(stages.stage_of_sources(run)))
    return sorted(names)

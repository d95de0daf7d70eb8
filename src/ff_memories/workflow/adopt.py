"""After ``snakemake``: record what it made in dvc.lock and DVC's cache, if all of it is sound."""

import os
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.workflow import dvc, lock, records, stages
from ff_memories.workflow.configfile import option


def adopt(configfile: Path | None = None) -> list[str]:
    """Record what Snakemake made since the last time; return the stages recorded.

    A stage whose outputs are as recorded is among them if DVC's cache lacks one, as in a clone that computed and did
    not pull: DVC runs a stage again whose output it does not hold.

    Raises ``UserError`` where dvc.yaml does not follow from the Snakefile, where Snakemake has something left to do,
    or where a file is not what a job left there: ``dvc commit`` alone would record anything.
    """
    stages.check(configfile)
    lock.repair(configfile)
    every = dvc.changes(configfile)
    changed, lacking = dvc.out_of_date(configfile, every), dvc.not_cached(every)
    wrong: list[str] = []
    names: set[str] = set()
    with stages.workflow(configfile) as found:
        if due := sorted({stages.stage_of(job) for job in found.dag.needrun_jobs() if job.output}):
            raise UserError(f"not adopted: Snakemake has yet to run {', '.join(due)}", f"snakemake{option(configfile)}")
        for job in found.dag.jobs:
            name = stages.stage_of(job) if job.output else ""
            states = changed.get(name, {})
            if (states or name in lacking) and any(map(os.path.exists, job.output)):
                new = job.output if stages.is_shard(job) else states
                wrong += records.faults(found, job, map(str, new))
                names.add(name)
    if wrong:
        hint = "dvc checkout what was edited, ff-memories restore, snakemake"
        raise UserError("not adopted:\n  " + "\n  ".join(dict.fromkeys(wrong)), hint)
    with lock.kept(configfile):
        if names:
            dvc.commit(sorted(names), configfile)
        if lock.path_of(configfile).is_file():
            lock.forget(configfile)
    return sorted(names)

"""What stops a run before its first job: another tool at work on the same files, or a file changed by hand."""

import os
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.workflow import stages
from ff_memories.workflow.lock import digest
from ff_memories.workflow.records import CLOCK, written
from ff_memories.workflow.stale_locks import dvc_writing, runs


def refuse_beside_dvc() -> None:
    """Raise ``UserError`` while DVC runs or replaces files here: it locks no Snakemake out by itself."""
    for pid, command in dvc_writing().items():
        if runs(pid):
            raise UserError(f"`{command}` is at work here (process {pid})", "wait until it has ended")


def refuse_edited(found: Any) -> None:
    """Raise ``UserError`` where an input that a job would read is not what the job that made it left there.

    Snakemake would compute on it. Another content is told from another time by the checksums that jobs which read
    the file recorded.
    """
    waiting = set(found.dag.needrun_jobs())
    edited = []
    for job in found.dag.jobs:
        for out in job.output if job not in waiting else ():
            record = found.persistence.metadata(out)
            if record and os.path.exists(out) and abs(written(out) - record.endtime) > CLOCK:
                readers = [after for after, files in found.dag.depending[job].items() if out in files]
                if _otherwise(found, out, readers):
                    edited.append(f"{out} (made by {stages.stage_of(job)})")
    if edited:
        raise UserError("changed since they were made: " + ", ".join(edited), "ff-memories restore, then snakemake")


def _otherwise(found: Any, path: Any, readers: list[Any]) -> bool:
    """Whether a file has another content than when one of its readers ran."""
    known = [found.persistence.metadata(out) for reader in readers for out in reader.output]
    recorded = {record.input_checksums.get(str(path)) for record in known if record} - {None}
    return any(checksum != f"sha256:{digest(path, 'sha256')}" for checksum in recorded)

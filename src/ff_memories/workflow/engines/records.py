"""Compare Snakemake's record of a finished job with the files that are here now."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.workflow.engines import engines, stages
from ff_memories.workflow.engines.lock import digest

CLOCK = 1e-3  # seconds; two readings of the same time stamp agree within this


def stamp(output: str) -> Path:
    """Return the file whose time is the output's time; for a directory, Snakemake's timestamp file inside it."""
    return Path(output, ".snakemake_timestamp") if os.path.isdir(output) else Path(output)


def written(output: str) -> float:
    """Return the time at which an output was written; 0 for a directory that Snakemake did not write."""
    return stamp(output).stat().st_mtime if stamp(output).exists() else 0.0


def faults(found: Any, job: Any, outputs: Iterable[str]) -> Iterator[str]:
    """Yield the reasons why a job's outputs may not be its own results from the inputs that are here.

    Args:
        found: Snakemake's workflow, from ``stages.workflow``.
        job: one of its jobs.
        outputs: outputs with new content, which only the time of writing can confirm.
    """
    outputs = set(outputs)
    for out in job.output:
        record = found.persistence.metadata(out)
        if record is None or not os.path.exists(out):
            yield f"{out}: Snakemake did not write it here"
            continue
        if str(out) in outputs and _touched(out, record):
            yield f"{out}: changed since {job.rule.name} wrote it"
        for path, recorded in record.input_checksums.items():
            if os.path.exists(path) and _checksum(path) != recorded:
                yield f"{out}: its input {path} has changed since"


def refuse_edited(found: Any) -> None:
    """Raise ``UserError`` if somebody edited an output that other jobs read, because Snakemake would compute on it.

    The checksums that its readers recorded distinguish an edited file from a touched one.
    """
    waiting = set(found.dag.needrun_jobs())
    edited = []
    for job in found.dag.jobs:
        for out in job.output if job not in waiting else ():
            record = found.persistence.metadata(out)
            if record and os.path.exists(out) and _touched(out, record):
                readers = [after for after, files in found.dag.depending[job].items() if out in files]
                if _differs_from_read(found, out, readers):
                    edited.append(f"{out} (made by {stages.stage_of(job)})")
    if edited:
        raise UserError(
            "these outputs have changed since they were made: " + ", ".join(edited),
            "run ff-memories restore with the run's --configfile, then the workflow again",
        )


def _differs_from_read(found: Any, path: Any, readers: list[Any]) -> bool:
    """Return whether a file's content differs from when one of its readers ran."""
    known = [found.persistence.metadata(out) for reader in readers for out in reader.output]
    recorded = {record.input_checksums.get(str(path)) for record in known if record} - {None}
    return any(checksum != _checksum(path) for checksum in recorded)


def _touched(output: str, record: Any) -> bool:
    """Return whether an output was written at another time than its job ended."""
    return abs(written(output) - record.endtime) > CLOCK


def _checksum(path: str) -> str:
    return f"sha256:{digest(path, 'sha256')}"


def sound(found: Any, job: Any) -> bool:
    """Return whether Snakemake wrote all of a job's outputs from the current inputs, parameters and code."""
    known = found.persistence
    if any(True for _ in faults(found, job, map(str, job.output))):
        return False
    return not (known.params_changed(job) or any(known.code_changed(job)))


def write(found: Any, job: Any, now: float, due: bool) -> None:
    """Write a job's record as if it had just finished; with ``due``, make the record differ so the job reruns."""
    forget(found, job)
    known = found.persistence
    for out in job.output:
        if os.path.lexists(out) and not due:  # one time for all, so no output is older than its input
            if os.path.isdir(out):
                stamp(out).touch()
            os.utime(stamp(out), (now, now), follow_symlinks=False)
    found.async_run(known.finished(job))
    engines.read_records_again(found)
    for out in job.output:
        record = known.metadata(out)
        if os.path.exists(out):
            record.endtime = written(out)  # Snakemake caches the first time it sees
        if due:
            record.code = "not as recorded in dvc.lock"
        engines.write_record(found, out, record)


def forget(found: Any, job: Any) -> None:
    """Remove a job's record and its benchmark file, whose time would make Snakemake think that outputs are that old."""
    for out in job.output:
        found.persistence.cleanup_metadata(out)
    if job.benchmark:
        Path(str(job.benchmark)).unlink(missing_ok=True)

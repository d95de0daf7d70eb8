"""The jobs of a run, as Snakemake reads them from the Snakefile, without running any, and its records of past ones."""

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import yaml

from ff_memories.base.errors import UserError
from ff_memories.workflow import private_api
from ff_memories.workflow.dvc_lock_file import digest
from ff_memories.workflow.run import Run, snakefile

# What a run makes on the way to its outputs, and no record has: shards, and of the models of the baselines what they
# are drawn from, their triggers and their counts.
OF_A_MODEL = r"model\.json|counts/|tables/(triggers|firing)\.|proxy/\w+_scores\."
OF_A_RUN = rf"(models/[^/]+/)?shards/|models/(sample\.safetensors|[^/]+/({OF_A_MODEL}))"
INTERMEDIATE = re.compile(rf"(^|/)results/[^/]+/({OF_A_RUN})")
SHARDS = {"corpus": 1, "baselines": 1}  # their number changes no job's `params`
LOCKS = Path(".snakemake/locks")
CLOCK = 1e-3  # seconds; two readings of the same time stamp agree within this

# whether one of our commands reads the Snakefile, to look at its jobs without running any
only_read: ContextVar[bool] = ContextVar("only_read", default=False)


@contextmanager
def workflow(run: Run, forceall: bool = False, cores: int = 1, cut: bool = False) -> Iterator[Any]:
    """Yield Snakemake's workflow of a run, with its jobs; ``forceall``: as if no output existed yet.

    ``cut``: on all cores, into shards as `snakemake` cuts it here; else into none. Raises ``UserError`` with the reason
    if Snakemake refuses the run.
    """
    from snakemake.api import SnakemakeApi
    from snakemake.exceptions import IncompleteFilesException, MissingInputException, RuleException, WorkflowError
    from snakemake.settings.types import ConfigSettings, DAGSettings, OutputSettings, Quietness, ResourceSettings
    from snakemake.settings.types import RerunTrigger as Trigger
    from snakemake.utils import available_cpu_count

    file = snakefile()
    profile = yaml.safe_load((file.parent / "profiles/default/config.yaml").read_text(encoding="utf-8"))
    triggers = frozenset(Trigger.parse_choices_set(profile["rerun-triggers"]))
    config = ConfigSettings(configfiles=[] if run.is_default else [Path(run.file)])
    with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
        before = only_read.set(True)
        try:
            cores, shards = (available_cpu_count(), {}) if cut else (cores, SHARDS)
            limits = ResourceSettings(cores=cores, resources={"gpu": 1}, overwrite_scatter=shards)
            api_workflow = api.workflow(limits, config_settings=config, snakefile=file)
            api_workflow.dag(DAGSettings(forceall=forceall, max_checksum_file_size=10**15, rerun_triggers=triggers))
            inner = private_api.read_dag(api_workflow, forceall)
        except MissingInputException as error:
            raise UserError(str(error), "provide these files, or correct their paths in the config") from None
        except IncompleteFilesException:
            again = f"wait for it, or run ff-memories run {run.file}"
            raise UserError(f"{run.results}: not finished, a job is due, at work or was stopped", again) from None
        except (WorkflowError, RuleException) as error:
            raise UserError(str(error)) from None
        finally:
            only_read.reset(before)
        yield inner


def missing_outputs(read: Any, run: Run) -> list[str]:
    """Return the outputs in a run's folder that its jobs declare and that are missing, sorted.

    Snakemake makes what its targets need: after a run that was killed, a file in between may be missing.
    """
    every = {str(out) for job in read.dag.jobs for out in job.output if not is_intermediate(out)}
    return sorted(out for out in every if out.startswith(f"{run.results}/") and not os.path.lexists(out))


def is_intermediate(file: Any) -> bool:
    """Return whether a file is made on the way, and is no output of the run."""
    return bool(INTERMEDIATE.search(str(file)))


def makes_intermediates(job: Any) -> bool:
    """Return whether a job makes no output of the run."""
    return all(map(is_intermediate, job.output))


def output_faults(output: str, record: Any) -> Iterator[str]:
    """Yield why an output here may not be its job's own result from the inputs here; ``record``: Snakemake's of it."""
    if record is None or not os.path.exists(output):
        yield f"{output}: Snakemake did not write it here"
        return
    if _touched(output, record):
        yield f"{output}: changed since {record.rule} wrote it"
    yield from changed_inputs(output, record)


def changed_inputs(output: str, record: Any) -> Iterator[str]:
    """Yield which inputs of an output differ from those that its job read."""
    for path, checksum in sorted(record.input_checksums.items() if record else ()):
        if os.path.exists(path) and _checksum(path) != checksum:
            yield f"{output}: its input {path} has changed since"


def refuse_replaced(run: Run) -> None:
    """Raise ``UserError`` if an older file replaced one from outside that a job read: Snakemake reads newer ones only.

    Its bytes are read only if it, or its folder, changed after the job. A record that is not of the output here, whose
    job was killed, is of one before, or of a job that failed.
    """

    def latest(what: str, *paths: str) -> float:
        return max(getattr(look(path), what) for path in paths for look in (os.stat, os.lstat))

    record_of, replaced = private_api.recorded_jobs(), set[str]()
    readers = [run.path("model", "model.json"), run.path("corpus", "corpus.safetensors"), *run.inputs.model_files]
    readers += [run.path("golden", "golden.json"), run.table("examples"), run.table("annotation_plan")]
    for out, record in ((out, record_of(out)) for out in readers if os.path.exists(out)):
        for path, recorded in record.input_checksums.items() if record and not _touched(out, record) else ():
            if not os.path.exists(path) or record_of(path) is not None:
                continue
            older = latest("st_mtime", path) <= os.stat(out).st_mtime
            came_since = latest("st_ctime", path, os.path.dirname(path) or path) > record.endtime
            if older and came_since and recorded and _checksum(path) != recorded:
                replaced.add(path)
    if replaced:
        files = shlex.join(sorted(replaced))
        hint = f"touch {files}, then run the workflow again"
        raise UserError(f"replaced by an older file since a job read it: {files}", hint)


def remove_not_own(command: list[str]) -> None:
    """Remove a DVC stage's outputs that Snakemake would leave though they may not be its jobs' own results.

    Snakemake compares times, and so takes a file for its own that was edited or pulled, or whose input is older.
    ``command``: the stage's, which ends with ``--`` and its outputs. Raises ``UserError`` if another Snakemake may be
    writing these files.
    """
    if any(LOCKS.glob("*.lock")):
        hint = "wait until the other Snakemake has finished; if none is running, run snakemake --unlock"
        raise UserError("this folder is locked", hint)
    record_of = private_api.recorded_jobs()

    def is_removed(path: str) -> bool:
        record, there = record_of(path), os.path.exists(path)
        before = [is_removed(file) for file in (record and record.input) or () if is_intermediate(file)]
        # of what it was made of, nothing may be wrong either: Snakemake does not look behind a file that is there
        wrong = any(before) or (there and any(True for _ in output_faults(path, record)))
        if wrong and there:
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        return wrong

    for path in command[len(command) - command[::-1].index("--") :]:
        is_removed(path)


def _touched(output: str, record: Any) -> bool:
    """Return whether an output was written at another time than its job ended."""
    stamp = Path(output, ".snakemake_timestamp") if os.path.isdir(output) else Path(output)
    return abs((stamp.stat().st_mtime if stamp.exists() else 0.0) - record.endtime) > CLOCK


def _checksum(path: str) -> str:
    return f"sha256:{digest(path, 'sha256')}"

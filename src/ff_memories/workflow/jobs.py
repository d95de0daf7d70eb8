"""The jobs of a run, as Snakemake reads them from the Snakefile, without running any."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import yaml

from ff_memories.base.errors import UserError
from ff_memories.workflow import private_api
from ff_memories.workflow.run import Run, snakefile

# What a run makes on the way to its outputs, and no record has: shards, and of the models of the baselines what they
# are drawn from, their triggers and their counts.
OF_A_MODEL = r"model\.json|counts/|tables/(triggers|firing)\.|proxy/\w+_scores\."
OF_A_RUN = rf"(models/[^/]+/)?shards/|models/(sample\.safetensors|[^/]+/({OF_A_MODEL}))"
INTERMEDIATE = re.compile(rf"(^|/)results/[^/]+/({OF_A_RUN})")
SHARDS = {"corpus": 1, "baselines": 1}  # their number changes no job's `params`

_reading: ContextVar[bool] = ContextVar("reading", default=False)


def only_read() -> bool:
    """Return whether one of our commands is reading the Snakefile to look at its jobs without running any."""
    return _reading.get()


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
        reading = _reading.set(True)
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
            _reading.reset(reading)
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

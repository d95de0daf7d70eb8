"""All that the package uses of Snakemake beyond its public interface.

``USED`` names it, the Snakefile's part too; a test, tried with the oldest release and the newest, looks each name up.
"""

import os
from collections.abc import Callable
from typing import Any

USED = {
    "snakemake.api.WorkflowApi": "_workflow",
    "snakemake.workflow.Workflow": "_prepare_dag _build_dag configfiles dag deployment_settings executor_plugin "
    "global_resources modifier persistence register_resource resource_settings",
    "snakemake.io._IOFile": "checksum file is_storage",
    "snakemake.modules.WorkflowModifier": "is_main_snakefile rules",
    "snakemake.dag.DAG": "dependencies depending jobs needrun_jobs toposorted",
    "snakemake.persistence.file.FilePersistence": "cleanup metadata params_changed started",
    "snakemake.rules.Rule": "conda_env dependencies docstring expand_input expand_output log_modifier output_modifier "
    "set_log set_params shellcmd wildcard_names",
    "snakemake.rules.RuleProxy": "rule",
}


def read_dag(api_workflow: Any, forceall: bool) -> Any:
    """Return Snakemake's workflow with its jobs, without running any; ``forceall``: as if no output existed yet."""
    inner = api_workflow._workflow
    inner._prepare_dag(forceall=forceall, ignore_incomplete=forceall, lock_warn_only=True)
    inner._build_dag()
    return inner


def recorded_jobs() -> Callable[[str], Any]:
    """Return what gives Snakemake's record of an output in the working folder, before the Snakefile is read."""
    from snakemake.io import IOFile
    from snakemake.persistence.file import FilePersistence

    records = FilePersistence(nolock=True)
    return lambda path: records.metadata(IOFile(path))


def remember_checksums() -> None:
    """Have Snakemake read each version of a file once: it reads a job's inputs again for each of the job's outputs.

    With a model of some gigabytes that takes longer than many a step. A version is a time stamp and a size.
    """
    from snakemake.io import _IOFile

    read, checksums = _IOFile.checksum, dict[Any, Any]()
    if read.__module__ == __name__:
        return

    async def checksum(self: Any, *args: Any, **options: Any) -> Any:
        if self.is_storage or not os.path.isfile(self.file):
            return await read(self, *args, **options)
        state = os.stat(self.file)
        version = self.file, state.st_mtime_ns, state.st_size, args, tuple(options.items())
        if version not in checksums:
            checksums[version] = await read(self, *args, **options)
        return checksums[version]

    _IOFile.checksum = checksum

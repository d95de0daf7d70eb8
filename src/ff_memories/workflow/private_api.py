"""All that the package uses of Snakemake and DVC beyond their public interfaces; both are pinned for it.

``USED`` names what is used by version, and a test looks each up, so a new version says what it changed.
"""

from collections.abc import Callable
from typing import Any

USED: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {
    ("snakemake", "9.27.1"): {
        "snakemake.api.WorkflowApi": ("_workflow",),
        "snakemake.workflow.Workflow": ("_prepare_dag", "_build_dag", "dag", "persistence", "rules"),
        "snakemake.dag.DAG": ("dependencies", "depending", "jobs", "needrun_jobs", "toposorted"),
        "snakemake.persistence.file.FilePersistence": (
            "cleanup_metadata",
            "code_changed",
            "metadata",
            "params_changed",
        ),
        "snakemake.rules.Rule": ("conda_env", "dependencies", "expand_input", "expand_output", "set_params"),
    },
    ("dvc", "3.67.1"): {},
}


def read_dag(api_workflow: Any, forceall: bool) -> Any:
    """Return Snakemake's workflow with its jobs, without running any.

    Args:
        made: what ``SnakemakeApi.workflow`` returned, after its ``dag`` was called.
        forceall: as if no output existed yet.
    """
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

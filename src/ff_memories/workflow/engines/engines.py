"""All that the package uses of Snakemake and DVC beyond their public interfaces; both are pinned for it.

``USED`` names what is used by version, and a test looks each up, so a new version says what it changed.
"""

from pathlib import Path
from typing import Any

USED: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {
    ("snakemake", "9.27.1"): {
        "snakemake.api.WorkflowApi": ("_workflow",),
        "snakemake.workflow.Workflow": ("_prepare_dag", "_build_dag", "async_run", "dag", "persistence", "rules"),
        "snakemake.dag.DAG": ("dependencies", "depending", "jobs", "needrun_jobs", "reason", "toposorted"),
        "snakemake.persistence.file.FilePersistence": (
            "_clear_cache",
            "_write_record",
            "cleanup_metadata",
            "code_changed",
            "finished",
            "locked",
            "metadata",
            "params_changed",
        ),
        "snakemake.rules.Rule": ("conda_env", "dependencies", "expand_input", "expand_output", "set_params"),
    },
    ("dvc", "3.67.1"): {"dvc.lock": ("LockError", "make_lock")},
}


def read_dag(made: Any, forceall: bool) -> Any:
    """Return Snakemake's workflow with its jobs, without running any.

    Args:
        made: what ``SnakemakeApi.workflow`` returned, after its ``dag`` was called.
        forceall: as if no output existed yet.
    """
    inner = made._workflow
    inner._prepare_dag(forceall=forceall, ignore_incomplete=forceall, lock_warn_only=True)
    inner._build_dag()
    return inner


def write_record(found: Any, output: Any, record: Any) -> None:
    """Replace Snakemake's record of an output. ``found``: from ``read_dag``."""
    found.persistence._write_record(str(output), record)


def read_records_again(found: Any) -> None:
    """Make Snakemake read its records from the disk, and not as it saw them first."""
    found.persistence._clear_cache()


def lock_of_dvc(path: Path) -> Any:
    """Return DVC's lock on a file; entering it raises ``refusal_of_dvc`` while DVC holds it."""
    from dvc.lock import make_lock  # slow to import, and Snakemake does not need it

    return make_lock(f"{path}.lock", tmp_dir=str(path.parent))


def refusal_of_dvc() -> type[Exception]:
    """Return the exception of a lock that DVC holds."""
    from dvc.lock import LockError

    return LockError

"""Refuse a run that is not finished, or results of another model than the config names."""

from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.model.info import read_info
from ff_memories.workflow.runs.run import Run


def refuse_unfinished(run: Run) -> None:
    """Raise ``UserError`` if a run's model step has not run, or read another model than the config names now."""
    info = Path(run.path("model", "info.json"))
    if not info.is_file():
        raise UserError(f"{info}: no such file", f"run {run.again(str(info))}")
    if not run.config.model.is_of(read_info(info)):
        raise UserError(
            f"{run.file}: its model differs from the one in {info}, which produced these results",
            f"name the run's own config file, or run {run.again()}",
        )


def corpus_of(run: Run, what: str) -> Path:
    """Return the path of a run's corpus, for what quotes its text. Raises ``UserError`` if it is not here."""
    path = Path(run.path("corpus", "corpus.safetensors"))
    if not path.is_file():
        hint = f"run {run.again(str(path))}"
        raise UserError(f"{path}: {what} quote the run's text, and it is not here", hint)
    return path

"""The text of a run, for tools that quote it."""

from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.workflow.run import Run


def corpus_of(run: Run, what: str) -> Path:
    """Return the path of a run's corpus, for what quotes its text. Raises ``UserError`` if it is not here."""
    path = Path(run.path("corpus", "corpus.safetensors"))
    if not path.is_file():
        hint = f"run {run.again(str(path))}"
        raise UserError(f"{path}: {what} quote the run's text, and it is not here", hint)
    return path

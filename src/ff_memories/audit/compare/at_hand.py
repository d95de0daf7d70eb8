"""The model and the text that rows are recomputed from: which files these are, and whether they are the right ones."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ff_memories.audit.compare import sides
from ff_memories.audit.compare.sides import Side
from ff_memories.base import foreign
from ff_memories.workflow import dvc_lock_file
from ff_memories.workflow.runs.run import Run


def made(run: Run) -> list[str]:
    """Return the files that a run makes of its model and its text, and that rows are recomputed from."""
    found = [run.path("model", f"model.{end}") for end in ("safetensors", "json")]
    found += [run.path("corpus", "corpus.safetensors"), run.table("sentences")]
    return [*found, run.dictionary] if run.config.model.has_tokenizer else found


def files(run: Run) -> list[str]:
    """Return all files that rows are recomputed from."""
    return list(dict.fromkeys([*run.model_files, run.dictionary, *made(run)]))


def lacking(run: Run) -> str | None:
    """Return the first of these files that is not here."""
    return next((path for path in files(run) if not os.path.exists(path)), None)


def odd(run: Run, both: Iterable[Side]) -> str | None:
    """Say which of these files is not the one of the config, of a record of the run, or of what either run measured."""
    for path, wanted in run.pinned.items():
        if not os.path.exists(path) or dvc_lock_file.digest(path, "sha256") != wanted:
            return f"{path} is not the one that the config names"
    both = list(both)
    records = {str(side.given): side.record for side in both if side.record}
    if run.dvc_lock.is_file():
        records[str(run.dvc_lock)] = sides.outputs(run.dvc_lock, ("deps", "outs"))
    for where, record in records.items():
        for path in files(run):
            if path in record and dvc_lock_file.digest(path) != record[path]:
                return f"{path} is not the one that {where} records"
    for side in both:
        told = info(side).get("checkpoint_sha256")
        if told is not None and dvc_lock_file.digest(run.checkpoint, "sha256") != told:
            return f"{run.checkpoint} is not the model that {side.given} was measured with"
    return None


def info(side: Side) -> Mapping[str, object]:
    """Return a run's model info; nothing if it has none. Raises ``UserError`` if it is damaged."""
    if (file := side.files.get("model/info.json")) is None:
        return {}
    return foreign.read_json(file, dict[str, Any], name=f"{side.given}: model/info.json")

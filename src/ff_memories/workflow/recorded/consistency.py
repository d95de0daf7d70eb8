"""Check that dvc.lock is consistent: it matches the Snakefile, and every stage read what the other stages wrote.

DVC checks its cache; this module checks the record, with digests computed from the files' bytes.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.workflow.engines import lock, stages
from ff_memories.workflow.runs.run import SOURCES, Run


def faults(run: Run) -> list[str]:
    """Return where a run's dvc.lock contradicts the Snakefile, itself, the config, or the sources and inputs here."""
    where, recorded = run.dvc_lock, lock.read(run)
    made = lock.outputs(run)
    found = list(_declared(run, recorded, where))
    does = stages.digests(run)
    if not stages.sources_say(run, does):
        found.append(f"{run.sources_yaml}: not what the code and the config mean; run ff-memories sources{run.option}")
    told: set[str] = set()
    for name, stage in recorded.items():
        for dep in stage.get("deps", []):
            path, md5 = dep["path"], dep["md5"]
            if path in made:
                if made[path][1] != md5:
                    found.append(f"{where}: {name} read a different {path} than {made[path][0]} wrote")
            elif path not in told and (said := _input(path, md5)):
                told.add(path)
                found.append(f"{said} ({name})")
        found += [f"{where}: {name} was run with a different {key}" for key in _params(stage, run)]
        if name in does and _does(stage, run) != does[name]:
            found.append(f"{where}: {name} was run by other code, or with other values of the config")
    return found


def _declared(run: Run, recorded: dict[str, Any], where: Path) -> Iterator[str]:
    try:
        stages.check(run)
    except UserError as error:
        yield str(error).partition("\n")[0]
    declared = lock.declared(run)
    for name in sorted(declared.keys() | recorded.keys()):
        if name not in recorded:
            yield f"{where}: {name} was never recorded"
        elif name not in declared:
            yield f"{where}: {run.dvc_yaml} has no stage {name}"
        elif declared[name]["cmd"] != recorded[name]["cmd"]:
            yield f"{where}: {name} was run with a different command"
        elif lacking := sorted({*_paths(declared[name])} - {out["path"] for out in recorded[name].get("outs", [])}):
            yield f"{where}: {name} lacks its output {lacking[0]}"


def _paths(stage: dict[str, Any]) -> Iterator[str]:
    """Yield the paths of a declared stage's outputs, which may have options."""
    for out in stage.get("outs", []):
        yield from out if isinstance(out, dict) else [out]


def _input(path: str, md5: str) -> str | None:
    """Return how an input or source differs from the one that was read, if it is here."""
    if os.path.exists(path) and lock.content(path) != md5:
        return f"{path}: changed since the recorded run"
    pointer = Path(path + ".dvc")
    if pointer.is_file() and lock.parsed(pointer, lock.Pointer)["outs"][0]["md5"] != md5:
        return f"{path}: {pointer} names a different version"
    return None


def _does(stage: dict[str, Any], run: Run) -> str:
    """Return the recorded digest of what a stage does; nothing if there is none."""
    return next(iter(stage.get("params", {}).get(str(run.sources_yaml), {}).values()), "")


def _params(stage: dict[str, Any], run: Run) -> Iterator[str]:
    for file, keys in stage.get("params", {}).items():
        if Path(file).name == SOURCES:  # compared with the code itself
            continue
        if file != run.file:  # another's record may name any file
            yield f"config, {file}"
            continue
        for key, value in keys.items():
            place: Any = run.given
            for part in key.split("."):
                place = place.get(part) if isinstance(place, dict) else None
            if place != value:
                yield f"{key} than in {file}"

"""Check that dvc.lock is consistent: it matches the Snakefile, and every stage read what the other stages wrote.

DVC checks its cache, by sizes and times; this module checks the record, with digests of the files' bytes.
"""

import os
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.workflow import dvc_lock_file, dvc_yaml
from ff_memories.workflow.dvc_yaml import Stage
from ff_memories.workflow.run import SOURCES, Run

MODIFIED, DELETED = "modified", "deleted"  # how a file differs


def faults(run: Run) -> list[str]:
    """Return where a run's dvc.lock contradicts the Snakefile, itself, the config, or the sources and inputs here."""
    where, recorded, declared = run.dvc_lock, dvc_lock_file.read(run), dvc_yaml.stages(run)
    outputs, digests = dvc_lock_file.outputs(run), dvc_yaml.digests(declared.values())
    lines: list[str] = []
    try:
        dvc_yaml.check(run, declared)
    except UserError as error:
        lines.append(str(error).partition("\n")[0])
    if not dvc_yaml.sources_say(run, declared):
        lines.append(f"{run.sources_yaml}: not what the code and the config mean; run ff-memories sources{run.option}")
    lines += [f"{where}: {name} was never recorded" for name in declared.keys() - recorded.keys()]
    inputs: set[str] = set()  # that differ from those that were read
    for name, entry in recorded.items():
        if name not in declared:
            lines.append(f"{where}: {run.dvc_yaml} has no stage {name}")
            continue
        stage = declared[name]
        if entry.get("cmd") != stage.cmd:
            lines.append(f"{where}: {name} was run with a different command")
        if lacking := sorted(stage.writes - {out["path"] for out in entry.get("outs", [])}):
            lines.append(f"{where}: {name} lacks its output {lacking[0]}")
        for dep in entry.get("deps", []):
            path, md5 = dep["path"], dep["md5"]
            if (maker := _made(path, outputs)) is not None:
                if maker[1] != md5:
                    lines.append(f"{where}: {name} read a different {path} than {maker[0]} wrote")
            elif path not in inputs and os.path.exists(path) and dvc_lock_file.content(path) != md5:
                inputs.add(path)
                lines.append(f"{path}: changed since the recorded run ({name})")
        lines += [f"{where}: {name} was run with a different {key} than in {file}" for key, file in _params(entry, run)]
        if _digest(entry, run, stage) != digests[stage.key]:
            lines.append(f"{where}: {name} was run by other code, or with other values of the config")
    return lines


def changes(run: Run, declared: dict[str, Stage]) -> dict[str, dict[str, str]]:
    """Return how stages differ from their record, by content: {stage: {file, key of the config, or "code": how}}."""
    recorded, digests = dvc_lock_file.read(run), dvc_yaml.digests(declared.values())
    found = {name: _changes(recorded.get(name, {}), run, stage, digests) for name, stage in declared.items()}
    return {name: states for name, states in found.items() if states}


def _changes(entry: dict[str, Any], run: Run, stage: Stage, digests: dict[str, str]) -> dict[str, str]:
    md5 = {file["path"]: file["md5"] for kind in ("deps", "outs") for file in entry.get(kind, [])}
    states = {key: MODIFIED for key, _ in _params(entry, run)}
    if entry.get("cmd") != stage.cmd or _digest(entry, run, stage) != digests[stage.key]:
        states["code"] = MODIFIED
    for path in sorted(stage.reads | stage.writes):
        if not os.path.exists(path):
            states[path] = DELETED
        elif dvc_lock_file.content(path) != md5.get(path):
            states[path] = MODIFIED
    return states


def _digest(entry: dict[str, Any], run: Run, stage: Stage) -> Any:
    """Return the recorded digest of what a stage does; ``None`` if the record lacks it."""
    return entry.get("params", {}).get(str(run.sources_yaml), {}).get(stage.key)


def _made(path: str, made: dict[str, tuple[str, str]]) -> tuple[str, str] | None:
    """Return the stage that wrote a file, or all of a folder's files, and the digest of what it wrote."""
    files = {out.removeprefix(f"{path}/"): said for out, said in made.items() if out.startswith(f"{path}/")}
    if path in made or not files:
        return made.get(path)
    return next(iter(files.values()))[0], dvc_lock_file.listing({name: md5 for name, (_, md5) in files.items()})


def _params(entry: dict[str, Any], run: Run) -> Iterator[tuple[str, str]]:
    """Yield the keys of the config whose recorded value differs, with the file that is said to have them."""
    for file, keys in entry.get("params", {}).items():
        if Path(file).name == SOURCES:  # compared with the code itself
            continue
        if file not in run.files:  # another's record may name any file
            yield "config", file
            continue
        here = run.by_file(keys).get(file, {})
        yield from ((key, file) for key, value in keys.items() if here.get(key) != value)


def record(run: Run, at: Path) -> dict[str, Any]:
    """Return what dvc.lock records of a finished run, without DVC: {"stages": ...}.

    Args:
        run: a run whose inputs are in the working folder.
        at: the folder with its outputs, where the working folder lacks them.
    """
    declared, found = dvc_yaml.stages(run), {}
    does = dvc_yaml.digests(declared.values())
    content = lambda path: dvc_lock_file.content(path if os.path.exists(path) else at / path)
    listed = lambda paths: [{"path": path, "md5": content(path)} for path in sorted(paths)]
    for name, stage in declared.items():
        params = deepcopy(run.by_file(stage.keys))  # YAML has no name for a value
        params[str(run.sources_yaml)] = {stage.key: does[stage.key]}
        found[name] = {"cmd": stage.cmd, "deps": listed(stage.reads), "params": params, "outs": listed(stage.writes)}
    return {"stages": found}

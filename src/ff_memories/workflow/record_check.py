"""Check that dvc.lock is consistent: it matches the Snakefile, and every stage read what the other stages wrote.

DVC checks its cache; this module checks the record, with digests computed from the files' bytes.
"""

import os
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError
from ff_memories.workflow import dvc_lock_file, dvc_yaml
from ff_memories.workflow.runs.run import SOURCES, Run


def faults(run: Run) -> list[str]:
    """Return where a run's dvc.lock contradicts the Snakefile, itself, the config, or the sources and inputs here."""
    where, recorded, declared = run.dvc_lock, dvc_lock_file.read(run), dvc_yaml.stages(run)
    made, does = dvc_lock_file.outputs(run), dvc_yaml.digests(declared.values())
    found: list[str] = []
    try:
        dvc_yaml.check(run, declared)
    except UserError as error:
        found.append(str(error).partition("\n")[0])
    if not dvc_yaml.sources_say(run, declared):
        found.append(f"{run.sources_yaml}: not what the code and the config mean; run ff-memories sources{run.option}")
    found += [f"{where}: {name} was never recorded" for name in declared.keys() - recorded.keys()]
    told: set[str] = set()
    for name, stage in recorded.items():
        if name not in declared:
            found.append(f"{where}: {run.dvc_yaml} has no stage {name}")
            continue
        if stage.get("cmd") != declared[name].cmd:
            found.append(f"{where}: {name} was run with a different command")
        if lacking := sorted(declared[name].writes - {out["path"] for out in stage.get("outs", [])}):
            found.append(f"{where}: {name} lacks its output {lacking[0]}")
        for dep in stage.get("deps", []):
            path, md5 = dep["path"], dep["md5"]
            if (maker := _made(path, made)) is not None:
                if maker[1] != md5:
                    found.append(f"{where}: {name} read a different {path} than {maker[0]} wrote")
            elif path not in told and (said := _input(path, md5)):
                told.add(path)
                found.append(f"{said} ({name})")
        found += [f"{where}: {name} was run with a different {key}" for key in _params(stage, run)]
        if stage.get("params", {}).get(str(run.sources_yaml)) != {declared[name].key: does[declared[name].key]}:
            found.append(f"{where}: {name} was run by other code, or with other values of the config")
    return found


def _made(path: str, made: dict[str, tuple[str, str]]) -> tuple[str, str] | None:
    """Return the stage that wrote a file, or all of a folder's files, and the digest of what it wrote."""
    files = {out.removeprefix(f"{path}/"): said for out, said in made.items() if out.startswith(f"{path}/")}
    if path in made or not files:
        return made.get(path)
    return next(iter(files.values()))[0], dvc_lock_file.listing({name: md5 for name, (_, md5) in files.items()})


def _input(path: str, md5: str) -> str | None:
    """Return how an input or source differs from the one that was read, if it is here."""
    if os.path.exists(path) and dvc_lock_file.content(path) != md5:
        return f"{path}: changed since the recorded run"
    pointer = Path(path + ".dvc")
    if pointer.is_file() and dvc_lock_file.parsed(pointer, dvc_lock_file.Pointer)["outs"][0]["md5"] != md5:
        return f"{path}: {pointer} names a different version"
    return None


def _params(stage: dict[str, Any], run: Run) -> Iterator[str]:
    for file, keys in stage.get("params", {}).items():
        if Path(file).name == SOURCES:  # compared with the code itself
            continue
        if file != run.file:  # another's record may name any file
            yield f"config, {file}"
            continue
        for key, value in keys.items():
            if _value(run.given, key) != value:
                yield f"{key} than in {file}"


def _value(config: Any, key: str) -> Any:
    for part in key.split("."):
        config = config.get(part) if isinstance(config, dict) else None
    return config


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
        values = {key: deepcopy(_value(run.given, key)) for key in sorted(stage.keys)}  # YAML has no name for a value
        params = {run.file: values} if values else {}
        params[str(run.sources_yaml)] = {stage.key: does[stage.key]}
        found[name] = {"cmd": stage.cmd, "deps": listed(stage.reads), "params": params, "outs": listed(stage.writes)}
    return {"stages": found}

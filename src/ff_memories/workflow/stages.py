"""Derive dvc.yaml from the Snakefile, so the workflow is declared once, in Snakemake's rules.

Reading a workflow's jobs uses private parts of Snakemake's API, so Snakemake is pinned. A test that compares dvc.yaml
with the Snakefile fails if they change.
"""

import difflib
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import yaml

from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.config import load, read_yaml
from ff_memories.workflow.at_work import withdraw
from ff_memories.workflow.configfile import option

DEFAULT = Path("config/config.yaml")
HEADER = "# Generated from the Snakefile by ff-memories dvc-yaml\n"
# The outputs that a run shares. All others show text, if only as token ids, or can be rebuilt in seconds: DVC records
# their hashes but keeps no copy, so `dvc push` cannot publish them.
SHARED = re.compile(
    r"/(tables|counts|sensitivity|golden|proxy|baselines)/|/figures/.*(?<!\.html)$|/claims(\.json|\.tex)?$"
    r"|/model/(info|model)\.json$|/summary\.md$"
)


_reading: ContextVar[bool] = ContextVar("reading", default=False)


def only_read() -> bool:
    """Return whether one of our commands is reading the Snakefile to look at its jobs without running any."""
    return _reading.get()


@contextmanager
def workflow(
    configfile: Path | None = None, forceall: bool = False, snakefile: Path = Path("Snakefile"), cores: int = 1
) -> Iterator[Any]:
    """Yield Snakemake's workflow of a run, with its jobs; ``forceall``: as if no output existed yet.

    Raises:
        UserError: the config file cannot be read, or Snakemake refuses the run; the message has its reason.
    """
    from snakemake.api import SnakemakeApi
    from snakemake.exceptions import MissingInputException, RuleException, WorkflowError
    from snakemake.settings.types import ConfigSettings, DAGSettings, OutputSettings, Quietness, ResourceSettings

    profile = yaml.safe_load((snakefile.parent / "profiles/default/config.yaml").read_text(encoding="utf-8"))
    triggers = DAGSettings(rerun_triggers=_triggers(profile["rerun-triggers"])).rerun_triggers
    read_yaml(configfile or DEFAULT)  # if it is unreadable, Snakemake would end in a traceback
    config = ConfigSettings(configfiles=[configfile] if configfile else [])
    with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
        reading = _reading.set(True)
        try:
            made = api.workflow(ResourceSettings(cores=cores), config_settings=config, snakefile=snakefile)
            made.dag(DAGSettings(forceall=forceall, max_checksum_file_size=10**15, rerun_triggers=triggers))
            inner = made._workflow
            withdraw()
            inner._prepare_dag(forceall=forceall, ignore_incomplete=forceall, lock_warn_only=True)
            inner._build_dag()
        except MissingInputException as error:
            raise UserError(str(error), "provide these files, or correct their paths in the config") from None
        except (WorkflowError, RuleException) as error:
            raise UserError(str(error)) from None
        finally:
            _reading.reset(reading)
        yield inner


def _triggers(names: list[str]) -> frozenset[Any]:
    from snakemake.settings.types import RerunTrigger

    return frozenset(RerunTrigger.parse_choices_set(names))


def is_shard(job: Any) -> bool:
    """Return whether a job makes one shard, which is intermediate state and not an output of the run."""
    return "scatteritem" in job.wildcards_dict


def stage_of(job: Any) -> str:
    """Return the name of a job's stage, in characters that DVC allows; a shard belongs to the stage that gathers it."""
    if is_shard(job):
        return stage_of(next(iter(job.dag.depending[job])))
    return re.sub(r"[^\w-]+", "-", "-".join([job.rule.name, *job.wildcards_dict.values()]))


def declaration(configfile: Path | None = None) -> dict[str, Any]:
    """Return dvc.yaml's content for the default run, or for the run of another config file.

    Every job is a stage. It depends on its inputs, the sources of its step and config keys. Its command contains a
    digest of the rule's shell command, so editing the command reruns the stage. Outputs persist: Snakemake removes
    them itself, after checking that no other Snakemake is working on them.
    """
    with workflow(configfile, forceall=True) as found:
        stages = _stages([job for job in found.dag.jobs if job.output])
    config = configfile or DEFAULT
    if configfile:  # outputs outside of a run's folder belong to the default run's stages
        own = f"results/{load(configfile).run}/"
        stages = {name: stage for name, stage in stages.items() if all(f.startswith(own) for f in stage["outs"])}
    up = "../../" if configfile else ""
    outs = sorted(f for stage in stages.values() for f in stage["outs"])
    return {
        "stages": {name: _entry(stage, config, option(configfile), up) for name, stage in sorted(stages.items())},
        "metrics": [up + f for f in outs if f.endswith("/claims")],
        "plots": [up + f for f in outs if f.endswith(".svg") and SHARED.search(f)],
    }


def _stages(jobs: list[Any]) -> dict[str, dict[str, Any]]:
    stages: dict[str, dict[str, Any]] = {}
    made = {str(f) for job in jobs if is_shard(job) for f in job.output}
    for job in sorted(jobs, key=is_shard, reverse=True):  # the gathering rule last: the stage gets its docstring
        stage = stages.setdefault(stage_of(job), {"deps": set(), "outs": set(), "keys": set(), "rules": {}})
        stage["rules"][job.rule.name] = job.rule
        stage["deps"] |= {_whole(str(f)) for f in job.input} - made | set(job.params.get("sources", []))
        stage["outs"] |= {str(f) for f in job.output} - made
        stage["keys"] |= set(job.params.get("watched", []))
    return stages


def _whole(file: str) -> str:
    """Return the folder of an annotators' file, so another file in it changes the stage but not dvc.yaml."""
    return "/".join(file.split("/")[:2]) if file.startswith("annotations/") else file


def _entry(stage: dict[str, Any], config: Path, run: str, up: str) -> dict[str, Any]:
    *_, last = stage["rules"].values()
    code = hashlib.sha256("".join(rule.shellcmd or "" for rule in stage["rules"].values()).encode()).hexdigest()[:8]
    rules, outs = " ".join(stage["rules"]), sorted(stage["outs"])
    force = f"--allowed-rules {rules} --forcerun {last.name}"
    entry = {
        "desc": " ".join((last.docstring or "").split()),
        "wdir": up,
        "cmd": f"snakemake{run} {force} -- {' '.join(outs)}  # {code}",
        "deps": sorted(stage["deps"]),
        "params": [{str(config): sorted(stage["keys"])}] if stage["keys"] else [],
        "outs": [{f: {"persist": True} if SHARED.search(f) else {"cache": False, "persist": True}} for f in outs],
    }
    return {key: value for key, value in entry.items() if value}


def path_of(configfile: Path | None = None) -> Path:
    """Return the path of a run's dvc.yaml. Only the default run's is at the top, so no other starts by accident."""
    if configfile is None:
        return Path("dvc.yaml")
    return Path("runs", load(configfile).run, "dvc.yaml")


def write(configfile: Path | None = None) -> Path:
    """Write a run's dvc.yaml and return its path."""
    write_whole(path_of(configfile), text(configfile))
    return path_of(configfile)


def text(configfile: Path | None = None) -> str:
    """Return a run's dvc.yaml as text."""
    return HEADER + yaml.safe_dump(declaration(configfile), sort_keys=False, width=1000)


def check(configfile: Path | None = None) -> None:
    """Raise ``UserError`` with the difference if a run's dvc.yaml does not match the Snakefile."""
    path, new = path_of(configfile), text(configfile)
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if old != new:
        difference = "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), str(path), "Snakefile"))
        hint = f"run ff-memories dvc-yaml{option(configfile)}"
        raise UserError(f"{path} does not match the Snakefile\n{difference}", hint)

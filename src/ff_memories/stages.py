"""dvc.yaml, derived from the Snakefile: the workflow is declared once, in Snakemake's rules.

Reading a workflow's jobs takes parts of Snakemake's API that are not public, so Snakemake is pinned, and a test that
compares dvc.yaml with the Snakefile says when they have moved.
"""

import difflib
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from ff_memories.errors import UserError

HEADER = "# Follows from the Snakefile: ff-memories dvc-yaml\n"
# what holds running text, also as token ids: recorded, never pushed
PRIVATE = ("data/docstrings/", "/corpus/", "/report/")


@contextmanager
def workflow(snakefile: Path = Path("Snakefile"), configfile: Path | None = None, forceall: bool = False) -> Iterator:
    """Yield Snakemake's workflow of a Snakefile, with its jobs found."""
    from snakemake.api import SnakemakeApi
    from snakemake.settings.types import ConfigSettings, DAGSettings, OutputSettings, Quietness, ResourceSettings

    config = ConfigSettings(configfiles=[configfile] if configfile else [])
    with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
        made = api.workflow(ResourceSettings(cores=1), config_settings=config, snakefile=snakefile)
        made.dag(DAGSettings(forceall=forceall, max_checksum_file_size=10**15))
        inner = made._workflow
        inner._prepare_dag(forceall=forceall, ignore_incomplete=forceall, lock_warn_only=True)
        inner._build_dag()
        yield inner


def stage_of(job) -> str:
    """Return the name of a job's stage; the shards of one rule are one stage."""
    return "-".join([job.rule.name] + [v for k, v in job.wildcards_dict.items() if k != "scatteritem"])


def _shard_folders(jobs) -> set[str]:
    return {os.path.dirname(str(f)) for job in jobs for f in job.output if "scatteritem" in job.wildcards_dict}


def declaration(config_path: str, snakefile: Path = Path("Snakefile"), default: bool = True) -> dict[str, Any]:
    """Return dvc.yaml's content for the run of a config file.

    Every job is a stage; the shards of a rule are folded into one with a directory as its output. A stage depends on
    its rule's inputs and sources and on the config's keys, and its command carries a digest of the rule's own text, so
    that it runs again when that is edited.
    """
    with workflow(snakefile, None if default else Path(config_path), forceall=True) as found:
        jobs = [job for job in found.dag.jobs if job.output]
    folders = _shard_folders(jobs)
    fold = lambda f: os.path.dirname(f) if os.path.dirname(f) in folders else f
    stages: dict[str, dict] = {}
    for job in jobs:
        stage = stages.setdefault(stage_of(job), {"rule": job.rule, "deps": set(), "outs": set(), "keys": set()})
        params = dict(job.params.items())
        stage["deps"] |= {fold(str(f)) for f in job.input} | set(params.get("sources", []))
        stage["outs"] |= {fold(str(f)) for f in job.output}
        stage["keys"] |= set(params.get("watched", []))
    option = "" if default else f" --configfile {config_path}"
    out, plots, metrics = {}, [], []
    for name, stage in sorted(stages.items()):
        rule, folded = stage["rule"], stage["outs"] & folders
        code = hashlib.sha256((rule.shellcmd or "").encode()).hexdigest()[:8]
        rules = f"{rule.name} {rule.name}_all" if folded else rule.name
        targets = f"{rule.name}_all" if folded else " ".join(sorted(stage["outs"]))
        entry = {
            "desc": " ".join((rule.docstring or "").split()),
            "cmd": f"snakemake{option} --allowed-rules {rules} -- {targets}  # {code}",
            "deps": sorted(stage["deps"]),
            "params": [{config_path: sorted(stage["keys"])}] if stage["keys"] else [],
            "outs": [{f: {"push": False}} if any(part in f for part in PRIVATE) else f for f in sorted(stage["outs"])],
        }
        out[name] = {key: value for key, value in entry.items() if value}
        plots += [f for f in sorted(stage["outs"]) if f.endswith(".svg")]
        metrics += [f for f in sorted(stage["outs"]) if f.endswith("claims.json")]
    return {"stages": out, "metrics": metrics, "plots": plots}


def text(config_path: str = "config/config.yaml", default: bool = True) -> str:
    """Return dvc.yaml as text."""
    return HEADER + yaml.safe_dump(declaration(config_path, default=default), sort_keys=False, width=1000)


def check(path: Path, new: str) -> None:
    """Raise ``UserError`` with the difference where a dvc.yaml does not follow from the Snakefile."""
    old = path.read_text() if path.exists() else ""
    if old != new:
        difference = "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), str(path), "Snakefile"))
        raise UserError(f"{path} no longer follows from the Snakefile\n{difference}", "ff-memories dvc-yaml")

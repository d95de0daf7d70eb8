"""Derive dvc.yaml from the Snakefile, so the workflow is declared once, in Snakemake's rules.

Reading a workflow's jobs uses private parts of Snakemake's API, so Snakemake is pinned. A test that compares dvc.yaml
with the Snakefile fails if they change.
"""

import difflib
import hashlib
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import yaml

from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.workflow.engines import engines
from ff_memories.workflow.engines.at_work import withdraw
from ff_memories.workflow.engines.snakefile import snakefile
from ff_memories.workflow.runs.run import Run

HEADER = "# Generated from the Snakefile by ff-memories dvc-yaml\n"
OF_SOURCES = "# Written by ff-memories sources: what each stage does, as a digest\n"
DIGITS = 16  # of a digest
# The outputs that may be shared, and that `compare` looks at. All others show text, if only as token ids, or follow
# from these in seconds.
SHARED = re.compile(
    r"^(?!.*/shards/|.*/models/[^/]+/(counts/|tables/(triggers|firing)\.|proxy/annotation_scores\.))"
    r".*(/(tables|counts|sensitivity|golden|proxy)/|/figures/.*(?<!\.html)$|/models/[^/]+/perplexity\.json$|/claims(\.json|\.tex)?$|/model/(info|model)\.json$|/summary\.md$)"
)
FIGURE = re.compile(r"/figures/")


_reading: ContextVar[bool] = ContextVar("reading", default=False)


def only_read() -> bool:
    """Return whether one of our commands is reading the Snakefile to look at its jobs without running any."""
    return _reading.get()


@contextmanager
def workflow(run: Run, forceall: bool = False, cores: int = 1) -> Iterator[Any]:
    """Yield Snakemake's workflow of a run, with its jobs; ``forceall``: as if no output existed yet.

    Raises:
        UserError: Snakemake refuses the run; the message has its reason.
    """
    from snakemake.api import SnakemakeApi
    from snakemake.exceptions import IncompleteFilesException, MissingInputException, RuleException, WorkflowError
    from snakemake.settings.types import ConfigSettings, DAGSettings, OutputSettings, Quietness, ResourceSettings

    file = snakefile()
    profile = yaml.safe_load((file.parent / "profiles/default/config.yaml").read_text(encoding="utf-8"))
    triggers = DAGSettings(rerun_triggers=_triggers(profile["rerun-triggers"])).rerun_triggers
    config = ConfigSettings(configfiles=[] if run.is_default else [Path(run.file)])
    with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
        reading = _reading.set(True)
        try:
            made = api.workflow(ResourceSettings(cores=cores), config_settings=config, snakefile=file)
            made.dag(DAGSettings(forceall=forceall, max_checksum_file_size=10**15, rerun_triggers=triggers))
            withdraw()
            inner = engines.read_dag(made, forceall)
        except MissingInputException as error:
            raise UserError(str(error), "provide these files, or correct their paths in the config") from None
        except IncompleteFilesException:
            again = f"wait for it, or run ff-memories run {run.file}"
            raise UserError(f"{run.results}: not finished, a job is at work or was stopped", again) from None
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
    return bool(job.wildcards_dict.get("shard")) or "scatteritem" in job.wildcards_dict


def is_kept(output: str) -> bool:
    """Return whether DVC keeps a copy of an output.

    Of all others it records the hash alone, so ``dvc push`` cannot publish text, and figures, which follow from tables
    byte for byte, add nothing to the repository.
    """
    return bool(SHARED.search(output)) and not FIGURE.search(output)


def stage_of(job: Any) -> str:
    """Return the name of a job's stage, in characters that DVC allows; a shard belongs to the stage that gathers it."""
    if is_shard(job):
        return stage_of(next(iter(job.dag.depending[job])))
    return re.sub(r"[^\w-]+", "-", "-".join([job.rule.name, *job.wildcards_dict.values()]))


def declaration(run: Run) -> dict[str, Any]:
    """Return the content of a run's dvc.yaml.

    Every job is a stage. It depends on its inputs, on config keys, and on its own key of ``sources.yaml``, which a
    stage of its own writes. Outputs persist: Snakemake removes them itself, after checking that no other Snakemake is
    working on them.
    """
    stages, up = _declared(run), "" if run.is_default else "../../"
    outs = sorted(f for stage in stages.values() for f in stage["outs"])
    return {
        "stages": {name: _entry(name, stage, run, up) for name, stage in sorted(stages.items())},
        "metrics": [up + f for f in outs if f.endswith("/claims")],
        "plots": [up + f for f in outs if f.endswith(".svg")],
    }


def digests(run: Run) -> dict[str, str]:
    """Return {stage: digest of what it does}, ``sources.yaml``'s content: commands, code and the config's values."""
    return {name: stage["digest"] for name, stage in sorted(_declared(run).items())}


def _declared(run: Run) -> dict[str, dict[str, Any]]:
    with workflow(run, forceall=True) as found:
        stages = _stages([job for job in found.dag.jobs if job.output])
    if not run.is_default:  # outputs outside of a run's folder belong to the default run's stages
        own = f"{run.results}/"
        stages = {name: stage for name, stage in stages.items() if all(f.startswith(own) for f in stage["outs"])}
    return stages


def _stages(jobs: list[Any]) -> dict[str, dict[str, Any]]:
    stages: dict[str, dict[str, Any]] = {}
    made = {str(f) for job in jobs if is_shard(job) for f in job.output}
    for job in sorted(jobs, key=is_shard, reverse=True):  # the gathering rule last: the stage gets its docstring
        new: dict[str, Any] = {"deps": set(), "outs": set(), "keys": set(), "rules": {}, "does": set()}
        stage = stages.setdefault(stage_of(job), new)
        stage["rules"][job.rule.name] = job.rule
        stage["deps"] |= {_whole(str(f)) for f in job.input} - made
        stage["outs"] |= {str(f) for f in job.output} - made
        stage["keys"] |= set(job.params.get("watched", []))
        known = [str(job.params.get(name)) for name in ("code", "config")]
        stage["does"].add((job.rule.name, job.rule.shellcmd or "", *known))
    for stage in stages.values():
        stage["digest"] = hashlib.sha256(repr(sorted(stage["does"])).encode()).hexdigest()[:DIGITS]
    return stages


def _whole(file: str) -> str:
    """Return the folder of an annotators' file, so another file in it changes the stage but not dvc.yaml."""
    return "/".join(file.split("/")[:2]) if file.startswith("annotations/") else file


def _entry(name: str, stage: dict[str, Any], run: Run, up: str) -> dict[str, Any]:
    *_, last = stage["rules"].values()
    rules, outs = " ".join(stage["rules"]), sorted(stage["outs"])
    keys = [{run.file: _Short(sorted(stage["keys"]))}] if stage["keys"] else []
    flags = lambda f: {"persist": True} if is_kept(f) else {"cache": False, "persist": True}
    entry = {
        "desc": " ".join((last.docstring or "").split()),
        "wdir": up,
        "cmd": f"{program(run)} --allowed-rules {rules} --forcerun {last.name} -- {' '.join(outs)}",
        "deps": sorted(stage["deps"]),
        "params": [*keys, {str(run.sources_yaml): _Short([name])}],
        "outs": [{f: _Brief(flags(f))} for f in outs],
    }
    return {key: value for key, value in entry.items() if value}


def program(run: Run) -> str:
    """Return the command that runs a run's Snakefile: outside of a clone, the package's own Snakefile."""
    return f"snakemake{run.option}" if _in_clone() else f"ff-memories run {shlex.quote(run.file)} --"


def _in_clone() -> bool:
    return not snakefile().is_absolute()


class _Short(list[str]):
    """A list on one line."""


class _Brief(dict[str, bool]):
    """A mapping on one line."""


class _Writer(yaml.SafeDumper):
    """Write YAML, with some lists and mappings on one line."""


_Writer.add_representer(_Short, lambda to, data: to.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True))
_Writer.add_representer(_Brief, lambda to, data: to.represent_mapping("tag:yaml.org,2002:map", data, flow_style=True))


def stage_of_sources(run: Run) -> Path:
    """Return the dvc.yaml with the one stage that writes ``sources.yaml``.

    It has a file of its own, so an edit that changes no digest leaves the run's own dvc.yaml up to date.
    """
    return Path("workflow" if run.is_default else run.dvc_yaml.parent, "sources", "dvc.yaml")


def texts(run: Run) -> dict[Path, str]:
    """Return the files that declare a run to DVC, by path."""
    where = stage_of_sources(run)
    stage: dict[str, Any] = {
        "desc": "Write a digest of what each stage does: its command, the meaning of its code and its config.",
        "wdir": "../" * len(where.parent.parts),
        "cmd": f"ff-memories sources{run.option}",
        "deps": [*(("Snakefile", "src/ff_memories", "workflow/rules") if _in_clone() else ()), run.file],
        "outs": [{str(run.sources_yaml): _Brief({"cache": False, "persist": True})}],
    }
    if not _in_clone():
        stage["always_changed"] = True  # DVC doesn't see the installed package
    written = lambda data: HEADER + yaml.dump(data, Dumper=_Writer, sort_keys=False, width=1000)
    return {run.dvc_yaml: written(declaration(run)), where: written({"stages": {"sources": stage}})}


def write(run: Run) -> Path:
    """Write what declares a run to DVC; return the path of its dvc.yaml."""
    for path, text in texts(run).items():
        write_whole(path, text)
    write_sources(run)
    return run.dvc_yaml


def write_sources(run: Run) -> Path:
    """Write a run's ``sources.yaml``, if it would change; return its path."""
    if not sources_say(run, does := digests(run)):
        write_whole(run.sources_yaml, OF_SOURCES + yaml.safe_dump(does))
    return run.sources_yaml


def sources_say(run: Run, does: dict[str, str]) -> bool:
    """Return whether a run's ``sources.yaml`` says just these digests."""
    path = run.sources_yaml
    return path.is_file() and path.read_bytes() == (OF_SOURCES + yaml.safe_dump(does)).encode()


def check(run: Run) -> None:
    """Raise ``UserError`` with the difference if what declares a run to DVC does not match the Snakefile."""
    for path, new in texts(run).items():
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        if old != new:
            told = difflib.unified_diff(old.splitlines(True), new.splitlines(True), str(path), "Snakefile")
            hint = f"run ff-memories dvc-yaml{run.option}"
            raise UserError(f"{path} does not match the Snakefile\n{''.join(told)}", hint)

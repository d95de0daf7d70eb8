"""Derive dvc.yaml from the Snakefile, so the workflow is declared once, in Snakemake's rules.

A stage is a file of ``workflow/rules``: DVC says which stages have changed, and within a stage Snakemake decides which
of its jobs are due. Jobs on the other models, with the wildcard ``{model}``, are one stage for each model.
"""

import hashlib
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.workflow import code_digest
from ff_memories.workflow.jobs import is_intermediate, makes_intermediates, workflow
from ff_memories.workflow.run import Run, in_clone

HEADER = "# Generated from the Snakefile by ff-memories dvc-yaml\n"
OF_SOURCES = "# Written by ff-memories sources: what each stage does, as a digest\n"
DIGITS, WIDTH = 16, 160  # of a digest, and of a line
LETTER = "x"  # in front of a digest: YAML reads some as numbers
LOOKED_AT = Path("runs/.dvcignore")  # not in git: the runs that DVC looks at in this checkout, besides the default one
MODELS = "models"  # the stages of the models of the baselines
ITEM = "${item.model}"
ABOUT_MODELS = "Measure the other models that the run compares its own with: the same steps on each."
# The outputs that may be shared, and that `compare` looks at. All others show text, if only as token ids, or follow
# from these in seconds.
SHARED = re.compile(
    r"/(tables|counts|sensitivity|golden|proxy)/|/figures/.*(?<!\.html)$|/models/[^/]+/perplexity\.json$"
    r"|/claims(\.json)?$|/model/(info|model)\.json$|/summary\.md$"
)
REBUILT = re.compile(r"/figures/|/summary\.md$")  # of these, what follows from tables byte for byte


def is_shared(output: str) -> bool:
    """Return whether an output may be shared, and is one that `compare` looks at."""
    return bool(SHARED.search(output)) and not is_intermediate(output)


def is_kept(output: str) -> bool:
    """Return whether DVC keeps a copy of an output.

    Of all others it records the hash alone: ``dvc push`` publishes no text, and no figures, which follow from tables.
    """
    return is_shared(output) and not REBUILT.search(output)


def stages_of(job: Any) -> set[str]:
    """Return the names of a job's stages: ``composition``, or ``models@untrained-1`` as DVC names a stage of many.

    A job that makes no output of the run belongs to the stages that need it.
    """
    if makes_intermediates(job):
        return {name for other in job.dag.depending[job] for name in stages_of(other)}
    model = Path(job.wildcards_dict.get("model", "")).name
    return {f"{MODELS}@{model}" if model else Path(str(job.rule.snakefile)).stem}


def stage_of(job: Any) -> str:
    """Return the name of a job's stage, the first if it has several."""
    return min(stages_of(job), default="")


@dataclass
class Stage:
    """A stage of dvc.yaml."""

    name: str
    about: str  # what its file of rules says of itself
    rules: dict[str, Any] = field(default_factory=dict)  # by name
    reads: set[str] = field(default_factory=set)  # what it depends on: files, and folders of annotations
    writes: set[str] = field(default_factory=set)  # its outputs
    keys: set[str] = field(default_factory=set)  # of the config, that it depends on
    # its jobs' rules, commands, digests of code, and values of the config
    does: set[tuple[str, ...]] = field(default_factory=set)
    cmd: str = ""  # that makes its outputs

    @property
    def key(self) -> str:
        """The stage's key of ``sources.yaml``; one for the stages of all models."""
        return self.name.partition("@")[0]


def stages(run: Run) -> dict[str, Stage]:
    """Return {name: stage} of a run, sorted."""
    out: dict[str, Stage] = {}
    with workflow(run, forceall=True) as read:
        for job in read.dag.jobs:
            outputs = set(map(str, job.output))
            if not outputs or not (run.is_default or all(path.startswith(f"{run.results}/") for path in outputs)):
                continue  # outputs outside of a run's folder belong to the default run's stages
            for name in stages_of(job):
                stage = out.setdefault(name, Stage(name, _about(name, job.rule.snakefile)))
                stage.rules[job.rule.name] = job.rule
                paths = (str(path) for path in job.input if not is_intermediate(path))
                # an annotators' folder, so another file in it changes the stage but not dvc.yaml
                stage.reads |= {re.sub(r"^(annotations/[^/]+)/.*", r"\1", path) for path in paths}
                stage.writes |= {path for path in outputs if not is_intermediate(path)}
                if config := job.rule.params.get("config"):
                    stage.keys |= set(config.watched(job.wildcards_dict.get("model")))
                parts = (str(job.params.get(param)) for param in ("code", "config", "tables", "command", "joined"))
                stage.does.add((job.rule.name, *parts))
        every = list(read.rules)
    for stage in out.values():
        stage.reads -= stage.writes
        stage.keys -= {key for key in stage.keys if key.partition(".")[0] in stage.keys - {key}}
        # files, because a rule's jobs may be of several stages
        stage.cmd = f"{run.program} --allowed-rules {_allowed(stage, every)} -- {shlex.join(sorted(stage.writes))}"
    return dict(sorted(out.items()))


def _about(name: str, file: Any) -> str:
    """Return the comment that begins a file of rules."""
    lines = Path(str(file)).read_text(encoding="utf-8").splitlines()
    count = next(n for n, line in enumerate(lines) if not line.startswith("#"))
    return ABOUT_MODELS if name.startswith(MODELS) else " ".join(line.strip("# ") for line in lines[:count])


def _allowed(stage: Stage, rules: Iterable[Any]) -> str:
    """Return the rules that make a stage's outputs, with those that cut their work into shards and join these."""
    names = set(stage.rules)
    files = {rule.snakefile for rule in stage.rules.values()}
    names |= {f"{rule.name}_joined" for rule in stage.rules.values() if "shard" in rule.wildcard_names}
    names |= {rule.name for rule in rules if rule.name.endswith("_shard") and rule.snakefile in files}
    return " ".join(sorted(names))


def digests(every: Iterable[Stage]) -> dict[str, str]:
    """Return {key: digest of what a stage does}, ``sources.yaml``'s content: commands, code and the config's values."""
    does: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for stage in every:
        does[stage.key] |= stage.does
    return {key: LETTER + hashlib.sha256(repr(sorted(does[key])).encode()).hexdigest()[:DIGITS] for key in sorted(does)}


class _Row(list[Any]):
    """A list on one line, or on a few."""


class _Brief(dict[str, Any]):
    """A mapping on one line."""


class _Writer(yaml.SafeDumper):
    """Write YAML, with some lists and mappings on one line."""


_Writer.add_representer(_Row, lambda to, data: to.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True))
_Writer.add_representer(_Brief, lambda to, data: to.represent_mapping("tag:yaml.org,2002:map", data, flow_style=True))


def _yaml(data: dict[str, Any]) -> str:
    return HEADER + yaml.dump(data, Dumper=_Writer, sort_keys=False, width=WIDTH)


def declaration(run: Run, every: dict[str, Stage]) -> dict[str, Any]:
    """Return the content of a run's dvc.yaml.

    A stage depends on its inputs, on keys of the config, and on its own key of ``sources.yaml``, which a stage of its
    own writes. Outputs persist, so Snakemake finds those that are not due.
    """
    up, models = "" if run.is_default else "../../", _Row()
    entries: dict[str, dict[str, Any]] = {}
    for stage in every.values():
        _, of_many, model = stage.name.partition("@")
        entry = _entry(stage, run, up, model)
        if entries.setdefault(stage.key, entry) != entry:
            raise ValueError(f"{stage.name}: other rules or files than another model's")
        if of_many:
            models.append(model)
    if models:
        entries[MODELS] = {"matrix": {"model": models}, **entries[MODELS]}
    files = sorted(path for stage in every.values() for path in stage.writes)
    return {
        "stages": entries,
        "metrics": [up + path for path in files if path.endswith("/claims")],
        "plots": _Row(up + path for path in files if path.endswith(".svg")),
    }


def _entry(stage: Stage, run: Run, up: str, model: str) -> dict[str, Any]:
    def of_all(text: str) -> str:
        return text.replace(f"/{model}/", f"/{ITEM}/") if model else text

    flags = {path: _Brief(({} if is_kept(path) else {"cache": False}) | {"persist": True}) for path in stage.writes}
    keys = [{file: _Row(values)} for file, values in run.by_file(stage.keys).items()]
    entry = {
        "desc": stage.about,
        "wdir": up,
        "cmd": of_all(stage.cmd),
        "deps": _Row(map(of_all, sorted(stage.reads))),
        "params": [*keys, {str(run.sources_yaml): _Row([stage.key])}],
        "outs": _Row({of_all(path): flags[path]} for path in sorted(stage.writes)),
    }
    return {key: value for key, value in entry.items() if value}


def stage_of_sources(run: Run) -> Path:
    """Return the dvc.yaml with the one stage that writes ``sources.yaml``.

    It has a file of its own, so an edit that changes no digest leaves the run's own dvc.yaml up to date.
    """
    return Path("workflow" if run.is_default else run.dvc_yaml.parent, "sources", "dvc.yaml")


def texts(run: Run, every: dict[str, Stage]) -> dict[Path, str]:
    """Return the files that declare a run to DVC, by path."""
    where = stage_of_sources(run)
    sources = ["src/ff_memories", *code_digest.scripts(), "workflow/Snakefile", "workflow/rules"] if in_clone() else []
    stage: dict[str, Any] = {
        "desc": "Write a digest of what each stage does: its commands, its code and its config.",
        "wdir": "../" * len(where.parent.parts),
        "cmd": f"ff-memories sources{run.option}",
        "deps": _Row([*sources, *run.files]),
        "outs": [{str(run.sources_yaml): _Brief({"cache": False, "persist": True})}],
    }
    if not sources:
        stage["always_changed"] = True  # DVC doesn't see the installed package
    return {run.dvc_yaml: _yaml(declaration(run, every)), where: _yaml({"stages": {"sources": stage}})}


def write(run: Run) -> Path:
    """Write what declares a run to DVC; return the path of its dvc.yaml."""
    every = stages(run)
    for path, text in texts(run, every).items():
        write_whole(path, text)
    write_sources(run, every)
    return run.dvc_yaml


def sources(every: dict[str, Stage]) -> str:
    """Return the text of the ``sources.yaml`` of a run's stages."""
    return OF_SOURCES + yaml.safe_dump(digests(every.values()))


def write_sources(run: Run, every: dict[str, Stage]) -> None:
    """Write a run's ``sources.yaml``."""
    write_whole(run.sources_yaml, sources(every))


def check(run: Run, every: dict[str, Stage] | None = None) -> dict[str, Stage]:
    """Return a run's stages; raise ``UserError`` if dvc.yaml does not match the Snakefile."""
    every = every or stages(run)
    for path, new in texts(run, every).items():
        if not path.exists() or path.read_text(encoding="utf-8") != new:
            raise UserError(f"{path} does not match the Snakefile", f"run ff-memories dvc-yaml{run.option}")
    return every


def dvc(*arguments: str) -> str:
    """Run a DVC command and return its output. Raises ``UserError`` with DVC's message if it fails."""
    command: list[str | Path] = [Path(sys.executable).with_name("dvc"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        message = (done.stderr or done.stdout).partition("Having any troubles?")[0].strip()
        hint = "if no DVC is running here, run rm .dvc/tmp/rwlock" if "rwlock" in message else None
        raise UserError(f"dvc {arguments[0]}: {message}", hint)
    return done.stdout


def begin() -> None:
    """Make the working folder a DVC project, unless it is one; to DVC, no mark of Snakemake's is part of an output."""
    if not Path(".dvc").is_dir():
        dvc("init", "--quiet", *([] if Path(".git").exists() else ["--no-scm"]))
        dvc("config", "core.analytics", "false")
    _add(Path(".dvcignore"), "/.snakemake", ".snakemake_timestamp")


def look_at(run: Run) -> None:
    """Make DVC look at a run from now on, which ``.dvcignore`` hides until somebody works on it in this checkout."""
    if not run.is_default:
        _add(LOOKED_AT, f"!/{run.config.run}/")


def _add(file: Path, *wanted: str) -> None:
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    if new := [line for line in wanted if line not in lines]:
        write_whole(file, "\n".join([*lines, *new]) + "\n")

"""What the Snakefile does with all rules, and what they pass to their steps."""

import json
import math
import os
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from ff_memories import config as configs
from ff_memories import declaration
from ff_memories.base import arithmetic, machine
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.workflow import code_digest
from ff_memories.workflow.opening import BESIDE
from ff_memories.workflow.run import Run

OF_SHARD = re.compile(r"/shards/\w+/\d+-of-\d+/")  # in a path
SMALL = 100_000_000  # bytes of a model's files: on a smaller one, only the search for triggers takes long enough to cut


def step_params(run: Run, name: str, *keys: str) -> dict[str, Any]:
    """Return a rule's ``params``: what its step depends on besides its inputs.

    ``config`` has the declared sections as JSON for the step, and ``code`` is a digest of the step's code. Snakemake
    compares these values with its records, and DVC by ``sources.yaml``; ``config.watched`` gives the sections' names.
    In a rule with a wildcard ``model``, a model of the baselines has their sizes of samples. ``keys``: sections of the
    config, or single keys of one, with blanks between them; ``-values.target`` leaves out a key. Raises ``UserError``
    if the step reads a section that its rule does not pass.
    """
    words = " ".join(keys).split()
    keys, left_out = (tuple(w.lstrip("-") for w in words if w.startswith("-") == out) for out in (False, True))
    looks_at_all = {"triggers"} if run.config.triggers.keys is None else set()
    if missing := declaration.sections(name) - {key.partition(".")[0] for key in keys} - looks_at_all:
        raise UserError(f"the rule of the step {name} does not pass {', '.join(sorted(missing))}", "add it to the rule")

    def sections(wildcards: Any) -> str:
        every, part = run.resolved, dict[str, Any]()
        if getattr(wildcards, "model", ""):
            every = run.config.baselines.of_a_model(every)
        for section, _, key in (key.partition(".") for key in keys):
            if isinstance(whole := every[section], dict):
                some = {k: v for k, v in whole.items() if key in ("", k) and f"{section}.{k}" not in left_out}
                part.setdefault(section, {}).update(some)
            else:
                part[section] = whole
        return json.dumps(part, sort_keys=True)

    # no value of params: Snakemake would compare it, and rerun all if the config gives a section its defaults
    sections.watched = partial(_watched, run, keys, left_out)  # type: ignore[attr-defined]
    return {"config": sections, "code": lambda wildcards: code_digest.digest(name)}


def _watched(run: Run, keys: tuple[str, ...], left_out: tuple[str, ...], model: str | None) -> list[str]:
    """Return the keys that are in the config file, and ``fidelity`` if it may set one; ``model``: of the baselines."""
    set_by_fidelity = {path.partition(".")[0] for path in configs.FIDELITY["paper"]}
    watched = set[str]()
    for key in (*keys, "baselines") if model else keys:
        section, _, within = key.partition(".")
        given = run.given.get(section) or {}
        if any(one.startswith(f"{key}.") for one in left_out):
            watched |= {f"{section}.{one}" for one in given}.difference(left_out)
        elif section in run.given and (not within or within in given):
            watched.add(key)
        if section in set_by_fidelity:
            watched.add("fidelity")
    return sorted(watched)


def computes_on_cpu(run: Run, executor: Any) -> bool:
    """Return whether steps that run the model use this machine's CPU, and so need not wait for a GPU.

    ``executor``: Snakemake's executor plugin. Jobs on a cluster may have a GPU even if this machine has none.
    """
    local = executor is None or executor.common_settings.local_exec
    return local and (run.config.execution.device == "cpu" or not machine.gpu_present())


def cuts_all_steps(run: Run) -> bool:
    """Return whether all steps that run the model are cut into shards, and not only the search for triggers."""
    sizes = [Path(path).stat().st_size for path in run.inputs.model_files if Path(path).is_file()]
    return run.config.execution.shards != "auto" or not sizes or sum(sizes) > SMALL


def at_once(run: Run, workflow: Any) -> int:
    """Return how many jobs that run the model this machine's CPU does at once; 1 if they run elsewhere."""
    if not computes_on_cpu(run, workflow.executor_plugin):
        return 1
    cores = workflow.resource_settings.cores or 1
    return max(1, int(cores) // arithmetic.threads_of_a_job(run.config.execution.arithmetic, int(cores)))


def scatter(run: Run, workflow: Any) -> dict[str, int]:
    """Return how many shards of the text and of every model of the baselines there are, and tokens of a batch.

    ``execution.shards: auto`` gives a job to all cores, GPUs or jobs of a cluster that Snakemake may use at once.
    """
    limits, gpu = workflow.resource_settings, workflow.global_resources.get("gpu")
    on_cpu = computes_on_cpu(run, workflow.executor_plugin)
    elsewhere = (gpu is not None and gpu.value) or limits.nodes or limits.cores or 1
    shards = run.config.execution.shards_for(at_once(run, workflow) if on_cpu else elsewhere)
    numbers = {"corpus": shards, "baselines": math.ceil(shards / len(run.config.baselines.names))}
    return numbers | {"batch_tokens": run.config.execution.tokens} | dict(limits.overwrite_scatter)


def refuse_bad_sample(run: Run) -> None:
    """Raise ``UserError`` for a bad ``sample_file``, before any job starts."""
    given = run.config.composition.sample_file
    if given is not None and os.path.exists(given):
        from ff_memories.corpus import sample  # polars is slow to import, and every job reads this module

        list(sample.records(Path(given)))


def run_of_module(config: dict[str, Any], write: bool) -> Run:
    """Return the run of a config that somebody's own workflow gives, written where commands look for it."""
    path = Path("results", configs.parse(config, "the module's config").run, BESIDE)
    if write:
        write_whole(path, yaml.safe_dump(json.loads(json.dumps(configs.joined(config))), sort_keys=False))
    return Run(config, str(path))


def complete(rules: Iterable[Any], logs: str) -> None:
    """Give every rule what all rules have, in the same way.

    In ``params``, the names of its inputs, so it reruns if it reads other files: Snakemake's own triggers would also
    react to the number of shards. A rule that joins these has their rule's names. If it has a command, a log that is
    named after it, in the folder ``logs`` or one that a job's wildcards name, and the environment that ``--sdm conda``
    makes.

    An input's rule is found by its path alone, even if the input is ``rules.X.output``: else Snakemake runs X even if
    ``--allowed-rules`` excludes it, as where a pulled table is older than its inputs. So a stage of ``dvc.yaml`` runs
    only its own rules.
    """
    named = {rule.name: rule for rule in rules}
    for rule in named.values():
        made_from = named.get(rule.name.removesuffix("_joined"), rule)
        rule.set_params(
            reads=lambda wildcards, rule=made_from: " ".join(sorted(_inputs(rule, wildcards))),
            tables=lambda wildcards, rule=made_from: _declarations(rule, wildcards),
            command=lambda wildcards, rule=made_from: rule.shellcmd or "",
        )
        rule.dependencies.clear()
        if rule.shellcmd:
            rule.conda_env = "../envs/environment.yaml"  # from the rule's file
        if rule.shellcmd and not rule.log:
            folders = {"model": "{model}", "shard": "{shard}"}  # whose values end with a slash
            folder_of_job = "".join(folders.get(name, f"{{{name}}}/") for name in sorted(rule.wildcard_names))
            rule.log_modifier = rule.output_modifier
            rule.set_log(f"{logs}/{folder_of_job}{rule.name}.log")


def words(rules: Iterable[Any]) -> dict[str, str]:
    """Return {rule: the first line of its docstring}, for a logger that says what a job does."""
    return {rule.name: rule.docstring.strip().partition("\n")[0] for rule in rules if rule.docstring}


def _inputs(rule: Any, wildcards: Any) -> set[str]:
    """Return the files that a job reads; of a rule that joins shards, those that the shards are made from."""
    files = rule.expand_input(type(wildcards)(fromdict={"shard": "", **dict(wildcards.items())}))[0]
    return {str(file) for file in files if not OF_SHARD.search(str(file))}


def _declarations(rule: Any, wildcards: Any) -> str:
    """Return the digests of the declarations of the tables that a job reads and writes."""
    digests = code_digest.declarations()
    files = {*_inputs(rule, wildcards), *map(str, rule.output)}
    paths = [Path(file) for file in files if file.endswith(".parquet")]
    named = {"counts" if path.parent.name == "counts" else path.stem for path in paths}
    return " ".join(f"{name}:{digests[name][:8]}" for name in sorted(named & digests.keys()))

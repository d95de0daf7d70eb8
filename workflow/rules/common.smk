# One run's config, checked before anything starts. All logic is in ff_memories.workflow.runs.run.
import os
import sys
from pathlib import Path

from ff_memories.config import read_yaml
from ff_memories.base.errors import UserError
from ff_memories.base.hardware.machine import IN_LOG
from ff_memories.base.progress import TERMINAL, share_terminal
from ff_memories.declaration import command
from ff_memories.figures.registry import DRAWN, FIGURES, title
from ff_memories.patterns.forms.sheets import SHEETS
from ff_memories.report.excerpts import EXCERPTS
from ff_memories.report.gallery import TABLES as GALLERY_TABLES
from ff_memories.workflow.jobs import only_read
from ff_memories.workflow.runs.lacking import said, when_nothing_is_done
from ff_memories.workflow.runs.run import (
    Run,
    find_producers_by_path,
    name_environment,
    name_inputs,
    use_tools_of_this_environment,
    words,
)
from ff_memories.workflow.runs.run_names import doubts, keep, refuse_taken
from ff_memories.workflow.snakemake_metadata import refuse_edited, remove_not_own
from ff_memories.workflow.terminal_logger import brief
from snakemake.exceptions import WorkflowError

logger.addFilter(brief)

if workflow.config_settings.config:
    raise WorkflowError(
        "--config: not supported, because one config file describes a run; edit the file, or give another with "
        "--configfile"
    )
if len(workflow.config_settings.configfiles) > 1:
    raise WorkflowError(
        "--configfile: give only one config file; a run cannot merge several"
    )
if not workflow.config_settings.configfiles:

    configfile: "config/config.yaml"


try:
    read_yaml(
        Path(workflow.configfiles[-1])
    )  # refuses duplicate keys; Snakemake would use the last one
    run_ = Run(config, str(workflow.configfiles[-1]))
    if workflow.is_main_process:
        if not only_read():
            refuse_taken(run_.config, run_.file)
            for line in run_.check_inputs() + doubts(run_.config, run_.file):
                logger.warning(line)
        if not only_read() and not run_.inside_dvc:
            when_nothing_is_done(logger, lambda: said(workflow, run_), run_.where)
except UserError as error:
    raise WorkflowError(str(error))

use_tools_of_this_environment()
if TERMINAL not in os.environ:  # `ff-memories run` shows jobs' progress itself
    share_terminal()
# Snakemake's own strict mode; with the variable, a step logs its machine
shell.prefix(f"set -euo pipefail; export {IN_LOG}=1; ")


if workflow.is_main_process:  # which tells its jobs on other machines
    workflow.resource_settings.overwrite_scatter = run_.scatter(workflow)


scattergather:
    corpus=1,
    baselines=1,


def all_shards(of, *files):
    """Return every shard of some files; Snakemake's own `gather` takes one file."""
    every = getattr(gather, of)
    return [path for file in files for path in every(file, allow_missing=True)]


# the tables that the claims need, and the steps that write counts
CLAIM_TABLES = [
    "triggers",
    "mutations",
    "values",
    "examples",
    "composition",
    "refinement",
    "annotations",
    "pattern_labels",
    "distance_labels",
    "causal",
    "removals",
]
SHOWN = [*FIGURES, "sensitivity"] if run_.measures_choices else list(FIGURES)
COUNTED = [
    "corpus",
    "triggers",
    "mutations",
    "composition",
    "causal",
    "removals",
    "proxy",
    "patterns",
]
SECTIONS = [
    name
    for name in run_.resolved
    if name not in ("execution", "figures", "sensitivity", "sources")
]


def on_cpu():
    """Return whether steps that run the model use this machine's CPU."""
    return run_.computes_on_cpu(workflow.executor_plugin)


def compute_threads(wildcards):
    """Return the number of CPU threads for a step that runs the model."""
    return 1 if on_cpu() and run_.config.execution.arithmetic == "portable" else 4


def memory(wildcards, attempt, rulename):
    """Return the megabytes of memory that a job takes, by the plan's estimate; more where it failed before."""
    return attempt * run_.memory(rulename)


def execution():
    """Return how to run steps that use the model, as resources, because no result depends on them."""
    chosen = run_.config.execution
    return dict(
        gpu=lambda wildcards: 0 if on_cpu() else 1,
        mem_mb=memory,
        device=chosen.device,
        batch_tokens=chosen.tokens,  # the same for all jobs, which cut their work by it
        arithmetic=chosen.arithmetic,
    )


def registry():
    """Return the registry of sources that the config names, if any."""
    other = run_.config.sources.registry
    return [other] if other else []


def training_runs(pattern):
    """Return a path of each run over the GPT-2's training. Only these runs need the recipe, which names their steps."""
    recipe = read_yaml(Path(workflow.basedir) / "config/demo_gpt2_model.yaml")
    return expand(pattern, updates=recipe["checkpoints"])

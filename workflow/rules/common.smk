# One run: its config, checked before anything starts. All logic is in ff_memories.workflow.run.
from pathlib import Path

from ff_memories.config import read_yaml
from ff_memories.base.errors import UserError
from ff_memories.base.progress import share_terminal
from ff_memories.declaration import command
from ff_memories.figures.registry import DRAWN, FIGURES, title
from ff_memories.patterns.forms.sheets import SHEETS
from ff_memories.workflow.at_work import heed_dvc, take_over
from ff_memories.workflow.processes import STARTED_BY
from ff_memories.workflow.records import refuse_edited
from ff_memories.workflow.stages import only_read
from ff_memories.workflow.run import (
    Run,
    find_producers_by_path,
    name_inputs,
    use_tools_of_this_environment,
)
from snakemake.exceptions import WorkflowError

if workflow.config_settings.config:
    raise WorkflowError(
        "--config: a run is one config file; change it, or give another with --configfile"
    )
if len(workflow.config_settings.configfiles) > 1:
    raise WorkflowError("--configfile: a run is one config file, not several merged")
if not workflow.config_settings.configfiles:

    configfile: "config/config.yaml"


try:
    read_yaml(
        Path(workflow.configfiles[-1])
    )  # Snakemake lets the last of equal keys win
    run_ = Run(config, str(workflow.configfiles[-1]))
    heed_dvc(run_.inside_dvc, workflow.is_main_process)
    if workflow.is_main_process:
        if not only_read():
            for line in run_.check_inputs():
                logger.warning(line)
        take_over()
except UserError as error:
    raise WorkflowError(str(error))

use_tools_of_this_environment()
share_terminal()
# Snakemake's own strictness, and a step's log begins with the machine it ran on
shell.prefix(f"set -euo pipefail; export {STARTED_BY}=$PPID; ")


scattergather:
    corpus=run_.config.execution.shards,


# all that claims are judged by, and the steps that count what they left out
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
]
SHOWN = [*FIGURES, "sensitivity"] if run_.measures_choices else list(FIGURES)
COUNTED = ["corpus", "triggers", "mutations", "composition", "proxy", "patterns"]
SECTIONS = [
    name
    for name in run_.resolved
    if name not in ("execution", "figures", "sensitivity", "sources")
]


def on_cpu():
    """Whether the steps that run the model do so on this machine's CPU."""
    return run_.computes_on_cpu(workflow.executor_plugin)


def compute_threads(wildcards):
    """CPU threads of a step that runs the model."""
    return 1 if on_cpu() and run_.config.execution.arithmetic == "portable" else 4


def execution():
    """How steps that run the model are carried out: resources, for no result depends on them."""
    chosen = run_.config.execution
    return dict(
        gpu=lambda wildcards: 0 if on_cpu() else 1,
        device=chosen.device,
        batch_tokens=chosen.batch_tokens,
        arithmetic=chosen.arithmetic,
    )


def registry():
    """Another registry of sources, where the config names one."""
    other = run_.config.sources.registry
    return [other] if other else []

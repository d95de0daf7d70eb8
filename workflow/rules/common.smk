# One run: its config, checked before anything starts. All logic is in ff_memories.workflow.
import os
import sys

from ff_memories.errors import UserError
from ff_memories.figures.catalogue import FIGURES
from ff_memories.workflow import Run
from snakemake.exceptions import WorkflowError

if not workflow.config_settings.configfiles:

    configfile: "config/config.yaml"


if workflow.config_settings.config:
    raise WorkflowError(
        "--config: a run is one config file; change it, or give another with --configfile"
    )
if len(workflow.config_settings.configfiles) > 1:
    raise WorkflowError("--configfile: a run is one config file, not several merged")
try:
    run_ = Run(
        config, str(workflow.configfiles[-1]) if workflow.configfiles else "config"
    )
except UserError as error:
    raise WorkflowError(str(error))

# the tools of the environment that runs Snakemake, whether or not it is activated
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]

# all that claims are judged by, and the steps that count what they left out
CLAIM_TABLES = [
    "triggers",
    "mutations",
    "values",
    "examples",
    "composition",
    "refinement",
] + ["annotations", "pattern_labels", "distance_labels"]
SECTIONS = [name for name in run_.resolved if name not in ("execution", "figures")]
COUNTED = ["corpus", "triggers", "mutations", "composition", "patterns"]


def execution():
    """How steps that run the model are carried out: resources, for no result depends on them."""
    chosen = run_.config.execution
    return dict(gpu=1, device=chosen.device, batch_tokens=chosen.batch_tokens)

# One run's config, checked before anything starts. All logic is in ff_memories.workflow.
import os
import sys
import webbrowser
from functools import partial
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from ff_memories.config import read_yaml
from ff_memories.base import arithmetic, machine
from ff_memories.base.errors import UserError
from ff_memories.base.files import home
from ff_memories.base.machine import IN_LOG
from ff_memories.base.progress import TERMINAL, share_terminal
from ff_memories.declaration import command
from ff_memories.figures.registry import DRAWN, FIGURES, by_section, title
from ff_memories.plan import costs
from ff_memories.workflow import code_digest, constraints, job_server, jobs
from ff_memories.workflow import rules as all_rules
from ff_memories.report import outcome
from ff_memories.report.tables123 import EXCERPTS
from ff_memories.report.gallery import TABLES as GALLERY_TABLES
from ff_memories.tables import TABLES
from ff_memories.workflow.jobs import only_read
from ff_memories.workflow.private_api import remember_checksums
from ff_memories.workflow.opening import refuse_taken
from ff_memories.workflow.run import Run
from ff_memories.workflow.terminal_logger import after_nothing, brief
from snakemake.exceptions import WorkflowError
from snakemake.io import strip_wildcard_constraints

INSIDE_DVC = "DVC_STAGE" in os.environ  # as a stage of `dvc repro`

IN_MODULE = not workflow.modifier.is_main_snakefile()  # of somebody's own workflow

if workflow.config_settings.config and not IN_MODULE:
    raise WorkflowError(
        "--config: not supported, because one config file describes a run; edit the file, or give another with "
        "--configfile"
    )
if len(workflow.config_settings.configfiles) > 1 and not IN_MODULE:
    raise WorkflowError(
        "--configfile: give only one config file; a run cannot merge several"
    )
if not workflow.config_settings.configfiles:

    configfile: "config/config.yaml"


if workflow.is_main_process:
    remember_checksums()

try:
    if workflow.is_main_process and (other := constraints.unmet()):
        raise UserError(f"ff-memories needs {other}", "install it with pip")
    if IN_MODULE:
        run_ = all_rules.run_of_module(config, workflow.is_main_process)
    else:
        read_yaml(
            Path(workflow.configfiles[-1])
        )  # refuses duplicate keys; Snakemake would use the last one
        run_ = Run(config, str(workflow.configfiles[-1]))
    if workflow.is_main_process and not only_read.get():
        refuse_taken(run_)
        all_rules.refuse_bad_sample(run_)
        for line in run_.inputs.missing:
            logger.warning(f"{run_.file}: {line}")
        if not (INSIDE_DVC or {"-t", "--touch"} & {*sys.argv}):
            jobs.refuse_replaced(run_)
except UserError as error:
    raise WorkflowError(str(error))


logger.addFilter(brief)
if workflow.is_main_process and not (only_read.get() or INSIDE_DVC or IN_MODULE):
    logger.addFilter(after_nothing(lambda: outcome.where(Path(run_.results))))

# the tools of this environment, even if it is not activated
os.environ |= {
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()])
}
# where torch has no bytecode, as in some containers, each job would compile it anew, and transformers
if not Path(cache_from_source(find_spec("torch").origin)).exists():
    os.environ |= {
        "PYTHONPYCACHEPREFIX": os.path.abspath(".snakemake/bytecode"),
        "PYTHONDONTWRITEBYTECODE": "",
    }
if TERMINAL not in os.environ:  # `ff-memories run` shows jobs' progress itself
    share_terminal()
# Snakemake's own strict mode; with the variable, a step logs its machine
shell.prefix(f"set -euo pipefail; export {IN_LOG}=1; ")


# a module of ours before this one has filled in what --set-scatter leaves out
SET_SCATTER = workflow.resource_settings.overwrite_scatter
CUT = bool(vars(workflow).setdefault("set_scatter", SET_SCATTER))
if workflow.is_main_process:  # which tells its jobs on other machines
    workflow.resource_settings.overwrite_scatter = all_rules.scatter(run_, workflow)
# the same for all jobs, which cut their work by it, whatever GPU each has
TOKENS = run_.config.execution.batch_tokens
if TOKENS == "auto":
    TOKENS = workflow.resource_settings.overwrite_scatter["batch_tokens"]


scattergather:
    corpus=1,
    baselines=1,


step_params = partial(all_rules.step_params, run_)
# the golden checks of a named checkpoint: their outputs, for rules that wait for them; the triggers' on a whole text
GOLDEN = [run_.path("golden", "golden.json")] if run_.inputs.test_text else []
WHOLE_TEXT = run_.config.corpus.train.max_sentences is None
GOLDEN_TRIGGERS = (
    [run_.path("golden", "triggers.json")] if GOLDEN and WHOLE_TEXT else []
)
# the config's keys that say which memories a run looks at, and which its gallery shows; none where it is all
SAMPLING = () if run_.config.triggers.keys is None else ("seed", "triggers")
# spaCy takes hours on one core
CUTS_BY_SPACY = run_.config.corpus.segmenter.startswith("spacy:")
MEASURES_CHOICES = run_.config.sensitivity.choices != "none"
# the models of the baselines; what is measured on a model lies in its folder, the run's own in the run's
MODELS = run_.config.baselines.names


wildcard_constraints:
    model=r"(models/[^/]+/)?",
    shard=r"(shards/\w+/\d+-of-\d+/)?",


def of_model(path):
    """Return a file of the run's own model, or of a model of the baselines, as the wildcard says."""
    return run_.path(f"{{model}}{path}")


def shard_of(path):
    """Return one shard of such a file, or all of it."""
    return run_.path(f"{{model}}{{shard}}{path}")


def of_models(*tables):
    """Return some tables of every model of the baselines."""
    return expand(
        run_.path("models", "{model}", "{table}.parquet"),
        model=MODELS,
        table=[f"{'proxy' if name in LABELS else 'tables'}/{name}" for name in tables],
    )


def description(wildcards):
    """Return the description of a job's model."""
    folder = wildcards.model or "model/"
    if wildcards.model and wildcards.model.split("/")[1] not in MODELS:
        raise WorkflowError(
            f"{run_.path(wildcards.model)}: {run_.file} has no such model; it has {', '.join(MODELS)}: name one of them, or set baselines.models"
        )
    return run_.path(f"{folder}model.json")


def text(wildcards):
    """Return the text that a job's model is measured on: of a model of the baselines, a sample."""
    return run_.path(
        "models/sample.safetensors" if wildcards.model else "corpus/corpus.safetensors"
    )


def shards(step, model):
    """Return the shards of a step's work on a model; none if one job does all of it.

    Their folder is named after what cuts the work: shards of batches of other sizes don't fit together.
    """
    whole = step != "triggers" and not (CUT or all_rules.cuts_all_steps(run_))
    every = (
        []
        if whole
        else getattr(gather, "baselines" if model else "corpus")("{scatteritem}")
    )
    cut = "blocks" if step == "triggers" and not model else TOKENS
    return [f"shards/{cut}/{item}/" for item in every] if len(every) > 1 else []


def join_shards(step):
    """Declare the rule that joins the shards of a step's files, if there are any."""
    of = getattr(rules, step).rule
    of.set_params(joined=lambda wildcards: code_digest.digest("join"))
    made = [strip_wildcard_constraints(file) for file in of.output]
    models = [
        "(?:)" if shards(step, "") else None,  # the run's own
        "models/[^/]+/" if shards(step, "any") else None,
    ]
    if any(model is not None for model in models):
        workflow.ruleorder(f"{step}_joined", step)

        rule:
            """Join the shards of a step's files."""
            name:
                f"{step}_joined"
            input:
                shards=lambda wildcards: expand(
                    made,
                    model=wildcards.model,
                    shard=shards(step, wildcards.model),
                ),
            output:
                [file.replace("{shard}", "") for file in made],
            wildcard_constraints:
                model="|".join(model for model in models if model is not None),
            params:
                **dict(of.params.items()),
            shell:
                command("join")


# the tables of models of the baselines that claims are measured on, the labels among them, and those of the run's own
OF_MODELS = [name for name, table in TABLES.items() if table.of_baselines]
LABELS = [name for name in OF_MODELS if not TABLES[name].measured]
CLAIM_TABLES = ["triggers", *OF_MODELS]
SHOWN = [*FIGURES, "sensitivity"] if MEASURES_CHOICES else list(FIGURES)
# the steps that write counts
COUNTED = "corpus triggers mutations composition causal removals proxy patterns".split()
SECTIONS_OF_FIGURES = by_section(SHOWN)
SECTIONS = [
    name
    for name in run_.resolved
    if name not in ("execution", "figures", "sensitivity", "sources")
]


def on_cpu():
    """Return whether steps that run the model use this machine's CPU."""
    return all_rules.computes_on_cpu(run_, workflow.executor_plugin)


if on_cpu() and "mem_mb" not in workflow.global_resources:  # jobs wait for memory
    workflow.register_resource("mem_mb", int(machine.memory() / 1e6))


def compute_threads(wildcards):
    """Return the number of CPU threads for a step that runs the model."""
    kind = run_.config.execution.arithmetic if on_cpu() else "fast"
    return arithmetic.threads_of_a_job(kind, arithmetic.FAST_THREADS)


def memory(wildcards, attempt, rulename):
    """Return the megabytes of memory that a job takes, by the plan's estimate; more where it failed before."""
    model = costs.OF_A_BASELINE if getattr(wildcards, "model", "") else ""
    described, texts = Path(run_.path("model", "model.json")), run_.inputs.texts(
        "train"
    )
    return attempt * costs.megabytes(
        run_.config,
        described,
        run_.inputs.model_files,
        texts,
        rulename + model,
        all_rules.at_once(run_, workflow),
    )


def shard_number(wildcards):
    """Return a job's shard: 1-of-4."""
    return Path(getattr(wildcards, "shard", "") or "1-of-1").name


def used_by(figures, what):
    """Return the tables, or sections of the config, that some figures are drawn from."""
    return sorted({used for name in figures for used in getattr(DRAWN[name], what)})


def execution():
    """Return how to run steps that use the model, as resources, because no result depends on them."""
    chosen = run_.config.execution
    return dict(
        gpu=lambda wildcards: 0 if on_cpu() else 1,
        mem_mb=memory,
        shard=shard_number,
        device=chosen.device,
        batch_tokens=TOKENS,
        arithmetic=chosen.arithmetic,
    )


def registry():
    """Return the registry of sources that the config names, if any."""
    other = run_.config.sources.registry
    return [other] if other else []


def given_sample(*files):
    """Return files that a given sample is read with; no files where a sample is drawn, as for other models always."""
    given = run_.config.composition.sample_file is not None
    return lambda wildcards: list(files) if given and not wildcards.model else []

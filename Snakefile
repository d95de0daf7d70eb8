# "Transformer Feed-Forward Layers Are Key-Value Memories", step by step.
from snakemake.utils import min_version

min_version("9.27")


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/sources.smk"
include: "workflow/rules/model.smk"
include: "workflow/rules/corpus.smk"
include: "workflow/rules/triggers.smk"
include: "workflow/rules/golden.smk"
include: "workflow/rules/mutations.smk"
include: "workflow/rules/values.smk"
include: "workflow/rules/composition.smk"
include: "workflow/rules/baselines.smk"
include: "workflow/rules/interventions.smk"
include: "workflow/rules/patterns.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/sensitivity.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/gallery.smk"
include: "workflow/rules/atlas.smk"


localrules:
    all,


rule all:
    default_target: True
    input:
        rules.claims.output,
        rules.report.output,
        rules.gallery.output,
        rules.excerpts.output,
        run_.figures(*SHOWN),
        run_.tables(*CLAIM_TABLES),
        of_models(*OF_MODELS),
        GOLDEN_TRIGGERS,
    message:
        "All results of the run are there."


all_rules.name_inputs(workflow.rules)
all_rules.name_environment(workflow.rules)
all_rules.name_logs(workflow.rules, run_.path("logs"))
all_rules.find_producers_by_path(workflow.rules)
if workflow.is_main_process and INSIDE_DVC and not only_read():
    remove_not_own(sys.argv)
if workflow.is_main_process:
    all_rules.refuse_read_only(Path.cwd())
    logger.info("", extra={"words": all_rules.words(workflow.rules)})


onstart:
    all_rules.refuse_read_only(
        "results", run_.results, *Path(run_.results).glob("*/")
    )
    if not INSIDE_DVC:  # inside DVC, DVC has compared all inputs with its lock
        refuse_edited(workflow)


onsuccess:
    if not INSIDE_DVC:
        # times and memory change from run to run, so their page is not an output of a rule
        if Path(run_.path("logs")).is_dir():
            shell(
                "FF_MEMORIES_IN_LOG= ff-memories step cost --logs {0}/logs --out {0}/report/cost.html".format(
                    run_.results
                )
            )
        if said := outcome.outcome(Path(run_.results)):
            logger.info(said, extra={"own": True})
        if said := missing_outputs.say(workflow, run_):
            logger.warning(said)
    if os.environ.get(outcome.OPEN):
        webbrowser.open(Path(run_.path("report/report.html")).resolve().as_uri())

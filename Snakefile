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
include: "workflow/rules/benchmark.smk"
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
        run_.golden_triggers,
    message:
        "All results of the run are there."


name_inputs(workflow.rules)
name_environment(workflow.rules)
name_logs(workflow.rules, run_.path("logs"))
find_producers_by_path(workflow.rules)
if workflow.is_main_process and run_.inside_dvc and not only_read():
    remove_not_own(workflow.rules, sys.argv)
if workflow.is_main_process:
    run_.check_folder()
    logger.info("", extra={"words": words(workflow.rules)})


onstart:
    run_.check_outputs()
    keep(run_.config, run_.file)
    if not run_.inside_dvc:  # inside DVC, DVC has compared all inputs with its lock
        refuse_edited(workflow)


onsuccess:
    # times and memory change from run to run, so their page is not an output of a rule
    if run_.has_logs and not run_.inside_dvc:
        shell(
            "FF_MEMORIES_IN_LOG= ff-memories step cost --logs {0}/logs --out {0}/report/cost.html".format(
                run_.results
            )
        )
    if not run_.inside_dvc and (outcome := run_.outcome()):
        logger.info(outcome, extra={"own": True})
    if not run_.inside_dvc and (lines := said(workflow, run_)):
        logger.warning(lines)
    run_.show_report()

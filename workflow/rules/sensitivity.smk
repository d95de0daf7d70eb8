# How each choice that the paper leaves open affects each claim.
from ff_memories.judge.sensitivity import parts

EXTENT = run_.config.sensitivity.choices if MEASURES_CHOICES else "all"


rule sensitivity_part:
    """Measure the claims with some choices changed; unaffected files come from the run."""
    input:
        claims=rules.claims.output.claims,
        judged=rules.claims.input,
        model=rules.model.output,
        corpus=rules.corpus.output.corpus,
        others=[rules.corpus.output.sentences, rules.corpus.output.counts],
        inputs=[
            *run_.inputs.model_files,
            *run_.inputs.texts("train"),
            *run_.inputs.texts("validation"),
        ],
    output:
        sensitivity=run_.path("sensitivity", "{part}", "sensitivity.parquet"),
    threads: compute_threads
    resources:
        **execution(),
    params:
        **step_params("sensitivity_part", *SECTIONS),
        configfile=run_.file,
    shell:
        command("sensitivity-part")


rule sensitivity_table:
    """Merge every claim under every choice with the run's own claims."""
    input:
        claims=rules.claims.output.claims,
        parts=expand(
            rules.sensitivity_part.output.sensitivity,
            part=parts(run_.config, EXTENT),
        ),
    output:
        sensitivity=run_.table("sensitivity"),
    params:
        **step_params("sensitivity"),
    shell:
        command("sensitivity")


rule sensitivity:
    """Make the table and the figure of how each choice affects each claim."""
    input:
        rules.sensitivity_table.output,
        run_.figures("sensitivity"),

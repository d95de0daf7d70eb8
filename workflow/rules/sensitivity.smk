# What each choice that the paper leaves open does to each claim.
from ff_memories.claims.sensitivity.choices import parts

EXTENT = run_.config.sensitivity.choices if run_.measures_choices else "all"


rule sensitivity_part:
    """The claims with some choices made otherwise; what they leave alone is taken from the run."""
    input:
        claims=rules.claims.output.claims,
        judged=rules.claims.input,
        model=rules.model.output,
        corpus=rules.corpus.output,
        inputs=[run_.checkpoint, *run_.texts("train"), *run_.texts("validation")],
    output:
        table=run_.path("sensitivity", "{part}", "sensitivity.parquet"),
    log:
        run_.path("logs", "sensitivity", "{part}.log"),
    benchmark:
        run_.path("logs", "sensitivity", "{part}.tsv")
    conda:
        "../envs/environment.yaml"
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step("sensitivity_part", *SECTIONS),
        configfile=run_.file,
    shell:
        "ff-memories step sensitivity-part --configfile {params.configfile:q} --part {wildcards.part} "
        "--corpus {input.corpus[1]} --claims {input.claims} --threads {threads} "
        "--arithmetic {resources.arithmetic} --out {output.table} 2> {log}"


rule sensitivity_table:
    """Every claim under every choice, and the run's own claims."""
    input:
        claims=rules.claims.output.claims,
        parts=expand(
            rules.sensitivity_part.output.table,
            part=parts(run_.config, EXTENT),
        ),
    output:
        table=run_.table("sensitivity"),
    log:
        run_.path("logs", "sensitivity.log"),
    benchmark:
        run_.path("logs", "sensitivity.tsv")
    conda:
        "../envs/environment.yaml"
    params:
        **run_.step("sensitivity"),
    shell:
        "ff-memories step sensitivity --claims {input.claims} --parts {input.parts} --out {output.table} 2> {log}"


rule sensitivity:
    """Table and figure of what each choice does to each claim."""
    input:
        rules.sensitivity_table.output.table,
        expand(rules.figure.output, figure="sensitivity"),
        expand(rules.figure_page.output, figure="sensitivity"),

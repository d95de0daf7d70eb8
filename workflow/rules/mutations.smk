# E3, section 3.2, Figure 3: triggers without their first, last or a random token.


rule mutations:
    """Memory coefficients of mutated triggers."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        triggers=rules.triggers.output.triggers,
    output:
        mutations=run_.table("mutations"),
        counts=run_.path("counts", "mutations.parquet"),
    log:
        run_.path("logs", "mutations.log"),
    benchmark:
        run_.path("logs", "mutations.tsv")
    conda:
        "../envs/environment.yaml"
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step("mutations", "seed", "mutations"),
    shell:
        "ff-memories step mutations --config {params.config:q} --corpus {input.corpus} --triggers {input.triggers} "
        "--weights {input.weights} --description {input.description} "
        "--mutations {output.mutations} --counts {output.counts} "
        "--device {resources.device} --threads {threads} --batch-tokens {resources.batch_tokens} "
        "--arithmetic {resources.arithmetic} 2> {log}"

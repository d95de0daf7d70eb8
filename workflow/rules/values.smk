# E4-E7, section 4, Figures 4-6, Table 2: what values predict.


rule values:
    """Every value's prediction, and its agreement with its key's triggers."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        triggers=rules.triggers.output.triggers,
    output:
        values=run_.table("values"),
    log:
        run_.path("logs", "values.log"),
    benchmark:
        run_.path("logs", "values.tsv")
    conda:
        "../envs/environment.yaml"
    threads: 4
    resources:
        **execution(),
    params:
        **run_.step("values", "values"),
    shell:
        "ff-memories values --config {params.config:q} --corpus {input.corpus} --triggers {input.triggers} "
        "--weights {input.weights} --description {input.description} --values {output.values} "
        "--device {resources.device} --threads {threads} --batch-tokens {resources.batch_tokens} 2> {log}"

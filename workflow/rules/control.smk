# The control of Figures 4, 7, 8 and 9.


rule control:
    """What an untrained model of the same shape shows, on a sample of the text."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
    output:
        control=run_.table("control"),
    log:
        run_.path("logs", "control.log"),
    benchmark:
        run_.path("logs", "control.tsv")
    conda:
        "../envs/environment.yaml"
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step("control", "seed", "values", "composition"),
    shell:
        "ff-memories step control --config {params.config:q} --corpus {input.corpus} --weights {input.weights} "
        "--description {input.description} --control {output.control} "
        "--device {resources.device} --threads {threads} --batch-tokens {resources.batch_tokens} "
        "--arithmetic {resources.arithmetic} 2> {log}"

# The control of Figures 4, 7, 8 and 9.


rule control:
    """What an untrained model of the same shape shows, on a sample of the text."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        dictionary=run_.dictionary,
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
        **run_.step("control", "seed", "values", "composition", "extraction"),
    shell:
        command("control")

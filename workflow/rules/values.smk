# E4-E7, section 4, Figures 4-6, Table 2: what values predict.


rule values:
    """Every value's prediction, and its agreement with its key's triggers."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        triggers=rules.triggers.output.triggers,
        dictionary=run_.dictionary,
    output:
        values=run_.table("values"),
    log:
        run_.path("logs", "values.log"),
    benchmark:
        run_.path("logs", "values.tsv")
    conda:
        "../envs/environment.yaml"
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step("values", "values", "extraction"),
    shell:
        command("values")


rule projection_seeds_table:
    """What random projections, never loaded, do to ranks, seed by seed; only when asked for."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        values=rules.values.output.values,
    output:
        projection_seeds=run_.table("projection_seeds"),
    log:
        run_.path("logs", "projection_seeds.log"),
    benchmark:
        run_.path("logs", "projection_seeds.tsv")
    conda:
        "../envs/environment.yaml"
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step("projection_seeds", "values"),
    shell:
        command("projection-seeds")

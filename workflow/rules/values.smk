# E4-E7, section 4, Figures 4-6, Table 2: the predictions of values.


rule values_shard:
    """Compute the predictions of one shard of the values, and their agreement with their keys' triggers."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        triggers=rules.triggers.output.triggers,
        dictionary=run_.dictionary,
    output:
        values=run_.shard("tables", "values.parquet"),
    log:
        run_.path("logs", "values_shard", "{scatteritem}.log"),
    benchmark:
        run_.path("logs", "values_shard", "{scatteritem}.tsv")
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step("values", "values", "extraction", *run_.sampling),
    shell:
        command("values")


rule values:
    """Compute every value's prediction, and its agreement with its key's triggers."""
    input:
        shards=all_shards("corpus", *rules.values_shard.output),
    output:
        values=run_.table("values"),
    log:
        run_.path("logs", "values.log"),
    benchmark:
        run_.path("logs", "values.tsv")
    params:
        **run_.step("join"),
    shell:
        command("join")


rule projection_seeds_table:
    """Measure how the released script's random projections change ranks, by seed; only on request."""
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
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step("projection_seeds", "values"),
    shell:
        command("projection-seeds")

# E4-E7, section 4, Figures 4-6, Table 2: the predictions of values.


rule values:
    """Compute every value's prediction, and its agreement with its key's triggers."""
    input:
        weights=rules.model.output.weights,
        description=description,
        corpus=text,
        triggers=rules.triggers.output.triggers,
        dictionary=run_.dictionary,
    output:
        values=shard_of("tables/values.parquet"),
    threads: compute_threads
    resources:
        **execution(),
    params:
        **step_params("values", "values extraction", *SAMPLING),
    shell:
        command("values")


join_shards("values")


rule projection_seeds_table:
    """Measure how the released script's random projections change ranks, by seed; only on request."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        values=run_.table("values"),
    output:
        projection_seeds=run_.table("projection_seeds"),
    threads: compute_threads
    resources:
        **execution(),
    params:
        **step_params("projection_seeds", "values"),
    shell:
        command("projection-seeds")

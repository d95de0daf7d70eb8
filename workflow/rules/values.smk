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

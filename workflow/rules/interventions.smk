# Beyond the paper: what changing a memory's coefficient does to the tokens that its value promotes, and what removing
# several memories does to predictions.


rule interventions:
    """Change memories' coefficients, and remove several together, at validation prefixes, and see what follows."""
    input:
        weights=rules.model.output.weights,
        description=description,
        corpus=rules.corpus.output.corpus,
    output:
        causal=shard_of("tables/causal.parquet"),
        removals=shard_of("tables/removals.parquet"),
        causal_counts=shard_of("counts/causal.parquet"),
        removal_counts=shard_of("counts/removals.parquet"),
    threads: compute_threads
    resources:
        **execution(),
    params:
        **step_params(
            "interventions",
            "seed causal removals values.projection values.projection_seed extraction",
            *SAMPLING,
        ),
    shell:
        command("interventions")


join_shards("interventions")

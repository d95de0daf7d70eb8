# E3, section 3.2, Figure 3: triggers without their first, last or a random token.


rule mutations:
    """Compute the memory coefficients of mutated triggers."""
    input:
        weights=rules.model.output.weights,
        description=description,
        corpus=text,
        triggers=rules.triggers.output.triggers,
    output:
        mutations=shard_of("tables/mutations.parquet"),
        counts=shard_of("counts/mutations.parquet"),
    priority: 1  # claims, and then their sensitivity, wait for it longest
    threads: compute_threads
    resources:
        **execution(),
    params:
        **step_params(
            "mutations", "seed mutations -mutations.mean extraction", *SAMPLING
        ),
    shell:
        command("mutations")


join_shards("mutations")

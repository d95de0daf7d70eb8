# E3, section 3.2, Figure 3: triggers without their first, last or a random token.


rule mutations_shard:
    """Compute the memory coefficients of one shard of the mutated triggers."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        triggers=rules.triggers.output.triggers,
    output:
        mutations=run_.shard("tables", "mutations.parquet"),
        counts=run_.shard("counts", "mutations.parquet"),
    log:
        run_.path("logs", "mutations_shard", "{scatteritem}.log"),
    benchmark:
        run_.path("logs", "mutations_shard", "{scatteritem}.tsv")
    priority: 1  # claims, and then their sensitivity, wait for it longest
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step("mutations", "seed", "mutations", "extraction", *run_.sampling),
    shell:
        command("mutations")


rule mutations:
    """Compute the memory coefficients of mutated triggers."""
    input:
        shards=all_shards("corpus", *rules.mutations_shard.output),
    output:
        mutations=run_.table("mutations"),
        counts=run_.path("counts", "mutations.parquet"),
    log:
        run_.path("logs", "mutations.log"),
    benchmark:
        run_.path("logs", "mutations.tsv")
    params:
        **run_.step("join"),
    shell:
        command("join")

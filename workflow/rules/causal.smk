# Beyond the paper: what changing a memory's coefficient does to the tokens that its value promotes, and what removing
# several memories does to predictions.


rule causal_shard:
    """Change one shard of the sampled memories' coefficients at validation prefixes."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
    output:
        causal=run_.shard("tables", "causal.parquet"),
        counts=run_.shard("counts", "causal.parquet"),
    log:
        run_.path("logs", "causal_shard", "{scatteritem}.log"),
    benchmark:
        run_.path("logs", "causal_shard", "{scatteritem}.tsv")
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step("causal", "seed", "causal", "values", "extraction", *run_.sampling),
    shell:
        command("causal")


rule causal:
    """Change memories' coefficients at validation prefixes, and see what follows."""
    input:
        shards=all_shards("corpus", *rules.causal_shard.output),
    output:
        causal=run_.table("causal"),
        counts=run_.path("counts", "causal.parquet"),
    log:
        run_.path("logs", "causal.log"),
    benchmark:
        run_.path("logs", "causal.tsv")
    params:
        **run_.step("join"),
    shell:
        command("join")


rule baseline_causal_shard:
    """Change one shard of sampled memories' coefficients in a model of the baselines."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
    output:
        causal=run_.shard("baselines", "{model}", "causal.parquet"),
    log:
        run_.path("logs", "baseline_causal_shard", "{model}-{scatteritem}.log"),
    benchmark:
        run_.path("logs", "baseline_causal_shard", "{model}-{scatteritem}.tsv")
    wildcard_constraints:
        model="|".join(MODELS),
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step(
            "baseline_causal", "seed", "causal", "values", "extraction", *run_.sampling
        ),
    shell:
        command("baseline-causal")


rule baseline_causal:
    """Change memories' coefficients in a model of the baselines, and see what follows."""
    input:
        shards=all_shards("baselines", *rules.baseline_causal_shard.output),
    output:
        causal=run_.path("baselines", "{model}", "causal.parquet"),
    log:
        run_.path("logs", "baseline_causal", "{model}.log"),
    benchmark:
        run_.path("logs", "baseline_causal", "{model}.tsv")
    wildcard_constraints:
        model="|".join(MODELS),
    params:
        **run_.step("join"),
    shell:
        command("join")


rule removals_shard:
    """Remove memories together at one shard of validation prefixes."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
    output:
        removals=run_.shard("tables", "removals.parquet"),
        counts=run_.shard("counts", "removals.parquet"),
    log:
        run_.path("logs", "removals_shard", "{scatteritem}.log"),
    benchmark:
        run_.path("logs", "removals_shard", "{scatteritem}.tsv")
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step("removals", "seed", "removals", "extraction"),
    shell:
        command("removals")


rule removals:
    """Remove memories together at validation prefixes, and see what follows."""
    input:
        shards=all_shards("corpus", *rules.removals_shard.output),
    output:
        removals=run_.table("removals"),
        counts=run_.path("counts", "removals.parquet"),
    log:
        run_.path("logs", "removals.log"),
    benchmark:
        run_.path("logs", "removals.tsv")
    params:
        **run_.step("join"),
    shell:
        command("join")


rule baseline_removals_shard:
    """Remove memories together at one shard of validation prefixes, in a model of the baselines."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
    output:
        removals=run_.shard("baselines", "{model}", "removals.parquet"),
    log:
        run_.path("logs", "baseline_removals_shard", "{model}-{scatteritem}.log"),
    benchmark:
        run_.path("logs", "baseline_removals_shard", "{model}-{scatteritem}.tsv")
    wildcard_constraints:
        model="|".join(MODELS),
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step("baseline_removals", "seed", "removals", "extraction"),
    shell:
        command("baseline-removals")


rule baseline_removals:
    """Remove memories together in a model of the baselines, and see what follows."""
    input:
        shards=all_shards("baselines", *rules.baseline_removals_shard.output),
    output:
        removals=run_.path("baselines", "{model}", "removals.parquet"),
    log:
        run_.path("logs", "baseline_removals", "{model}.log"),
    benchmark:
        run_.path("logs", "baseline_removals", "{model}.tsv")
    wildcard_constraints:
        model="|".join(MODELS),
    params:
        **run_.step("join"),
    shell:
        command("join")

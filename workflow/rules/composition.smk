# E8-E13, section 5, Figures 7-11: composition of memories and refinement across layers, in one pass.


rule composition_shard:
    """Observe active memories, agreement and refinement at every layer, on one shard of the validation prefixes."""
    input:
        **run_.sample,
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        values=rules.values.output.values,
        dictionary=run_.dictionary,
    output:
        examples=run_.shard("tables", "examples.parquet"),
        composition=run_.shard("tables", "composition.parquet"),
        refinement=run_.shard("tables", "refinement.parquet"),
        counts=run_.shard("counts", "composition.parquet"),
    log:
        run_.path("logs", "composition_shard", "{scatteritem}.log"),
    benchmark:
        run_.path("logs", "composition_shard", "{scatteritem}.tsv")
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step("composition", "seed", "composition", "values", "extraction"),
    shell:
        command("composition")


rule composition:
    """Observe active memories, agreement and refinement at every layer, on validation prefixes."""
    input:
        shards=all_shards("corpus", *rules.composition_shard.output),
    output:
        examples=run_.table("examples"),
        composition=run_.table("composition"),
        refinement=run_.table("refinement"),
        counts=run_.path("counts", "composition.parquet"),
    log:
        run_.path("logs", "composition.log"),
    benchmark:
        run_.path("logs", "composition.tsv")
    params:
        **run_.step("join"),
    shell:
        command("join")


rule agreeing:
    """Count stop words and short prefixes where a memory agrees with its layer, with their base rates, by layer."""
    input:
        composition=rules.composition.output.composition,
        examples=rules.composition.output.examples,
        dictionary=run_.dictionary,
    output:
        agreeing=run_.table("agreeing"),
    log:
        run_.path("logs", "agreeing.log"),
    benchmark:
        run_.path("logs", "agreeing.tsv")
    params:
        **run_.step("agreeing", "composition"),
    shell:
        command("agreeing")

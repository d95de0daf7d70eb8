# E8-E13, section 5, Figures 7-11: composition of memories and refinement across layers, in one pass.


rule composition:
    """Observe active memories, agreement and refinement at every layer, on validation prefixes."""
    input:
        sample=lambda wildcards: [] if wildcards.model else run_.sample["sample"],
        sentences=lambda wildcards: (
            [] if wildcards.model else run_.sample["sentences"]
        ),
        texts=lambda wildcards: [] if wildcards.model else run_.sample["texts"],
        weights=rules.model.output.weights,
        description=description,
        corpus=text,
        values=of_model("tables/values.parquet"),
        dictionary=run_.dictionary,
    output:
        examples=shard_of("tables/examples.parquet"),
        composition=shard_of("tables/composition.parquet"),
        refinement=shard_of("tables/refinement.parquet"),
        counts=shard_of("counts/composition.parquet"),
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step("composition", "seed composition values extraction"),
    shell:
        command("composition")


join_shards("composition")

# E8-E13, section 5, Figures 7-11: composition of memories and refinement across layers, in one pass.


rule composition:
    """Observe active memories, agreement and refinement at every layer, on validation prefixes."""
    input:
        sample=given_sample(run_.config.composition.sample_file),
        sentences=given_sample(run_.table("sentences")),
        texts=given_sample(*run_.inputs.texts("validation")),
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
        **step_params(
            "composition",
            "seed composition -composition.stop_words values -values.target extraction",
        ),
    shell:
        command("composition")


join_shards("composition")

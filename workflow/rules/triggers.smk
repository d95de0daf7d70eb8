# E1, section 3.1: the triggers of every key.


rule trigger_shard:
    """Find every key's top triggers in one shard of the training text."""
    input:
        weights=rules.model.output.weights,
        description=description,
        corpus=text,
    output:
        lists=shard_of("lists.safetensors"),
    threads: compute_threads
    resources:
        **execution(),
    params:
        **step_params("trigger_shard", "triggers extraction", *SAMPLING),
    shell:
        command("trigger-shard")


rule triggers:
    """Find every key's top triggers in the training text, or merge those of its shards."""
    input:
        weights=rules.model.output.weights,
        description=description,
        corpus=text,
        shards=lambda wildcards: expand(
            rules.trigger_shard.output,
            model=wildcards.model,
            shard=shards("triggers", wildcards.model),
        ),
    output:
        triggers=of_model("tables/triggers.parquet"),
        firing=of_model("tables/firing.parquet"),
        counts=of_model("counts/triggers.parquet"),
    threads: compute_threads
    resources:
        **execution(),
    params:
        **step_params("triggers", "triggers extraction", *SAMPLING),
    shell:
        command("triggers")


rule golden_triggers:
    """Check the triggers of keys that the paper shows."""
    input:
        corpus=rules.corpus.output.corpus,
        triggers=run_.table("triggers"),
        dictionary=run_.dictionary,
    output:
        out=GOLDEN_TRIGGERS,
    params:
        **step_params("golden_triggers"),
        source=run_.inputs.fetched("model")["name"],
        registry=registry(),
    shell:
        command("golden-triggers")

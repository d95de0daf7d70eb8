# E1, section 3.1: the triggers of every key.


rule trigger_shard:
    """Find every key's top triggers in one shard of the training text."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
    output:
        lists=run_.path("shards", "{scatteritem}.safetensors"),
    log:
        run_.path("logs", "trigger_shard/{scatteritem}.log"),
    benchmark:
        run_.path("logs", "trigger_shard/{scatteritem}.tsv")
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step("trigger_shard", "triggers", "extraction", *run_.sampling),
    shell:
        command("trigger-shard")


rule triggers:
    """Merge the shards into the table of triggers."""
    input:
        corpus=rules.corpus.output.corpus,
        shards=gather.corpus(run_.path("shards", "{scatteritem}.safetensors")),
    output:
        triggers=run_.table("triggers"),
        firing=run_.table("firing"),
        counts=run_.path("counts", "triggers.parquet"),
    log:
        run_.path("logs", "triggers.log"),
    benchmark:
        run_.path("logs", "triggers.tsv")
    resources:
        mem_mb=memory,
    params:
        **run_.step("triggers", "triggers", *run_.sampling),
    shell:
        command("triggers")

# What is known of a named checkpoint, checked before anything is computed on it.


rule golden:
    """Check the checkpoint: its size, perplexity, and what named values predict."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        dictionary=run_.dictionary,
        test=run_.test_text,
    output:
        run_.golden,
    log:
        run_.path("logs", "golden.log"),
    benchmark:
        run_.path("logs", "golden.tsv")
    conda:
        "../envs/environment.yaml"
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step("golden"),
        name=run_.fetched("model")["name"],
        registry=registry(),
    shell:
        "ff-memories step golden --source {params.name:q} {params.registry:q} --weights {input.weights} "
        "--description {input.description} --dictionary {input.dictionary:q} --test {input.test:q} --out {output} "
        "--device {resources.device} --threads {threads} --batch-tokens {resources.batch_tokens} "
        "--arithmetic {resources.arithmetic} 2> {log}"


rule golden_triggers:
    """Check the triggers of keys that the paper shows."""
    input:
        corpus=rules.corpus.output.corpus,
        triggers=rules.triggers.output.triggers,
        dictionary=run_.dictionary,
    output:
        run_.golden_triggers,
    log:
        run_.path("logs", "golden_triggers.log"),
    benchmark:
        run_.path("logs", "golden_triggers.tsv")
    conda:
        "../envs/environment.yaml"
    params:
        **run_.step("golden_triggers"),
        name=run_.fetched("model")["name"],
        registry=registry(),
    shell:
        "ff-memories step golden-triggers --source {params.name:q} {params.registry:q} --dictionary {input.dictionary:q} "
        "--corpus {input.corpus} --triggers {input.triggers} --out {output} 2> {log}"

# Fetch named sources once, check and unpack them. These jobs need a network, so they run locally even with a cluster.


localrules:
    fetch_text,
    fetch_model,
    fetch_pipeline,


rule fetch_text:
    """Download the text that the config names."""
    output:
        run_.fetched("text")["files"],
    log:
        run_.path("logs", "fetch_text.log"),
    params:
        name=run_.fetched("text")["name"],
        row=run_.fetched("text")["row"],
        registry=registry(),
    shell:
        "ff-memories fetch {params.name:q} --registry {params.registry:q} 2> {log}"


rule fetch_model:
    """Download the checkpoint that the config names, and its dictionary."""
    output:
        run_.fetched("model")["files"],
    log:
        run_.path("logs", "fetch_model.log"),
    params:
        name=run_.fetched("model")["name"],
        row=run_.fetched("model")["row"],
        registry=registry(),
    shell:
        "ff-memories fetch {params.name:q} --registry {params.registry:q} 2> {log}"


rule fetch_pipeline:
    """Download the spaCy pipeline that the config names."""
    output:
        run_.fetched("pipeline")["files"],
    log:
        run_.path("logs", "fetch_pipeline.log"),
    params:
        name=run_.fetched("pipeline")["name"],
        row=run_.fetched("pipeline")["row"],
        registry=registry(),
    shell:
        "ff-memories fetch {params.name:q} --registry {params.registry:q} 2> {log}"


if run_.pinned_on_hub:

    localrules:
        fetch_hub,

    # one job a file: Snakemake removes no other file, which may have been put there by hand
    rule fetch_hub:
        """Fetch a file of the model that the config pins on the Hugging Face hub, and check it."""
        output:
            f"{run_.pinned_on_hub.folder}/{{file}}",
        log:
            run_.path("logs", "fetch_hub", "{file}.log"),
        wildcard_constraints:
            file="[^/]+",
        params:
            model=lambda wildcards: run_.hub_file(wildcards.file),
        shell:
            "ff-memories fetch --hub {params.model:q} 2> {log}"


if run_.gguf:

    localrules:
        convert,

    rule convert:
        """Write the model of a GGUF file as a folder of transformers, in float32, once for all runs."""
        input:
            gguf=list(run_.gguf),
        output:
            run_.model_files,
        log:
            run_.path("logs", "convert.log"),
        params:
            digest=list(run_.gguf.values()),
        shell:
            "ff-memories fetch --gguf {input.gguf:q} --sha256 {params.digest} 2> {log}"

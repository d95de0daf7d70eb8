# Fetch named sources once, check and unpack them. These jobs need a network, so they run locally even with a cluster.


localrules:
    fetch_text,
    fetch_model,
    fetch_hub,
    fetch_pipeline,


rule fetch_text:
    """Download the text that the config names."""
    output:
        run_.fetched("text")["files"],
    log:
        run_.path("logs", "fetch_text.log"),
    conda:
        "../envs/environment.yaml"
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
    conda:
        "../envs/environment.yaml"
    params:
        name=run_.fetched("model")["name"],
        row=run_.fetched("model")["row"],
        registry=registry(),
    shell:
        "ff-memories fetch {params.name:q} --registry {params.registry:q} 2> {log}"


rule fetch_hub:
    """Fetch the files of the model that the config pins on the Hugging Face hub, and check them."""
    output:
        run_.hub_files,
    log:
        run_.path("logs", "fetch_hub.log"),
    conda:
        "../envs/environment.yaml"
    params:
        model=run_.hub_model,
    shell:
        "ff-memories fetch --hub {params.model:q} 2> {log}"


rule fetch_pipeline:
    """Download the spaCy pipeline that the config names."""
    output:
        run_.fetched("pipeline")["files"],
    log:
        run_.path("logs", "fetch_pipeline.log"),
    conda:
        "../envs/environment.yaml"
    params:
        name=run_.fetched("pipeline")["name"],
        row=run_.fetched("pipeline")["row"],
        registry=registry(),
    shell:
        "ff-memories fetch {params.name:q} --registry {params.registry:q} 2> {log}"

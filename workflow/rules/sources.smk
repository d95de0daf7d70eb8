# Fetch named sources once, check and unpack them. These jobs need a network, so they run locally even with a cluster.


for kind in ("text", "model", "pipeline"):

    rule:
        """Download what the config names: a text, a checkpoint with its dictionary, a spaCy pipeline."""
        name:
            f"fetch_{kind}"
        output:
            run_.inputs.fetched(kind)["files"],
        localrule: True
        params:
            name=run_.inputs.fetched(kind)["name"],
            row=run_.inputs.fetched(kind)["row"],
            registry=registry(),
        shell:
            "ff-memories fetch {params.name:q} --registry {params.registry:q} 2> {log}"


if run_.inputs.pinned_on_hub:

    # one job a file: Snakemake removes no other file, which may have been put there by hand
    rule fetch_hub:
        """Fetch a file of the model that the config pins on the Hugging Face hub, and check it."""
        output:
            f"{run_.inputs.pinned_on_hub.folder}/{{file}}",
        wildcard_constraints:
            file="[^/]+",
        localrule: True
        params:
            model=lambda wildcards: run_.inputs.pinned_on_hub.one_file(wildcards.file),
        shell:
            "ff-memories fetch --hub {params.model:q} 2> {log}"


if run_.inputs.gguf:

    rule convert:
        """Write the model of a GGUF file as a folder of transformers, in float32, once for all runs."""
        input:
            gguf=list(run_.inputs.gguf),
        output:
            run_.inputs.model_files,
        localrule: True
        params:
            digest=list(run_.inputs.gguf.values()),
        shell:
            "ff-memories fetch --gguf {input.gguf:q} --sha256 {params.digest} 2> {log}"

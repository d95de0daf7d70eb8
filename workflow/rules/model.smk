# Section 2: the language model as keys and values.


rule model:
    """Convert the fairseq checkpoint to keys and values, safely."""
    input:
        checkpoint=run_.checkpoint,
        dictionary=run_.dictionary,
    output:
        weights=run_.path("model", "model.safetensors"),
        description=run_.path("model", "model.json"),
        info=run_.path("model", "info.json"),
    log:
        run_.path("logs", "model.log"),
    benchmark:
        run_.path("logs", "model.tsv")
    conda:
        "../envs/environment.yaml"
    params:
        **run_.step("model", "model", "corpus", "sources"),
    shell:
        command("model")

# Section 3.1: the text, split into sentences.


rule docstrings:
    """Build the demo corpus: prose from the documentation strings of pinned packages."""
    output:
        train="data/docstrings/train.txt",
        validation="data/docstrings/validation.txt",
        raw_train="data/docstrings/raw_train.txt",
        raw_validation="data/docstrings/raw_validation.txt",
    threads: 4
    params:
        **step_params("docstrings"),
    shell:
        command("docstrings")


rule cut_shard:
    """Split a shard of the texts into sentences with spaCy."""
    input:
        train=run_.inputs.texts("train"),
        validation=run_.inputs.texts("validation"),
        pipeline=run_.inputs.fetched("pipeline")["files"],
    output:
        cuts=run_.path("cuts", "{scatteritem}.safetensors"),
    resources:
        shard=lambda wildcards: wildcards.scatteritem,
    params:
        **step_params(
            "cut_shard",
            "corpus.segmenter corpus.headings corpus.train corpus.validation",
        ),
        raw="raw" if run_.config.model.has_tokenizer else "tokens",
    shell:
        command("cut-shard")


rule cut_shard_all:
    """Gather all shards into one stage for DVC."""
    input:
        gather.corpus(run_.path("cuts", "{scatteritem}.safetensors")),


rule corpus:
    """Split the texts into sentences of token ids."""
    input:
        train=run_.inputs.texts("train"),
        validation=run_.inputs.texts("validation"),
        dictionary=run_.dictionary,
        info=rules.model.output.info,
        golden=GOLDEN,
        cuts=(
            gather.corpus(run_.path("cuts", "{scatteritem}.safetensors"))
            if CUTS_FIRST
            else []
        ),
    output:
        sentences=run_.table("sentences"),
        corpus=run_.path("corpus", "corpus.safetensors"),
        counts=run_.path("counts", "corpus.parquet"),
    params:
        **step_params("corpus", "corpus"),
        cutting=code_digest.digest("cut_shard") if CUTS_FIRST else "",
    shell:
        command("corpus")

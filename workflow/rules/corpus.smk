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


rule corpus:
    """Split the texts into sentences of token ids."""
    input:
        train=run_.inputs.texts("train"),
        validation=run_.inputs.texts("validation"),
        dictionary=run_.dictionary,
        info=rules.model.output.info,
        golden=GOLDEN,
        pipeline=run_.inputs.fetched("pipeline")["files"],
    output:
        sentences=run_.table("sentences"),
        corpus=run_.path("corpus", "corpus.safetensors"),
        counts=run_.path("counts", "corpus.parquet"),
    threads: 16 if CUTS_BY_SPACY else 1
    params:
        **step_params("corpus", "corpus"),
    shell:
        command("corpus")

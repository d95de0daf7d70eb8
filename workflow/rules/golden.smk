# Golden checks: known numbers of a named checkpoint, measured again before the run uses it.


rule golden:
    """Check the checkpoint: its size, its perplexity, and the predictions of known values."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        dictionary=run_.dictionary,
        test=run_.inputs.test_text,
    output:
        out=GOLDEN,
    threads: compute_threads
    resources:
        **execution(),
    params:
        **step_params("golden"),
        source=run_.inputs.fetched("model")["name"],
        registry=registry(),
    shell:
        command("golden")

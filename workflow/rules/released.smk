# The measures of the authors' released code; only with fidelity: released.


rule released:
    """Compute the released code's 'layer' and 'dim' columns on the run's examples."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        examples=run_.table("examples"),
    output:
        released_layer=run_.table("released_layer"),
        released_dim=run_.table("released_dim"),
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step("released"),
    shell:
        command("released")

# E2 and E14: the automatic proxy for what the paper's annotators judged.


rule patterns:
    """Patterns in the triggers of random keys, and distances of compositions, by proxy."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        triggers=rules.triggers.output.triggers,
        examples=rules.composition.output.examples,
        refinement=rules.composition.output.refinement,
        dictionary=run_.dictionary,
    output:
        annotations=run_.table("annotations"),
        labels=run_.table("pattern_labels"),
        distances=run_.table("distance_labels"),
        counts=run_.path("counts", "patterns.parquet"),
    log:
        run_.path("logs", "patterns.log"),
    benchmark:
        run_.path("logs", "patterns.tsv")
    conda:
        "../envs/environment.yaml"
    params:
        **run_.step("patterns", "seed", "patterns"),
    shell:
        "ff-memories patterns --config {params.config:q} --corpus {input.corpus} --triggers {input.triggers} "
        "--weights {input.weights} --description {input.description} --dictionary {input.dictionary:q} "
        "--examples {input.examples} --refinement {input.refinement} --annotations {output.annotations} "
        "--labels {output.labels} --distances {output.distances} --counts {output.counts} 2> {log}"

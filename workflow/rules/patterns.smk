# E2 and E14: the items for annotators, their answers, and the automatic proxy.


rule proxy:
    """Label triggers and compositions with the automatic proxy, and measure the proxy's quality."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=text,
        triggers=rules.triggers.output.triggers,
        examples=of_model("tables/examples.parquet"),
        refinement=of_model("tables/refinement.parquet"),
        dictionary=run_.dictionary,
    output:
        annotations=of_model("proxy/annotations.parquet"),
        labels=of_model("proxy/pattern_labels.parquet"),
        distances=of_model("proxy/distance_labels.parquet"),
        scores=of_model("proxy/annotation_scores.parquet"),
        counts=of_model("counts/proxy.parquet"),
    params:
        **step_params("proxy", "seed patterns", *SAMPLING),
    shell:
        command("proxy")


rule patterns:
    """Draw the items to show to annotators, check and score people's annotations, and merge them with the proxy's."""
    input:
        annotated=run_.annotations,
        triggers=run_.table("triggers"),
        examples=run_.table("examples"),
        refinement=run_.table("refinement"),
        corpus=rules.corpus.output.corpus,
        dictionary=run_.dictionary,
        proxy=expand(
            run_.path("proxy", "{table}.parquet"),
            table=[*LABELS, "annotation_scores"],
        ),
    output:
        plan=run_.table("annotation_plan"),
        annotations=run_.table("annotations"),
        labels=run_.table("pattern_labels"),
        distances=run_.table("distance_labels"),
        scores=run_.table("annotation_scores"),
        stale=run_.path("counts", "stale_annotations.csv"),
        counts=run_.path("counts", "patterns.parquet"),
    params:
        **step_params("patterns", "run seed patterns"),
    shell:
        command("patterns")


rule annotation_sheets:
    """Write the annotators' forms for the browser."""
    input:
        plan=rules.patterns.output.plan,
        triggers=run_.table("triggers"),
        examples=run_.table("examples"),
        refinement=run_.table("refinement"),
        corpus=rules.corpus.output.corpus,
        dictionary=run_.dictionary,
    output:
        patterns=run_.path("sheets", "patterns.html"),
        distances=run_.path("sheets", "distance.html"),
    params:
        **step_params("annotation_sheets", "run seed patterns"),
    shell:
        command("annotation-sheets")


rule annotation:
    """Write the forms of an annotation study."""
    input:
        rules.annotation_sheets.output,

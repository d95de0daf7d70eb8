# E2 and E14: the items for annotators, their answers, and the automatic proxy.


rule annotation_plan:
    """Draw the items to show to annotators: sampled keys, repeated keys and foils, in random order."""
    input:
        triggers=rules.triggers.output.triggers,
        corpus=rules.corpus.output.corpus,
        dictionary=run_.dictionary,
    output:
        plan=run_.table("annotation_plan"),
    log:
        run_.path("logs", "annotation_plan.log"),
    benchmark:
        run_.path("logs", "annotation_plan.tsv")
    params:
        **run_.step("annotation_plan", "seed", "patterns"),
    shell:
        command("annotation-plan")


rule proxy:
    """Find patterns in the triggers of sampled keys with the automatic proxy, and measure the proxy's quality."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        triggers=rules.triggers.output.triggers,
        dictionary=run_.dictionary,
    output:
        annotations=run_.path("proxy", "annotations.parquet"),
        labels=run_.path("proxy", "pattern_labels.parquet"),
        scores=run_.path("proxy", "annotation_scores.parquet"),
        counts=run_.path("counts", "proxy.parquet"),
    log:
        run_.path("logs", "proxy.log"),
    benchmark:
        run_.path("logs", "proxy.tsv")
    params:
        **run_.step("proxy", "seed", "patterns", *run_.sampling),
    shell:
        command("proxy")


rule distance:
    """Label with the automatic proxy whether last-layer compositions are related to what they compose."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        examples=rules.composition.output.examples,
        refinement=rules.composition.output.refinement,
        dictionary=run_.dictionary,
    output:
        distances=run_.path("proxy", "distance_labels.parquet"),
    log:
        run_.path("logs", "distance.log"),
    benchmark:
        run_.path("logs", "distance.tsv")
    params:
        **run_.step("distance", "seed"),
    shell:
        command("distance")


rule patterns:
    """Check and score people's annotations, and merge them with the proxy's."""
    input:
        annotated=run_.annotations,
        plan=rules.annotation_plan.output.plan,
        triggers=rules.triggers.output.triggers,
        examples=rules.composition.output.examples,
        refinement=rules.composition.output.refinement,
        corpus=rules.corpus.output.corpus,
        dictionary=run_.dictionary,
        proxy=[
            rules.proxy.output.annotations,
            rules.proxy.output.labels,
            rules.proxy.output.scores,
            rules.distance.output.distances,
        ],
    output:
        annotations=run_.table("annotations"),
        labels=run_.table("pattern_labels"),
        distances=run_.table("distance_labels"),
        scores=run_.table("annotation_scores"),
        stale=run_.path("counts", "stale_annotations.csv"),
        counts=run_.path("counts", "patterns.parquet"),
    log:
        run_.path("logs", "patterns.log"),
    benchmark:
        run_.path("logs", "patterns.tsv")
    params:
        **run_.step("patterns", "run", "seed"),
    shell:
        command("patterns")


rule annotation_sheets:
    """Write the annotators' sheets: forms for the browser, spreadsheets, tasks for Label Studio."""
    input:
        plan=rules.annotation_plan.output.plan,
        triggers=rules.triggers.output.triggers,
        examples=rules.composition.output.examples,
        refinement=rules.composition.output.refinement,
        corpus=rules.corpus.output.corpus,
        dictionary=run_.dictionary,
    output:
        sheets=expand(run_.path("sheets", "{sheet}"), sheet=SHEETS),
    log:
        run_.path("logs", "annotation_sheets.log"),
    benchmark:
        run_.path("logs", "annotation_sheets.tsv")
    params:
        **run_.step("annotation_sheets", "run", "seed", "patterns"),
    shell:
        command("annotation-sheets")


rule annotation:
    """Write all sheets of an annotation study."""
    input:
        rules.annotation_sheets.output.sheets,

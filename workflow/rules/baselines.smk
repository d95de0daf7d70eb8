# The claims' baselines: untrained models of the same shape, random pairs and guesses.

# the run's own model and untrained ones, on the same sample of the text
MODELS = [
    "same_sample",
    *(f"untrained-{draw + 1}" for draw in range(run_.config.baselines.models)),
]


rule baseline_model:
    """Compute the paper's measures for an untrained model, on a sample of the text."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        dictionary=run_.dictionary,
    output:
        values=run_.path("baselines", "{model}", "values.parquet"),
        mutations=run_.path("baselines", "{model}", "mutations.parquet"),
        examples=run_.path("baselines", "{model}", "examples.parquet"),
        composition=run_.path("baselines", "{model}", "composition.parquet"),
        refinement=run_.path("baselines", "{model}", "refinement.parquet"),
        annotations=run_.path("baselines", "{model}", "annotations.parquet"),
        labels=run_.path("baselines", "{model}", "pattern_labels.parquet"),
        distances=run_.path("baselines", "{model}", "distance_labels.parquet"),
        perplexity=run_.path("baselines", "{model}", "perplexity.json"),
    log:
        run_.path("logs", "baseline_model", "{model}.log"),
    benchmark:
        run_.path("logs", "baseline_model", "{model}.tsv")
    wildcard_constraints:
        model="|".join(MODELS),
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step(
            "baseline_model",
            "seed",
            "triggers",
            "mutations",
            "patterns",
            "values",
            "composition",
            "extraction",
            "baselines",
        ),
    shell:
        command("baseline-model")


rule baselines:
    """Measure every claim on untrained models, random pairs and guesses."""
    input:
        tables=[
            rules.triggers.output.triggers,
            rules.values.output.values,
            rules.composition.output.examples,
            rules.composition.output.composition,
            rules.composition.output.refinement,
        ],
        models=expand(rules.baseline_model.output, model=MODELS),
        corpus=rules.corpus.output.corpus,
        info=rules.model.output.info,
        dictionary=run_.dictionary,
    output:
        baselines=run_.table("baselines"),
        control=run_.table("control"),
    log:
        run_.path("logs", "baselines.log"),
    benchmark:
        run_.path("logs", "baselines.tsv")
    params:
        **run_.step(
            "baselines", "seed", "mutations", "composition", "values", "extraction"
        ),
    shell:
        command("baselines")

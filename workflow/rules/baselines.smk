# The claims' baselines: untrained and shuffled models of the same shape, random pairs and guesses.

# the run's own model and those, on the same sample of the text
MODELS = run_.config.baselines.names


rule baseline_triggers:
    """Find an untrained model's triggers in one shard of a sample of the text."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        dictionary=run_.dictionary,
    output:
        lists=run_.shard("baselines", "{model}", "triggers.safetensors"),
    log:
        run_.path("logs", "baseline_triggers", "{model}-{scatteritem}.log"),
    benchmark:
        run_.path("logs", "baseline_triggers", "{model}-{scatteritem}.tsv")
    wildcard_constraints:
        model="|".join(MODELS),
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step(
            "baseline_triggers",
            "seed",
            "triggers",
            "extraction",
            "baselines.sentences",
        ),
    shell:
        command("baseline-triggers")


rule baseline_memories:
    """Measure one shard of an untrained model's mutated triggers and values."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        dictionary=run_.dictionary,
        lists=all_shards("baselines", *rules.baseline_triggers.output),
    output:
        values=run_.shard("baselines", "{model}", "values.parquet"),
        mutations=run_.shard("baselines", "{model}", "mutations.parquet"),
    log:
        run_.path("logs", "baseline_memories", "{model}-{scatteritem}.log"),
    benchmark:
        run_.path("logs", "baseline_memories", "{model}-{scatteritem}.tsv")
    wildcard_constraints:
        model="|".join(MODELS),
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step(
            "baseline_memories",
            "seed",
            "triggers",
            "mutations",
            "values",
            "extraction",
            "baselines.sentences",
            "baselines.keys_per_layer",
        ),
    shell:
        command("baseline-memories")


rule baseline_predictions:
    """Measure one shard of an untrained model's composition, refinement and perplexity."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        dictionary=run_.dictionary,
        values=all_shards("baselines", rules.baseline_memories.output.values),
    output:
        examples=run_.shard("baselines", "{model}", "examples.parquet"),
        composition=run_.shard("baselines", "{model}", "composition.parquet"),
        refinement=run_.shard("baselines", "{model}", "refinement.parquet"),
        surprises=run_.shard("baselines", "{model}", "surprises.json"),
    log:
        run_.path("logs", "baseline_predictions", "{model}-{scatteritem}.log"),
    benchmark:
        run_.path("logs", "baseline_predictions", "{model}-{scatteritem}.tsv")
    wildcard_constraints:
        model="|".join(MODELS),
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step(
            "baseline_predictions",
            "seed",
            "values",
            "composition",
            "extraction",
            "baselines.sentences",
            "baselines.examples",
        ),
    shell:
        command("baseline-predictions")


rule baseline_model:
    """Compute the paper's measures for an untrained model, on a sample of the text."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        dictionary=run_.dictionary,
        lists=all_shards("baselines", *rules.baseline_triggers.output),
        shards=all_shards(
            "baselines",
            *rules.baseline_memories.output,
            *rules.baseline_predictions.output[:3],
        ),
        surprises=all_shards("baselines", rules.baseline_predictions.output.surprises),
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
            "patterns",
            "extraction",
            "baselines.sentences",
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
        models=expand(rules.baseline_model.output, model=MODELS)
        + expand(
            run_.path("baselines", "{model}", "{table}.parquet"),
            model=MODELS,
            table=("causal", "removals"),
        ),
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

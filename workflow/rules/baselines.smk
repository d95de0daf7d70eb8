# The claims' baselines: untrained and shuffled models of the same shape, random pairs and guesses.


rule sample:
    """Draw the sample of the text on which the models of the baselines are measured."""
    input:
        corpus=rules.corpus.output.corpus,
    output:
        sample=run_.path("models", "sample.safetensors"),
    params:
        **step_params("sample", "seed baselines.sentences"),
    shell:
        command("sample")


rule models:
    """Draw a model of the baselines: write what its weights are drawn from."""
    input:
        own=rules.model.output.description,
    output:
        description=of_model("model.json"),
    wildcard_constraints:
        model=f"models/({'|'.join(MODELS)})/",
    localrule: True
    params:
        **step_params("models", "seed"),
    shell:
        command("models")


rule perplexity:
    """Measure how well the models of the baselines predict the validation text."""
    input:
        weights=rules.model.output.weights,
        descriptions=expand(run_.path("models", "{name}", "model.json"), name=MODELS),
        corpus=rules.sample.output.sample,
        dictionary=run_.dictionary,
    output:
        perplexities=expand(
            run_.path("models", "{name}", "perplexity.json"), name=MODELS
        ),
    threads: compute_threads
    resources:
        **execution(),
    params:
        **step_params("perplexity", "seed extraction baselines.sentences"),
    shell:
        command("perplexity")


rule baselines:
    """Measure every claim on untrained models, random pairs and guesses."""
    input:
        tables=run_.tables(
            "triggers", "values", "examples", "composition", "refinement"
        ),
        models=of_models(*OF_MODELS),
        corpus=rules.corpus.output.corpus,
        info=rules.model.output.info,
        dictionary=run_.dictionary,
    output:
        baselines=run_.table("baselines"),
        control=run_.table("control"),
        agreeing=run_.table("agreeing"),
    params:
        **step_params("baselines", "seed mutations composition values extraction"),
    shell:
        command("baselines")

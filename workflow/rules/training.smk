# Train the demo model with fairseq. This takes hours; `all` does not need it.


rule train_demo_model:
    """Train the demo run's language model; an interrupted training resumes from its last checkpoint."""
    input:
        train=rules.docstrings.output.train,
        validation=rules.docstrings.output.validation,
        recipe="config/demo_model.yaml",
    output:
        checkpoint="results/train/model.pt",
        dictionary="results/train/dict.txt",
        perplexities="results/train/perplexities.json",
        curve="results/train/curve.csv",
    log:
        "results/train/train.log",
    conda:
        "../envs/environment.yaml"
    threads: 2
    params:
        work="results/train/work",
    shell:
        command("train-demo-model")


rule train_transformer:
    """Train a demo run's model of transformers; a stopped run continues from its last state."""
    input:
        train=rules.docstrings.output.raw_train,
        validation=rules.docstrings.output.raw_validation,
        recipe="config/{model}_model.yaml",
    output:
        folder=directory("results/train/{model}"),
        curve="results/train/{model}.csv",
    log:
        "results/train/{model}.log",
    wildcard_constraints:
        model="demo_[a-z0-9]+",
    conda:
        "../envs/environment.yaml"
    threads: 2
    params:
        work="results/train/work-{model}",
    shell:
        command("train-transformer")

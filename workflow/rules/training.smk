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
        checkpoints=directory("results/train/{model}-checkpoints"),
        curve="results/train/{model}.csv",
    log:
        "results/train/{model}.log",
    wildcard_constraints:
        model="demo_[a-z0-9]+",
    threads: 2
    params:
        work="results/train/work-{model}",
    shell:
        command("train-transformer")


# Runs over the training steps of the demo's GPT-2; `all` does not need them.
rule checkpoint_config:
    """Write the config of the run of one checkpoint of the GPT-2's training."""
    input:
        base="config/demo-gpt2.yaml",
        differs="config/training_steps.yaml",
        checkpoints="results/train/demo_gpt2-checkpoints",
    output:
        out="results/demo-gpt2-{updates}/config.yaml",
    log:
        "results/train/demo_gpt2-{updates}.config.log",
    wildcard_constraints:
        updates="[0-9]+",
    shell:
        command("checkpoint-config")


rule training_steps:
    """Measure every checkpoint of the GPT-2's training, one after another, and draw them over the updates.

    Each run is a Snakemake of its own, whose files this one locks.
    """
    input:
        configs=lambda wildcards: training_runs(
            "results/demo-gpt2-{updates}/config.yaml"
        ),
        text=[
            rules.docstrings.output.raw_train,
            rules.docstrings.output.raw_validation,
        ],
    output:
        page="results/training-steps/atlas.html",
        summary="results/training-steps/summary.json",
    log:
        "results/training-steps.log",
    threads: 8  # on one machine, no more than --cores
    params:
        runs=lambda wildcards: training_runs("results/demo-gpt2-{updates}"),
    shell:
        "for config in {input.configs:q}; do"
        ' snakemake --nolock --cores {threads} --resources gpu=1 --configfile "$config" -- claims 2>> {log:q}; done;'
        " ff-memories atlas {params.runs:q} --over updates --out $(dirname {output.page:q}) 2>> {log:q}"

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

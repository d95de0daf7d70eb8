# The gallery: built where the corpus is, for it shows its text.


rule gallery:
    """A static site of every key's triggers beside its value, with search and filters."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        card=rules.model.output.card,
        corpus=rules.corpus.output.corpus,
        sentences=rules.corpus.output.sentences,
        triggers=rules.triggers.output.triggers,
        values=rules.values.output.values,
        mutations=rules.mutations.output.mutations,
        annotations=rules.patterns.output.annotations,
        labels=rules.patterns.output.labels,
        dictionary=run_.dictionary,
    output:
        site=directory(run_.path("gallery")),
    log:
        run_.path("logs", "gallery.log"),
    benchmark:
        run_.path("logs", "gallery.tsv")
    conda:
        "../envs/environment.yaml"
    threads: 4
    resources:
        **execution(),
    params:
        **run_.step("gallery", "run", "gallery", "values", "mutations"),
    shell:
        "ff-memories gallery --config {params.config:q} --weights {input.weights} --description {input.description} "
        "--card {input.card} --corpus {input.corpus} --sentences {input.sentences} --dictionary {input.dictionary:q} "
        "--triggers {input.triggers} --values {input.values} --mutations {input.mutations} "
        "--annotations {input.annotations} --pattern-labels {input.labels} --out {output.site} "
        "--device {resources.device} --threads {threads} --batch-tokens {resources.batch_tokens} 2> {log}"

# The gallery: its tables and its site. The site shows the corpus's text, so each machine builds its own.


rule gallery_tables_shard:
    """Compute one shard of the gallery's tables: coefficients, tokens that values promote, and similar memories."""
    input:
        weights=rules.model.output.weights,
        description=rules.model.output.description,
        corpus=rules.corpus.output.corpus,
        triggers=rules.triggers.output.triggers,
        values=rules.values.output.values,
        causal=rules.causal.output.causal,
    output:
        shading=run_.shard("tables", "shading.parquet"),
        levels=run_.shard("tables", "levels.parquet"),
        promoted=run_.shard("tables", "promoted.parquet"),
        demoted=run_.shard("tables", "demoted.parquet"),
        histogram=run_.shard("tables", "histogram.parquet"),
        samples=run_.shard("tables", "samples.parquet"),
        similar=run_.shard("tables", "similar.parquet"),
    log:
        run_.path("logs", "gallery_tables_shard", "{scatteritem}.log"),
    benchmark:
        run_.path("logs", "gallery_tables_shard", "{scatteritem}.tsv")
    threads: compute_threads
    resources:
        **execution(),
    params:
        **run_.step(
            "gallery_tables",
            "values",
            "extraction",
            "seed",
            "triggers",
            "gallery.triggers",
            "gallery.shaded",
            "gallery.tokens",
            "gallery.sampled",
            "gallery.similar",
            *run_.gallery_sampling,
        ),
    shell:
        command("gallery-tables")


rule gallery_tables:
    """Compute the gallery's tables: coefficients, tokens that values promote, and similar memories."""
    input:
        shards=all_shards("corpus", *rules.gallery_tables_shard.output),
    output:
        shading=run_.table("shading"),
        levels=run_.table("levels"),
        promoted=run_.table("promoted"),
        demoted=run_.table("demoted"),
        histogram=run_.table("histogram"),
        samples=run_.table("samples"),
        similar=run_.table("similar"),
    log:
        run_.path("logs", "gallery_tables.log"),
    benchmark:
        run_.path("logs", "gallery_tables.tsv")
    params:
        **run_.step("join"),
    shell:
        command("join")


rule gallery:
    """Build a static site with every key's triggers and its value, with search and filters."""
    input:
        info=rules.model.output.info,
        corpus=rules.corpus.output.corpus,
        tables=run_.tables(*GALLERY_TABLES),
        dictionary=run_.dictionary,
    output:
        site=directory(run_.path("gallery")),
    log:
        run_.path("logs", "gallery.log"),
    benchmark:
        run_.path("logs", "gallery.tsv")
    params:
        **run_.step(
            "gallery",
            "run",
            "gallery",
            "triggers",
            "values",
            "mutations",
            *run_.sampling,
        ),
        configfile=run_.file,
    shell:
        command("gallery")

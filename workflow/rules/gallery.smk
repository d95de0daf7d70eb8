# The gallery: its tables and its site. The site shows the corpus's text, so each machine builds its own.


rule gallery_tables:
    """Compute the gallery's tables: coefficients, tokens that values promote, and similar memories."""
    input:
        weights=rules.model.output.weights,
        description=description,
        corpus=text,
        triggers=of_model("tables/triggers.parquet"),
        values=of_model("tables/values.parquet"),
        causal=of_model("tables/causal.parquet"),
    output:
        shading=shard_of("tables/shading.parquet"),
        levels=shard_of("tables/levels.parquet"),
        promoted=shard_of("tables/promoted.parquet"),
        demoted=shard_of("tables/demoted.parquet"),
        histogram=shard_of("tables/histogram.parquet"),
        samples=shard_of("tables/samples.parquet"),
        similar=shard_of("tables/similar.parquet"),
    threads: compute_threads
    resources:
        **execution(),
    params:
        **step_params(
            "gallery_tables",
            "values -values.target extraction seed triggers",
            "gallery.keys gallery.triggers gallery.shaded gallery.tokens gallery.sampled gallery.similar",
        ),
    shell:
        command("gallery-tables")


join_shards("gallery_tables")


rule gallery:
    """Build a static site with every key's triggers and its value, with search and filters."""
    input:
        info=rules.model.output.info,
        corpus=rules.corpus.output.corpus,
        tables=run_.tables(*GALLERY_TABLES),
        dictionary=run_.dictionary,
    output:
        site=directory(run_.path("gallery")),
    params:
        **step_params("gallery", "run gallery triggers values mutations", *SAMPLING),
        configfile=run_.file,
    shell:
        command("gallery")

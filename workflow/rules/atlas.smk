# The recorded runs on one page, after they have finished. `all` does not need it.
RECORDED = ("smollm2", "qwen", "stories15m", "demo")


rule atlas:
    """Compare the models of the recorded runs side by side, from their runs' tables alone."""
    input:
        claims=expand("results/{run}/claims.json", run=RECORDED),
        tables=expand(
            "results/{run}/tables/{table}.parquet",
            run=RECORDED,
            table=["mutations", "values", "composition", "refinement", "sentences"],
        ),
    output:
        page="results/atlas/atlas.html",
    log:
        "results/atlas.log",
    params:
        runs=[f"results/{run}" for run in RECORDED],
    shell:
        "ff-memories atlas {params.runs:q} --any-text --out $(dirname {output.page:q}) 2> {log:q}"

# The demo's models on one page, after their runs have finished. `all` does not need it.
DEMOS = ("demo", "demo-gpt2", "demo-llama")


rule atlas:
    """Compare the demo's three models side by side, from their runs' tables alone."""
    input:
        claims=expand("results/{run}/claims.json", run=DEMOS),
        tables=expand(
            "results/{run}/tables/{table}.parquet",
            run=DEMOS,
            table=["mutations", "values", "composition", "refinement", "sentences"],
        ),
    output:
        page="results/atlas/atlas.html",
    log:
        "results/atlas.log",
    params:
        runs=[f"results/{run}" for run in DEMOS],
    shell:
        "ff-memories atlas {params.runs:q} --out $(dirname {output.page:q}) 2> {log:q}"

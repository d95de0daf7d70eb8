# Figures 2-11, each from tables alone.


rule figure:
    """One figure of the paper, as PDF, SVG, PNG, interactive page and the numbers drawn."""
    input:
        tables=lambda wildcards: [
            run_.table(t) for t in FIGURES[wildcards.figure].tables
        ],
        card=rules.model.output.card,
    output:
        **{
            kind: run_.path("figures", f"{{figure}}.{suffix}")
            for kind, suffix in dict(
                pdf="pdf",
                svg="svg",
                png="png",
                html="html",
                spec="vl.json",
                data="csv",
            ).items()
        },
    log:
        run_.path("logs", "{figure}.log"),
    benchmark:
        run_.path("logs", "{figure}.tsv")
    wildcard_constraints:
        figure="|".join(FIGURES),
    conda:
        "../envs/environment.yaml"
    params:
        **run_.step_by(
            lambda wildcards: (
                "figure",
                "seed",
                f"figures.{wildcards.figure}",
                *FIGURES[wildcards.figure].sections,
            )
        ),
        out=lambda wildcards: run_.path("figures", wildcards.figure),
    shell:
        "ff-memories figure --figure {wildcards.figure} --config {params.config:q} --card {input.card} "
        "--tables {input.tables} --out {params.out} 2> {log}"

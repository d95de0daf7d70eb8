# Figures 2-11 and the package's own figures, each drawn from tables.


rule figure:
    """Draw one figure, as PDF, SVG and PNG, with its specification and its data."""
    input:
        tables=lambda wildcards: run_.tables(*DRAWN[wildcards.figure].tables),
        models=lambda wildcards: expand(
            run_.path("baselines", "{model}", "{table}.parquet"),
            model=MODELS if DRAWN[wildcards.figure].untrained else [],
            table=DRAWN[wildcards.figure].tables,
        ),
        info=rules.model.output.info,
    output:
        **{
            kind: run_.path("figures", f"{{figure}}.{suffix}")
            for kind, suffix in dict(
                pdf="pdf",
                png="png",
                spec="vl.json",
                data="csv",
            ).items()
        },
        svg=report(
            run_.path("figures", "{figure}.svg"),
            caption="../report/output.rst",
            category="Figures",
            subcategory=lambda wildcards: DRAWN[wildcards.figure].heading,
            labels=lambda wildcards: {"figure": title(wildcards.figure)},
        ),
    log:
        run_.path("logs", "{figure}.log"),
    benchmark:
        run_.path("logs", "{figure}.tsv")
    wildcard_constraints:
        figure="|".join(DRAWN),
    params:
        **run_.step_by(
            "figure",
            lambda wildcards: (
                "seed",
                f"figures.{wildcards.figure}",
                *DRAWN[wildcards.figure].sections,
            ),
        ),
        out=lambda wildcards: run_.path("figures", wildcards.figure),
        caption=lambda wildcards: DRAWN[wildcards.figure].caption,
    shell:
        command("figure")


rule figure_pages:
    """Build the figures' interactive pages from their specifications."""
    input:
        specs=expand(rules.figure.output.spec, figure=SHOWN),
    output:
        pages=expand(run_.path("figures", "{figure}.html"), figure=SHOWN),
    log:
        run_.path("logs", "figure_pages.log"),
    benchmark:
        run_.path("logs", "figure_pages.tsv")
    params:
        **run_.step("figure_pages"),
    shell:
        command("figure-pages")


rule figures:
    """Draw all figures that the report shows."""
    input:
        expand(rules.figure.output, figure=SHOWN),
        rules.figure_pages.output,


rule figure_page:
    """Build the interactive page of a figure that the report does not show."""
    input:
        specs=rules.figure.output.spec,
    output:
        pages=run_.path("figures", "{figure}.html"),
    log:
        run_.path("logs", "{figure}_page.log"),
    benchmark:
        run_.path("logs", "{figure}_page.tsv")
    wildcard_constraints:
        figure="|".join(sorted(set(DRAWN) - set(SHOWN))),
    params:
        **run_.step("figure_pages"),
    shell:
        command("figure-pages")


rule projection_seeds:
    """Make the table and the figure of how random projections change ranks."""
    input:
        rules.projection_seeds_table.output,
        expand(rules.figure.output, figure="projection_seeds"),
        expand(rules.figure_page.output, figure="projection_seeds"),

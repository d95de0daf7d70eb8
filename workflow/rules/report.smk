# Tables 1 to 3 and the report. They show the corpus's text, so each machine builds its own.


rule table:
    """Write Table 1, 2 or 3: keys and values with passages of the text."""
    input:
        tables=lambda wildcards: run_.tables(*EXCERPTS[wildcards.table].tables),
        corpus=rules.corpus.output.corpus,
        dictionary=run_.dictionary,
        info=rules.model.output.info,
    output:
        html=report(
            run_.path("report", "{table}.html"),
            category="Tables",
            labels=lambda wildcards: {
                "table": wildcards.table.replace("table", "Table ")
            },
        ),
        csv=run_.path("report", "{table}.csv"),
        tex=run_.path("report", "{table}.tex"),
    log:
        run_.path("logs", "{table}.log"),
    benchmark:
        run_.path("logs", "{table}.tsv")
    wildcard_constraints:
        table="|".join(EXCERPTS),
    params:
        **run_.step_by("table", lambda wildcards: EXCERPTS[wildcards.table].sections),
    shell:
        command("table")


rule report:
    """Write the report (the run's answers, then the paper's sections with figures and numbers) and its summary."""
    input:
        tables=run_.tables("claims", "counts", "annotation_scores", "baselines")
        + (run_.tables("sensitivity") if run_.measures_choices else []),
        figures=expand(rules.figure.output.svg, figure=SHOWN),
        specs=expand(rules.figure.output.spec, figure=SHOWN),
        excerpts=expand(rules.table.output.html, table=EXCERPTS),
        perplexity=run_.path("baselines", "same_sample", "perplexity.json"),
        info=rules.model.output.info,
    output:
        html=report(
            run_.path("report", "report.html"),
            category="Report",
            labels={"page": "every claim and its verdict, figures, methods"},
        ),
        summary=run_.path("summary.md"),
    log:
        run_.path("logs", "report.log"),
    benchmark:
        run_.path("logs", "report.tsv")
    params:
        **run_.step("report", *SECTIONS),
        configfile=run_.file,
    shell:
        command("report")

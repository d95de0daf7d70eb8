# Tables 1 to 3 and the report. They show the corpus's text, so each machine builds its own.


rule excerpts:
    """Write Tables 1 to 3: keys and values with passages of the text."""
    input:
        tables=run_.tables(
            *sorted({table for one in EXCERPTS.values() for table in one.tables})
        ),
        corpus=rules.corpus.output.corpus,
        dictionary=run_.dictionary,
        info=rules.model.output.info,
    output:
        html=[
            report(
                run_.path("report", f"{name}.html"),
                category="Tables",
                labels={"table": name.replace("table", "Table ")},
            )
            for name in EXCERPTS
        ],
        others=expand(
            run_.path("report", "{name}.{kind}"), name=EXCERPTS, kind=["csv", "tex"]
        ),
    params:
        **step_params("excerpts", "patterns values"),
        excerpts=list(EXCERPTS),
        out=lambda wildcards, output: os.path.dirname(output[0]),
    shell:
        command("excerpts")


rule report:
    """Write the report (the run's answers, then the paper's sections with figures and numbers) and its summary."""
    input:
        tables=run_.tables("claims", "counts", "annotation_scores", "baselines")
        + (run_.tables("sensitivity") if MEASURES_CHOICES else []),
        figures=expand(run_.path("figures", "{figure}.svg"), figure=SHOWN),
        specs=expand(run_.path("figures", "{figure}.vl.json"), figure=SHOWN),
        numbers=expand(run_.path("figures", "{figure}.csv"), figure=SHOWN),
        excerpts=rules.excerpts.output.html,
        perplexity=run_.path("models", "same_sample", "perplexity.json"),
        info=rules.model.output.info,
    output:
        html=report(
            run_.path("report", "report.html"),
            category="Report",
            labels={"page": "every claim and its verdict, figures, methods"},
        ),
        summary=run_.path("summary.md"),
        plotted=run_.path("report", "plotted.parquet"),
    params:
        **step_params("report", *SECTIONS),
        configfile=run_.file,
    shell:
        command("report")

# Tables 1 to 3 and the report. They show the corpus's text, so each machine builds its own.


rule table1:
    """Write Table 1: keys with clear patterns, and triggers that show them."""
    input:
        annotations=rules.patterns.output.annotations,
        labels=rules.patterns.output.labels,
        triggers=rules.triggers.output.triggers,
        sentences=rules.corpus.output.sentences,
        corpus=rules.corpus.output.corpus,
        dictionary=run_.dictionary,
        info=rules.model.output.info,
    output:
        html=report(
            run_.path("report", "table1.html"),
            category="Tables",
            labels={"table": "Table 1"},
        ),
        csv=run_.path("report", "table1.csv"),
        tex=run_.path("report", "table1.tex"),
    log:
        run_.path("logs", "table1.log"),
    benchmark:
        run_.path("logs", "table1.tsv")
    conda:
        "../envs/environment.yaml"
    params:
        **run_.step("table1"),
    shell:
        command("table1")


rule table3:
    """Write Table 3 (Appendix A): one key with all its patterns and the triggers that show them."""
    input:
        annotations=rules.patterns.output.annotations,
        triggers=rules.triggers.output.triggers,
        sentences=rules.corpus.output.sentences,
        corpus=rules.corpus.output.corpus,
        dictionary=run_.dictionary,
        info=rules.model.output.info,
    output:
        html=report(
            run_.path("report", "table3.html"),
            category="Tables",
            labels={"table": "Table 3"},
        ),
        csv=run_.path("report", "table3.csv"),
        tex=run_.path("report", "table3.tex"),
    log:
        run_.path("logs", "table3.log"),
    benchmark:
        run_.path("logs", "table3.tsv")
    conda:
        "../envs/environment.yaml"
    params:
        **run_.step("table3", "patterns"),
    shell:
        command("table3")


rule table2:
    """Write Table 2: the most predictive values, and triggers that they agree with."""
    input:
        values=rules.values.output.values,
        triggers=rules.triggers.output.triggers,
        sentences=rules.corpus.output.sentences,
        corpus=rules.corpus.output.corpus,
        dictionary=run_.dictionary,
        info=rules.model.output.info,
    output:
        html=report(
            run_.path("report", "table2.html"),
            category="Tables",
            labels={"table": "Table 2"},
        ),
        csv=run_.path("report", "table2.csv"),
        tex=run_.path("report", "table2.tex"),
    log:
        run_.path("logs", "table2.log"),
    benchmark:
        run_.path("logs", "table2.tsv")
    conda:
        "../envs/environment.yaml"
    params:
        **run_.step("table2", "values"),
    shell:
        command("table2")


rule report:
    """Write the report (the run's answers, then the paper's sections with figures and numbers) and its summary."""
    input:
        claims=rules.claims.output.claims,
        counts=rules.claims.output.out_counts,
        figures=expand(rules.figure.output.svg, figure=SHOWN),
        specs=expand(rules.figure.output.spec, figure=SHOWN),
        sensitivity=(
            rules.sensitivity_table.output.sensitivity if run_.measures_choices else []
        ),
        baselines=rules.baselines.output.baselines,
        perplexity=run_.path("baselines", "same_sample", "perplexity.json"),
        table1=rules.table1.output.html,
        table2=rules.table2.output.html,
        table3=rules.table3.output.html,
        scores=rules.patterns.output.scores,
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
    conda:
        "../envs/environment.yaml"
    params:
        **run_.step("report", *SECTIONS),
        configfile=run_.file,
    shell:
        command("report")

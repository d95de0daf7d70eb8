# Figures 2-11 and the package's own figures, each section's by one job.


def draw_figures(section, *figures):
    """Declare the rule that draws a section's figures, in all formats."""
    declared = [DRAWN[name] for name in figures]
    tables = sorted({table for figure in declared for table in figure.tables})
    beside = sorted(
        {t for figure in declared if figure.untrained for t in figure.tables}
    )
    keys = {"seed", *(key for figure in declared for key in figure.sections)}

    rule:
        name:
            f"figures_{section}"
        input:
            tables=run_.tables(*tables),
            models=of_models(*beside),
            info=rules.model.output.info,
        output:
            drawn=run_.figures(*figures, but=".svg"),
            svg=[
                report(
                    run_.path("figures", f"{name}.svg"),
                    caption="../report/output.rst",
                    category="Figures",
                    subcategory=DRAWN[name].heading,
                    labels={"figure": title(name)},
                )
                for name in figures
            ],
        log:
            run_.path("logs", f"figures_{section}.log"),
        params:
            **run_.step("figures", *sorted(keys), *(f"figures.{n}" for n in figures)),
            figures=figures,
            out=run_.path("figures"),
            caption="\n\n".join(figure.caption for figure in declared),
        shell:
            command("figures")


for section, figures in SECTIONS_OF_FIGURES.items():
    draw_figures(section, *figures)


rule projection_seeds:
    """Make the table and the figure of how random projections change ranks."""
    input:
        rules.figures_projection_seeds.output,

# Figures 2-11 and the package's own figures, each section's by one job.


for section, figures in SECTIONS_OF_FIGURES.items():

    rule:
        """Draw each section's figures, in all formats."""
        name:
            f"figures_{section}"
        input:
            tables=run_.tables(*used_by(figures, "tables")),
            models=of_models(
                *used_by([name for name in figures if DRAWN[name].untrained], "tables")
            ),
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
        params:
            **step_params(
                "figures",
                "seed",
                *used_by(figures, "sections"),
                *(f"figures.{name}" for name in figures),
            ),
            figures=figures,
            out=lambda wildcards, output: os.path.dirname(output[0]),
            caption="\n\n".join(DRAWN[name].caption for name in figures),
        shell:
            command("figures")

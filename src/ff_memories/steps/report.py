"""Write the report: the run's answers, then the paper's sections with figures and numbers, on one offline page."""

import json
from pathlib import Path

from ff_memories import tables as schemas
from ff_memories.base.files import atomic_write, in_project, write_whole
from ff_memories.base.parameters import AnyInputs, Input, Output, Param, Tables
from ff_memories.config import Settings
from ff_memories.figures import draw
from ff_memories.model.info import has_inactive, read_info
from ff_memories.report.page import parts_of, report


def run(
    config: Settings,
    info: Input,
    tables: Tables,
    figures: AnyInputs,
    specs: AnyInputs,
    numbers: AnyInputs,
    excerpts: AnyInputs,
    perplexity: Input | None,
    configfile: Param | None,
    html: Output,
    summary: Output | None,
    plotted: Output | None,
) -> None:
    """Write the page, its answers and verdicts as Markdown, and all numbers that its figures show as one table.

    Args:
        tables: claims and counts; annotation_scores, baselines and sensitivity, if the run made them
        figures: figure2.svg ... figure11.svg
        specs: figure2.vl.json ...: specifications of the figures to make interactive
        numbers: figure2.csv ...: what the figures show
        excerpts: table1.html ... table3.html: HTML fragments
        perplexity: perplexity.json, with the model's perplexity on the validation text
        configfile: the run's config file, named in the commands that rerun a part
        html: file to write: report.html
        summary: file to write: summary.md
        plotted: file to write: plotted.parquet
    """
    described = read_info(info)
    read = {name: schemas.read(path) for name, path in tables.items()}
    if perplexity is not None:
        measured = json.loads(perplexity.read_text(encoding="utf-8"))
        described |= {"perplexity": measured["perplexity"], "in_windows": measured["in_windows"]["perplexity"]}
    parts = parts_of(config, has_inactive(described), figures, excerpts, specs, html.parent)
    again = configfile and in_project(Path(configfile))
    page, short = report(config, described, read, parts, in_project(tables["claims"]), again)
    write_whole(html, page)
    if summary is not None:
        write_whole(summary, short)
    if plotted is not None:
        with atomic_write(plotted) as file:
            draw.plotted(numbers).write_parquet(file)

"""Write the report: the run's answers, then the paper's sections with figures and numbers, on one offline page."""

import json
import os
from pathlib import Path

from ff_memories import tables as schemas
from ff_memories.base.files import atomic_write, in_project, write_whole
from ff_memories.base.parameters import AnyInputs, Input, Output, Param, Tables
from ff_memories.config import Settings
from ff_memories.figures import draw
from ff_memories.model.info import read_info
from ff_memories.report.page import report


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
    described, claims = read_info(info), tables["claims"]
    read = {name: schemas.read(path) for name, path in tables.items()}
    if perplexity is not None:
        measured = json.loads(_text(perplexity))
        described |= {"perplexity": measured["perplexity"], "in_windows": measured["in_windows"]["perplexity"]}
    drawings, fragments = ({path.stem: path for path in paths} for paths in (figures, excerpts))
    drawn, quoted = ({name: _text(path) for name, path in paths.items()} for paths in (drawings, fragments))
    specifications = {path.name.removesuffix(".vl.json"): _text(path) for path in specs}
    targets = {name: in_project(path) for name, path in {**drawings, **fragments, "claims": claims}.items()}
    folder = next(iter(drawings.values()), html).parent
    figures_at = Path(os.path.relpath(folder, html.parent)).as_posix()
    again = configfile and in_project(Path(configfile))
    page, short = report(config, described, read, drawn, quoted, specifications, targets, figures_at, again)
    write_whole(html, page)
    if summary is not None:
        write_whole(summary, short)
    if plotted is not None:
        with atomic_write(plotted) as file:
            draw.plotted(numbers).write_parquet(file)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")

"""The report: a run's answers, then the paper's sections with figures and numbers, as one page that works offline."""

import json
import os
from pathlib import Path

from ff_memories import tables
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import AnyInputs, Input, Output, Param
from ff_memories.config import Settings
from ff_memories.figures.registry import DRAWN
from ff_memories.model.info import read_info
from ff_memories.report.page import report


def run(
    config: Settings,
    info: Input,
    claims: Input,
    counts: Input,
    figures: AnyInputs,
    specs: AnyInputs,
    table1: Input | None,
    table2: Input | None,
    table3: Input | None,
    scores: Input | None,
    sensitivity: AnyInputs,
    baselines: Input | None,
    perplexity: Input | None,
    configfile: Param | None,
    html: Output,
    summary: Output | None,
) -> None:
    """Write the page, and its answers and verdicts as Markdown.

    Args:
        figures: figure2.svg ... figure11.svg
        specs: figure2.vl.json ...: those to be live
        table1: HTML fragment
        table2: HTML fragment
        table3: HTML fragment
        scores: table annotation_scores
        sensitivity: table, where the run measured it
        baselines: table
        perplexity: perplexity.json, of the model on the validation text
        configfile: the run's config file, to be named in the commands that rerun a part
        html: report.html
        summary: summary.md
    """
    described, judged = read_info(info), tables.read(claims)
    if perplexity is not None:
        described = {**described, "perplexity": _perplexity(perplexity)}
    if set(judged["scope"]) - {described["scope"]}:
        raise UserError(f"{claims}: judged for another model than {info} describes", "run snakemake again")
    drawn = {path.stem: path for path in figures}
    for name, path in drawn.items():
        if name not in DRAWN or path.suffix != ".svg":
            raise UserError(f"{path}: not one of our figures", "give figure2.svg to figure11.svg")
    fragments = {
        name: path for name, path in (("table1", table1), ("table2", table2), ("table3", table3)) if path is not None
    }
    folders = {str(path.parent) for path in drawn.values()} or {"."}
    if len(folders) > 1:
        raise UserError(f"--figures: they lie in several folders: {', '.join(sorted(folders))}")
    svgs = {name: _text(path) for name, path in drawn.items()}
    try:
        made = report(
            judged,
            tables.read(counts),
            svgs,
            {name: _text(path) for name, path in fragments.items()},
            config,
            described,
            {name: _target(path) for name, path in {**drawn, **fragments, "claims": claims}.items()},
            Path(os.path.relpath(folders.pop(), html.parent)).as_posix(),
            tables.read(sensitivity[0]) if sensitivity else None,
            tables.read(scores) if scores else None,
            {path.name.removesuffix(".vl.json"): _text(path) for path in specs},
            configfile and _target(Path(configfile)),
            tables.read(baselines) if baselines else None,
        )
    except ValueError as error:
        raise UserError(f"--figures, --specs: {error}", "remove the figure and run snakemake again") from None
    write_whole(html, made.html)
    if summary is not None:
        write_whole(summary, made.markdown)


def _perplexity(path: Path) -> float | None:
    try:
        found: float | None = json.loads(_text(path))["perplexity"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: no perplexity in it ({error!r})", rebuild_hint(path)) from None
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not readable ({error})", rebuild_hint(path)) from None


def _target(path: Path) -> str:
    """Return a file as a workflow names it; of a path elsewhere, which no other machine knows, its name alone."""
    return path.name if path.is_absolute() or ".." in path.parts else path.as_posix()

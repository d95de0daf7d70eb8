"""Build the report: gather what its template shows from tables, model info and config; and its summary as Markdown.

The summary, for a README, an appendix or a pull request, has no corpus text.
"""

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

from ff_memories.base.files import in_project
from ff_memories.base.text import escape_invisible, finished, listed
from ff_memories.config import Settings
from ff_memories.figures.registry import DRAWN, GALLERY, caption, title
from ff_memories.judge import training, wording
from ff_memories.judge.register import register
from ff_memories.judge.sensitivity import changes
from ff_memories.judge.wording import word
from ff_memories.model.info import ABOUT, TITLES
from ff_memories.report import outline
from ff_memories.report.answers import SOURCES, answer, first_lines, looked_at, named
from ff_memories.report.html import compact, inline, render, script
from ff_memories.report.tables123 import EXCERPTS
from ff_memories.tables import Frames
from ff_memories.tables.annotation import ANNOTATOR, MODEL, PEOPLE, SIMULATED

Info = Mapping[str, Any]  # of the run's model
Parts = dict[str, dict[str, Any]]  # what the template shows of each figure and table, by name


def report(
    config: Settings, info: Info, read: Frames, parts: Parts, claims_target: str, configfile: str | None
) -> tuple[str, str]:
    """Return the report as one self-contained HTML page, and its summary as Markdown.

    ``read``: the tables claims and counts; annotation_scores, baselines and sensitivity, if the run made them.
    ``parts``: of ``parts_of``. ``claims_target``: the claims' in Snakemake. ``configfile``: the run's, for the
    commands; ``None`` if Snakemake finds it by default.
    """
    counts, baselines, scope = read["counts"], read.get("baselines"), info["scope"]
    sensitivity, scores = read.get("sensitivity"), read.get("annotation_scores")
    choices = None if sensitivity is None else choices_section(sensitivity, parts.get("sensitivity"))
    memories = config.composition.memories
    rows = outline.rows(read["claims"], baselines)
    for row in rows:
        row["definition"] = wording.definition(row["rests_on"], info, memories)
        row["moved"] = choices and choices["strongest"].get(row["claim"])
    first = first_lines(rows, counts, config, info)
    groups = wording.counts({row["claim"]: row for row in rows})
    live = [part for part in parts.values() if part["spec"]]
    revision = f" at revision {info['revision']}" if info.get("revision") else ""
    tallied = Counter(row["standing"] for row in rows if not row["beyond"])
    html = render(
        "report/report.html.j2",
        config=config,
        info=info,
        scope=scope,
        title=TITLES[scope],
        about=ABOUT[scope],
        model=named(info) + revision if scope == "model" else config.model.source or "the run's own checkpoint",
        first=first,
        groups=wording.told(groups),
        tally=[(name, tallied[name]) for name in wording.WORDS if tallied[name]],
        linked=_linked,
        sections=[_section(section, parts, rows) for section in outline.SECTIONS],
        sensitivity=choices,
        annotation=None if scores is None else annotation_section(scores),
        counts=[(step, reason.replace("_", " "), n) for step, reason, n in counts.sort("step", "reason").iter_rows()],
        source=SOURCES.get(config.corpus.source, config.corpus.source),
        untrained=_models(baselines),
        shuffled=_models(baselines, "shuffled"),
        looked_at=looked_at(config.looked_at, info.get("neurons", info["keys"]), config.seed),
        command=partial(_command, configfile),
        claims_target=claims_target,
        script=Markup(script()) if live else None,
        live=live,
        compared=any(row["baseline"] is not None for row in rows),
    )
    heading = wording.line(config.run, scope, groups)
    return html, markdown(heading, scope, first["lines"], rows)


def parts_of(
    config: Settings, active: bool, figures: list[Path], excerpts: list[Path], specs: list[Path], folder: Path
) -> Parts:
    """Return what the template shows of each figure (``figure2.svg``) and table (``table1.html``), by name.

    ``active``: as in ``FigureContext``. ``specs``: Vega-Lite of the interactive figures; the others stay static.
    ``folder``: the page's, where its links begin.
    """
    documents = {path: path.read_text(encoding="utf-8") for path in (*figures, *excerpts, *specs)}
    interactive = {path.name.removesuffix(".vl.json"): json.loads(documents[path]) for path in specs}
    parts: Parts = {}
    for path in figures:
        name, figure = path.stem, DRAWN[path.stem]
        text, spec = caption(name, config.values.target, active), interactive.get(name, {})
        spec.pop("description", None)  # the page shows the caption itself
        parts[name] = {
            "title": title(name),
            "caption": text,
            "svg": Markup(inline(documents[path], name, f"{title(name)}. {text}")),
            "at": Path(os.path.relpath(path.with_suffix(""), folder)).as_posix(),
            "gallery": figure.keys and GALLERY + figure.keys,
            "tables": figure.tables,
            "spec": spec and Markup(compact(spec)),
            "headline": spec.get("usermeta", {}).get("headline"),  # what it shows in this run
        }
    for path in excerpts:
        heading = f"{path.stem.replace('table', 'Table ')}: {EXCERPTS[path.stem].title}"
        parts[path.stem] = {"title": heading, "table": Markup(documents[path]), "tables": (), "spec": None}
    for path in (*figures, *excerpts):
        parts[path.stem] |= {"name": path.stem, "target": in_project(path)}
    return parts


def _section(section: outline.PaperSection, parts: Parts, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    shown = [parts[name] for name in section.parts if name in parts]
    return {
        "section": section,
        "answer": answer(section.number, rows),
        "figures": [part for part in shown if "svg" in part],
        "tables": [part for part in shown if "table" in part],
        "parts": shown,
        "rows": [row for row in rows if row["section"] == section.number],
    }


def _models(baselines: pl.DataFrame | None, kind: str = "untrained") -> int:
    """Return the number of untrained models, or of another kind, that were measured."""
    runs = [] if baselines is None else baselines.filter(pl.col("baseline") == kind)["runs"].to_list()
    return max(runs, default=0)


def _linked(sentence: str) -> Markup:
    """Return a sentence with each claim's id linked to the claim, its statement as the tooltip."""
    statements = {claim.id: claim.statement for claim in register()}
    link = Markup('<a href="#{0}" title="{1}">{0}</a>')
    pieces = re.split(r"\b([BK]\d+)\b", sentence)
    return Markup("").join(link.format(piece, statements[piece]) if piece in statements else piece for piece in pieces)


def _command(configfile: str | None, target: str) -> str:
    """Return the command that reruns one target."""
    config = f" --configfile {shlex.quote(configfile)}" if configfile else ""
    return f"snakemake --cores all --resources gpu=1 --force {target}{config}"


def annotation_section(scores: pl.DataFrame) -> dict[str, Any]:
    """Return the template's data from `annotation_scores`: the proxy, people together, then each person and model.

    Each of ``groups`` has a title and {measure: its row}; ``annotation.html.j2`` says what a measure is.
    """
    names = [name for name in scores["who"].unique().sort() if name not in (ANNOTATOR, PEOPLE)]
    titles = {ANNOTATOR: "Automatic proxy", PEOPLE: "Agreement between annotators"}
    groups = []
    for who in (ANNOTATOR, PEOPLE, *names):
        rows = {row["measure"]: row for row in scores.filter(pl.col("who") == who).iter_rows(named=True)}
        if rows:
            kind = "Language model" if who.startswith(MODEL) else "Annotator"
            groups.append((titles.get(who, f"{kind} {who.removeprefix(MODEL)}"), rows))
    simulated = any(name.startswith(SIMULATED) for name in names)
    people = [name for name in names if not name.startswith(MODEL)]
    return {"groups": groups, "people": bool(people), "models": len(names) > len(people), "simulated": simulated}


def choices_section(table: pl.DataFrame, part: dict[str, Any] | None) -> dict[str, Any]:
    """Return the template's data from the `sensitivity` table: its figure, counts, changed verdicts, largest effects.

    ``strongest`` maps each claim that a choice moves to a choice that changes its verdict, or else to the one with the
    largest effect.
    """
    frame, units = changes(table), {claim.id: claim.unit for claim in register()}
    tried = frame.select("choice", "value").unique().height
    moving = frame.filter(pl.col("beyond")).select("choice", "value").unique().height
    rows = [row | {"unit": units[row["claim"]]} for row in frame.iter_rows(named=True)]
    changed = [row for row in rows if row["changed"]]
    farthest: dict[str, dict[str, Any]] = {}
    for row in sorted((r for r in rows if r["beyond"] and r["change"]), key=lambda r: -abs(r["change"])):
        farthest.setdefault(row["claim"], row)
    choices: dict[tuple[str, str, str], list[str]] = {}
    for row in changed:
        words = (word(row["was"]), word(row["verdict"]))
        choices.setdefault((row["claim"], *words), []).append(f"{row['choice']}: {row['value']}")
    changing = [
        f"the verdict on {claim} changes from “{was}” to “{verdict}” with {listed(names, 'or')}"
        for (claim, was, verdict), names in choices.items()
    ] or ["no verdict changes"]
    if refused := list(dict.fromkeys(f"{row['choice']}: {row['value']}" for row in rows if row["refused"])):
        changing.append(f"a run with {listed(refused, 'or')} is refused, so it has no verdicts")
    return {
        "part": part,
        "tried": tried,
        "moving": moving,
        "changed": changed,
        "changing": finished("; ".join(changing)),
        "farthest": sorted(farthest.values(), key=rows.index),
        "strongest": farthest | {row["claim"]: row for row in reversed(changed) if row["measured"] is not None},
    }


def markdown(heading: str, scope: str, first: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """Return ``summary.md``: its ``heading``, ``first`` lines as bullets, and all claims, of ``outline.rows``."""
    said = {"heading": heading, "scope": scope, "about": ABOUT[scope], "first": first, "rows": rows}
    return render("report/summary.md.j2", **said, bullet=wording.BULLET, in_random=training.in_random, escaped=_escaped)


def _escaped(text: str) -> str:
    """Return text escaped for Markdown."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", escape_invisible(text)).replace("\n", " ")

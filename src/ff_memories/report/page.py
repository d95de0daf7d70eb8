"""Build the report: gather what its template shows from tables, model info and config."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl
from markupsafe import Markup

from ff_memories.config import Settings
from ff_memories.figures import font
from ff_memories.figures.registry import DRAWN, caption, keys_behind, title
from ff_memories.judge import wording
from ff_memories.judge.register import register
from ff_memories.model.info import ABOUT, TITLES, has_inactive
from ff_memories.report import outline
from ff_memories.report.answers import SOURCES, answer, first_lines, named
from ff_memories.report.html import embedded, inline, policy, render, script
from ff_memories.report.markdown import markdown
from ff_memories.report.sections import annotation_section, choices_section, influence
from ff_memories.report.tables123 import EXCERPTS
from ff_memories.report.wording import looked_at


def report(
    config: Settings,
    info: Mapping[str, Any],
    read: Mapping[str, pl.DataFrame],
    figures: Mapping[str, str],
    excerpts: Mapping[str, str],
    specifications: Mapping[str, str],
    targets: Mapping[str, str],
    figures_at: str,
    configfile: str | None = None,
) -> tuple[str, str]:
    """Return the report as one self-contained HTML page, and its summary as Markdown.

    Args:
        config: the run's settings.
        info: the run's model info.
        read: the tables claims and counts; annotation_scores, baselines and sensitivity, if the run made them.
        figures: SVG documents by name, such as ``figure2``; the page omits the others.
        excerpts: HTML fragments ``table1`` to ``table3``, rendered by this package.
        specifications: Vega-Lite specifications of the interactive figures, by name; other figures stay static.
        targets: the Snakemake target of each part (``figure3``, ``table1``, ``claims``).
        figures_at: the folder of the figures, relative to the page.
        configfile: the run's config file, for the commands; ``None`` if Snakemake finds it by default.
    """
    counts, baselines, scope = read["counts"], read.get("baselines"), info["scope"]
    command = partial(_command, configfile)
    parts = _parts(figures, excerpts, specifications, targets, figures_at, command, config, has_inactive(info))
    sensitivity, scores = read.get("sensitivity"), read.get("annotation_scores")
    choices = None if sensitivity is None else choices_section(sensitivity, parts.get("sensitivity"))
    memories = config.composition.memories
    rows = outline.rows(read["claims"], baselines)
    for row in rows:
        row["definition"] = wording.definition(row["rests_on"], info, memories)
        moved = choices and choices["strongest"].get(row["claim"])
        row["influence"] = influence(moved) if moved else None
    first = first_lines(rows, counts, config, info)
    groups = wording.counts({row["claim"]: row for row in rows})
    code = script() if specifications else None
    tallied = Counter(row["standing"] for row in rows if not row["beyond"])
    some = looked_at(config.looked_at, info.get("neurons", info["keys"]), config.seed)
    html = render(
        "report/report.html.j2",
        config=config,
        info=info,
        scope=scope,
        title=TITLES[scope],
        about=ABOUT[scope],
        model=_model(config, info),
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
        looked_at=some,
        claims_command=command(targets.get("claims")),
        font=Markup(font.face()),
        policy=Markup(policy(code)),
        script=code and Markup(code),
        live=[part for part in parts.values() if part["spec"]],
        compared=any(row["baseline"] is not None for row in rows),
    )
    heading = wording.line(config.run, scope, groups)
    return html, markdown(heading, scope, first.lines, rows)


def _parts(
    figures: Mapping[str, str],
    excerpts: Mapping[str, str],
    specifications: Mapping[str, str],
    targets: Mapping[str, str],
    figures_at: str,
    command: Callable[[str | None], str | None],
    config: Settings,
    active: bool,
) -> dict[str, dict[str, Any]]:
    """Return what the template shows of each figure and table; ``active``: whether memories can be inactive."""
    parts = {name: _figure(name, svg, figures_at, config.values.target, active) for name, svg in figures.items()}
    parts |= {
        name: {"title": f"{name.replace('table', 'Table ')}: {EXCERPTS[name].title}", "table": Markup(html)}
        for name, html in excerpts.items()
    }
    for name, part in parts.items():
        spec, target = specifications.get(name), targets.get(name)
        part |= {"name": name, "target": target, "command": command(target)}
        part |= {"tables": DRAWN[name].tables if name in DRAWN else ()}
        part |= {"spec": spec and Markup(embedded(spec)), "headline": spec and _headline(spec)}
        if "links" in part and target:
            part["links"].append(("provenance", f"#{name}-provenance"))
    return parts


def _headline(specification: str) -> str | None:
    """Return the headline in a figure's specification, which says what it shows in this run, if it has one."""
    headline = json.loads(specification).get("usermeta", {}).get("headline")
    return headline if isinstance(headline, str) else None


def _section(
    section: outline.PaperSection, parts: Mapping[str, dict[str, Any]], rows: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    shown = [parts[name] for name in section.parts if name in parts]
    return {
        "section": section,
        "answer": answer(section.number, rows),
        "figures": [part for part in shown if "svg" in part],
        "tables": [part for part in shown if "table" in part],
        "parts": [part for part in shown if part["target"]],
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


def _figure(name: str, svg: str, figures_at: str, target: str, active: bool) -> dict[str, Any]:
    text = caption(name, target, active)
    label = f"{title(name)}. {text}"
    links = [
        (text, f"{figures_at}/{name}{suffix}")
        for text, suffix in (("PDF", ".pdf"), ("PNG", ".png"), ("interactive", ".html"), ("data (CSV)", ".csv"))
    ]
    if behind := keys_behind(name):
        links.append(("keys in the gallery", behind))
    return {"title": title(name), "caption": text, "svg": Markup(inline(svg, name, label)), "links": links}


def _command(configfile: str | None, target: str | None) -> str | None:
    """Return the command that reruns one target."""
    if target is None:
        return None
    config = f" --configfile {shlex.quote(configfile)}" if configfile else ""
    return f"snakemake --cores all --resources gpu=1 --force {target}{config}"


def _model(config: Settings, info: Mapping[str, Any]) -> str:
    """Return a run's model by its name."""
    if info["scope"] != "model":
        return config.model.source or "the run's own checkpoint"
    return named(info) + (f" at revision {info['revision']}" if info.get("revision") else "")

"""Build the report: gather what its template shows from tables, model info and config; and its summary as Markdown.

The summary, for a README, an appendix or a pull request, has no corpus text.
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl
from markupsafe import Markup

from ff_memories.base.text import escape_invisible, finished, listed
from ff_memories.config import Settings
from ff_memories.figures.registry import DRAWN, GALLERY, caption, title
from ff_memories.judge import training, wording
from ff_memories.judge.register import register
from ff_memories.judge.sensitivity import changes
from ff_memories.judge.wording import word
from ff_memories.model.info import ABOUT, TITLES, has_inactive
from ff_memories.report import outline
from ff_memories.report.answers import SOURCES, answer, first_lines, looked_at, named
from ff_memories.report.html import embedded, inline, render, script
from ff_memories.report.tables123 import EXCERPTS
from ff_memories.tables.annotation import ANNOTATOR, MODEL, PEOPLE, SIMULATED


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
        row["moved"] = choices and choices["strongest"].get(row["claim"])
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
        script=code and Markup(code),
        live=[part for part in parts.values() if part["spec"]],
        compared=any(row["baseline"] is not None for row in rows),
    )
    heading = wording.line(config.run, scope, groups)
    return html, markdown(heading, scope, first["lines"], rows)


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
        headline = json.loads(spec).get("usermeta", {}).get("headline") if spec else None  # what it shows in this run
        part |= {"spec": spec and Markup(embedded(spec)), "headline": headline if isinstance(headline, str) else None}
    return parts


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
    text, keys = caption(name, target, active), DRAWN[name].keys
    drawing = Markup(inline(svg, name, f"{title(name)}. {text}"))
    at = {"at": f"{figures_at}/{name}", "gallery": keys and GALLERY + keys}
    return {"title": title(name), "caption": text, "svg": drawing, **at}


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

"""The report: everything that its template shows, gathered from tables, model info and config."""

import shlex
from collections import Counter
from collections.abc import Mapping
from typing import Any

import polars as pl
from markupsafe import Markup

from ff_memories.claims.order import natural
from ff_memories.claims.register import register
from ff_memories.config import Settings
from ff_memories.figures.links import keys_behind
from ff_memories.figures.registry import DRAWN, caption, title
from ff_memories.report import interactive
from ff_memories.report.annotation import annotation_section
from ff_memories.report.methods import SOURCES, methods
from ff_memories.report.outline import SECTIONS, Section, part_of, section_of
from ff_memories.report.rendering import render
from ff_memories.report.sensitivity import choices_section
from ff_memories.report.svg import inline

VERDICTS = {
    "reproduced": "✓", "not_reproduced": "✗", "holds": "✓", "holds_as_untrained": "≈", "fails": "✗", "measured": "·",
    "not_applicable": "–", "not_attempted": "○",
}  # fmt: skip
MEANINGS = {
    "reproduced": "the paper's own model and text give what the paper reports",
    "not_reproduced": "they do not",
    "holds": "this model shows the direction that the claim states",
    "holds_as_untrained": "this model shows it, and so does an untrained one",
    "fails": "this model does not show the direction that the claim states",
    "measured": "a number without a verdict, for only the paper's own model could reproduce it",
    "not_applicable": "there is nothing to measure here",
    "not_attempted": "its data was not gathered in this run",
}
FACTS = {
    "layers": "layers", "model": "width", "keys": "keys and values in each layer", "heads": "attention heads",
    "vocab": "token types", "max_positions": "longest input, tokens", "parameters": "parameters",
    "checkpoint_sha256": "SHA-256 of the checkpoint", "dictionary_sha256": "SHA-256 of the dictionary",
    "corpus_sha256": "SHA-256 of the texts", "seed": "seed", "precision": "arithmetic",
}  # fmt: skip


def page(
    claims: pl.DataFrame,
    counts: pl.DataFrame,
    figures: Mapping[str, str],
    tables: Mapping[str, str],
    config: Settings,
    info: Mapping[str, Any],
    targets: Mapping[str, str],
    figures_at: str,
    sensitivity: pl.DataFrame | None = None,
    scores: pl.DataFrame | None = None,
    specifications: Mapping[str, str] | None = None,
    configfile: str | None = None,
) -> str:
    """Return the report as one HTML page that needs nothing but itself.

    Args:
        claims, counts: tables.
        figures: SVG documents by name, ``figure2`` ...; those not given are left out.
        tables: HTML fragments ``table1`` to ``table3``, made by this package.
        config: the whole run's settings.
        info: of the run's model.
        targets: the file that a rerun is asked for, by part (``figure3``, ``table1``, ``claims``).
        figures_at: the folder of the figures, relative to the page.
        sensitivity: the table, where the run measured it.
        scores: the table ``annotation_scores``.
        specifications: of the figures that are interactive, by name; the others stay as they are drawn.
        configfile: the run's config file, for the commands; ``None`` where Snakemake takes it without being told.
    """
    rows = [_row(row) for row in sorted(claims.iter_rows(named=True), key=lambda r: natural(r["claim"]))]
    specs = {name: Markup(interactive.embedded(text)) for name, text in (specifications or {}).items()}
    parts = {
        name: _figure(name, svg, figures_at, config.values.target) | {"spec": specs.get(name)}
        for name, svg in figures.items()
    }
    script = interactive.script() if specs else None
    parts |= {name: {"title": name.replace("table", "Table "), "table": Markup(html)} for name, html in tables.items()}
    for name, part in parts.items():
        part |= {"name": name, "command": _command(configfile, targets.get(name)), "claims": _of_part(rows, name)}
        if "links" in part and name in targets:
            part["links"].append(("provenance", f"#{name}-provenance"))
        part |= {"target": targets.get(name), "tables": DRAWN[name].tables if name in DRAWN else ()}
    own = Counter(row["verdict"] for row in rows)
    return render(
        "report.html.j2",
        run=config.run,
        fidelity=config.fidelity,
        scope=info["scope"],
        model=config.model.source or "the run's own checkpoint",
        summary=_summary(config, info),
        facts=_facts(config, info),
        rows=rows,
        tally=[(verdict, own[verdict]) for verdict in VERDICTS if own[verdict]],
        marks=VERDICTS,
        meanings=MEANINGS,
        sections=[_section(section, parts, rows) for section in SECTIONS],
        sensitivity=None if sensitivity is None else choices_section(sensitivity, parts.get("sensitivity")),
        annotation=None if scores is None else annotation_section(scores),
        counts=[(step, reason.replace("_", " "), n) for step, reason, n in counts.sort("step", "reason").iter_rows()],
        methods=methods(config, dict(info)),
        claims_command=_command(configfile, targets.get("claims")),
        policy=Markup(interactive.policy(script)),
        script=script and Markup(script),
        made=[part for part in parts.values() if part["target"]],
        live=[part for part in parts.values() if part.get("spec")],
        figures_at=figures_at,
    )


def _section(section: Section, parts: Mapping[str, dict[str, Any]], rows: list[dict[str, Any]]) -> dict[str, Any]:
    shown = [parts[name] for name in section.parts if name in parts]
    names = {part["name"] for part in shown}
    others = [row for row in rows if row["section"] == section.number and row["part"] not in names]
    return {"section": section, "parts": shown, "text_claims": others}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    claim = next(claim for claim in register() if claim.id == row["claim"])
    return row | {
        "measured_as": claim.measured_as,
        "unit": claim.unit,
        "section": section_of(claim),
        "part": part_of(claim),
        "directional": claim.directional,
    }


def _of_part(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["part"] == name]


def _figure(name: str, svg: str, figures_at: str, target: str) -> dict[str, Any]:
    said = caption(name, target)
    label = f"{title(name)}. {said}"
    links = [(text, f"{figures_at}/{name}{suffix}") for text, suffix in
             (("PDF", ".pdf"), ("PNG", ".png"), ("interactive", ".html"), ("its numbers (CSV)", ".csv"))]  # fmt: skip
    if behind := keys_behind(name):
        links.append(("the keys behind it", behind))
    return {"title": title(name), "caption": said, "svg": Markup(inline(svg, name, label)), "links": links}


def _command(configfile: str | None, target: str | None) -> str | None:
    """Return the command that makes one target anew."""
    if target is None:
        return None
    config = f" --configfile {shlex.quote(configfile)}" if configfile else ""
    return f"snakemake --cores all --resources gpu=1 --force {target}{config}"


def _summary(config: Settings, info: Mapping[str, Any]) -> str:
    """Return what was looked at, in a sentence."""
    digest = info.get("checkpoint_sha256")
    which = f" (checkpoint {digest[:12]}…)" if digest else ""
    return (
        f"A model of {info['layers']} layers with {info['keys']:,} keys and values each{which}, on "
        f"{SOURCES.get(config.corpus.source, config.corpus.source)}."
    )


def _facts(config: Settings, info: Mapping[str, Any]) -> list[tuple[str, Any]]:
    known = {"corpus_sha256": config.corpus.sha256, "seed": config.seed, "precision": config.precision} | {
        k: v for k, v in info.items() if v is not None
    }
    return [(text, known[key]) for key, text in FACTS.items() if known.get(key) is not None]

"""Write an atlas into a folder: the page, each panel as PDF, SVG, PNG and CSV, and all numbers."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup, escape

from ff_memories.atlas import chart, panels, runs
from ff_memories.atlas.panels import PANELS, Panel
from ff_memories.atlas.runs import Member
from ff_memories.base.errors import UserError
from ff_memories.base.files import replaced_folder, write_whole
from ff_memories.base.text import csv_text, listed
from ff_memories.figures.draw import plotted
from ff_memories.figures.marks import n_per_layer
from ff_memories.figures.registry import DRAWN, title
from ff_memories.figures.render import files as drawn_files
from ff_memories.figures.theme import MODEL_COLOURS
from ff_memories.judge import wording
from ff_memories.judge.register import register
from ff_memories.model.info import ABOUT, quantised
from ff_memories.report.html import inline, render
from ff_memories.report.outline import BEYOND, SECTIONS
from ff_memories.tables import Frames

PAGE, FIGURES, NUMBERS = "atlas.html", "figures", "numbers.csv"
SIDE_BY_SIDE, PLOTTED = "side-by-side.html", "plotted.parquet"
Remarks = tuple[list[str], list[str]]  # warnings and notes


def build(members: Sequence[Member], folder: Path, any_text: bool = False, over: str | None = None) -> Remarks:
    """Write an atlas, and replace an old one only when the new one is complete. Return its warnings and notes.

    ``any_text``: runs may have read unrelated texts. ``over``: what lines are coloured by, if runs have a ``step``.
    Raises ``UserError`` for unrelated texts, too many runs, or a folder with something other than an atlas.
    """
    if over is None and len(members) > len(MODEL_COLOURS):
        hint = "give fewer runs, or --over NAME with numbers as labels"
        raise UserError(f"{len(members)} runs are more than the {len(MODEL_COLOURS)} that lines can tell apart", hint)
    texts = runs.relations(members, any_text)
    different = runs.differences(members)
    remarks = _remarks(members, texts, list(different))
    numbers = {panel.name: panels.numbers(panel, members) for panel in PANELS}
    shown = [panel for panel in PANELS if panel.section != BEYOND or numbers[panel.name].height]
    with replaced_folder(folder, PAGE, "an atlas", (PAGE, FIGURES, NUMBERS, SIDE_BY_SIDE, PLOTTED)) as partial:
        (partial / FIGURES).mkdir()
        figures = [_figure(panel, numbers, members, list(different), over, partial / FIGURES) for panel in shown]
        write_whole(partial / PAGE, page(members, remarks, different, figures))
        every = pl.concat(numbers.values())
        write_whole(partial / NUMBERS, csv_text(every.columns, every.rows()))
        write_whole(partial / SIDE_BY_SIDE, side_by_side(members))
        own = [
            plotted((member.folder / FIGURES).glob("*.csv")).select(pl.lit(member.label).alias("run"), pl.all())
            for member in members
        ]
        pl.concat(own, how="diagonal_relaxed").write_parquet(partial / PLOTTED)
    return remarks


def _remarks(members: Sequence[Member], texts: Sequence[tuple[str, str]], different: list[str]) -> Remarks:
    """Return what makes the runs hard to compare, and what else to know, from relations of ``texts`` and settings."""
    first = f"“{members[0].label}”"
    warnings, notes = [], []
    for member, (how, why) in zip(members, texts, strict=True):
        if how == runs.OTHER:
            warnings.append(f"“{member.label}”: {why}. The text may cause differences from {first}.")
        elif how == runs.RELATED:
            notes.append(f"“{member.label}”: compared with {first}, {why}.")
    if {how for how, _ in texts} == {runs.SAME}:
        notes.append("All runs read the same text.")
    if different:
        warnings.append(f"Settings differ: {listed(different)}. The page has a table of their values.")
    warnings += [f"“{m.label}”: its settings are not known ({m.unknown})." for m in members if m.unknown]
    if any(member.untrained for member in members):
        notes.append("Untrained models have a run's shape and random weights, and look at a smaller part of its text.")
    return warnings, notes


def _figure(
    panel: Panel, numbers: Frames, members: Sequence[Member], different: list[str], over: str | None, folder: Path
) -> dict[str, Any]:
    """Write one panel's files and return what the page shows of it."""
    frame = numbers[panel.name]
    lacking = listed([f"“{m.label}”" for m in members if m.label not in set(frame["label"].to_list())])
    differing = listed([n for n in different if n.partition(".")[0] in (*runs.ALWAYS, *panel.sections)])
    faint = [f"{'grey' if over else 'faint'}, dashed: untrained models"] if frame["untrained"].count() else []
    level = [f"dotted: {panel.chance[1]}"] if panel.chance and frame.height else []
    notes = [
        f"{n_per_layer(frame['n'].to_list(), panel.of)}; bars: 95% bootstrap interval",
        "; ".join([*faint, *level]),
        f"not measured: {lacking}" if lacking and frame.height else "",
        f"settings differ: {differing}" if differing else "",
    ]
    if over:
        steps = pl.DataFrame([(m.label, m.step) for m in members], schema=["label", "step"], orient="row")
        frame = frame.join(steps, on="label", how="left", maintain_order="left")
    shared = [numbers[other.name] for other in PANELS if panel.together and other.together == panel.together]
    top = 1.05 * max((chart.reach(other) for other in shared), default=0)
    describes = f"{panel.title}, by relative depth. {panel.says}"
    labels, shown = [m.label for m in members], [note for note in notes if note]
    drawing = chart.chart(frame, panel, labels, shown, _mark(members), describes, top or None, over)
    files = drawn_files(drawing, panel.name)
    for suffix, content in files.items():
        (folder / f"{panel.name}{suffix}").write_bytes(content)
    write_whole(folder / f"{panel.name}.csv", csv_text(frame.columns, frame.rows()))
    return vars(panel) | {
        "missing": f"Not measured for {lacking}." if lacking else "",
        "differs": f"Settings differ: {differing}." if differing else "",
        "formula": Markup(re.sub(r"_(\w)", r"<sub>\1</sub>", str(escape(panel.formula)))),  # l in y_l is an index
        "svg": Markup(inline(files[".svg"].decode(), panel.name, describes)),
        "rows": frame.rows(named=True),
    }


def _mark(members: Sequence[Member]) -> str:
    """Return whose results a figure shows, if not only the paper's model's."""
    scopes = {str(member.info["scope"]) for member in members}
    if scopes == {"paper"}:
        return ""
    return "not all are the paper's model" if "paper" in scopes else "none is the paper's model"


def side_by_side(members: Sequence[Member]) -> str:
    """Return the page with each of the paper's figures as every run's report has it, side by side."""
    figures = []
    for name, figure in DRAWN.items():
        cells = []
        for place, member in enumerate(members):
            path = member.folder / FIGURES / f"{name}.svg"
            described = f"{title(name)}, {member.label}"
            drawing = inline(path.read_text(encoding="utf-8"), f"run{place}-{name}", described) if path.exists() else ""
            cells.append({"label": member.label, "svg": Markup(drawing)})
        if figure.section and any(cell["svg"] for cell in cells):
            figures.append({"name": name, "title": title(name), "caption": figure.caption, "cells": cells})
    return render("atlas/side_by_side.html.j2", labels=[member.label for member in members], figures=figures)


MANY = 4  # more runs than this do not fit beside a claim's statement
UNKNOWN = "unknown"


def page(
    members: Sequence[Member], remarks: Remarks, different: dict[str, list[Any]], figures: list[dict[str, Any]]
) -> str:
    """Return the page as one self-contained HTML document; ``different``: {setting that differs: each run's value}."""
    many, of_runs, (warnings, notes) = len(members) > MANY, [_facts(member) for member in members], remarks
    facts = {name: [of_run[name] for of_run in of_runs] for name in of_runs[0]}
    claims = [
        vars(claim) | {"paper": claim.paper, "cells": [member.claims.get(claim.id) for member in members]}
        for claim in register()
        if not claim.beyond or any(claim.id in member.claims for member in members)
    ]
    cells = [cell for claim in claims for cell in claim["cells"] if cell]
    return render(
        "atlas/atlas.html.j2",
        runs=[{"label": m.label, "tally": wording.told(wording.counts(m.claims))} for m in members],
        many=many,
        facts={name: values[:1] if many and len(set(values)) == 1 else values for name, values in facts.items()},
        warnings=warnings,
        notes=notes,
        different={name: list(map(_plain, values)) for name, values in different.items()},
        claims=claims,
        definitions=_definitions(members),
        sections=[section for section in SECTIONS if any(f["section"] == section.number for f in figures)],
        figures=figures,
        scopes=[str(member.info["scope"]) for member in members],
        used=[name for name in wording.WORDS if any(cell["standing"] == name for cell in cells)],
    )


def _facts(member: Member) -> dict[str, str]:
    """Return a model's facts for the page; every run has the same."""
    info, read = member.info, member.text
    keys = ("layers", "model", "vocab", "parameters")
    whole = {key: f"{info[key]:,}" if isinstance(info.get(key), int) else UNKNOWN for key in keys}
    both = info.get("signs", 1) > 1
    activation = info.get("activation") or ("relu" if info["scope"] != "model" else UNKNOWN)
    return {
        "run": member.name,
        "model": str(info.get("hub") or info.get("source") or info.get("model_type") or "fairseq transformer_lm"),
        "scope": ABOUT[info["scope"]].partition(":")[0],
        "weights": quantised(info) or "not quantised",
        "layers, L": whole["layers"],
        "width": whole["model"],
        "memories per layer, d_m": f"{member.neurons:,}" + (", each with both signs" if both else ""),
        "activation function": activation + (", gated" if info.get("gated") else ""),
        "token types, V": whole["vocab"],
        "parameters": whole["parameters"],
        "text": (read.source or (listed([Path(file).name for file in read.files]) if read.files else UNKNOWN))
        + (f" ({read.form})" if read.form else ""),
        "untrained models": str(len(member.untrained)),
    }


def _plain(value: Any) -> str:
    """Return a setting for the page: of a path outside the project, its last part; for none, or no config, a dash."""
    if isinstance(value, str) and value.startswith(("/", "~")):
        return Path(value).name
    return "–" if value is None else json.dumps(value) if isinstance(value, dict | list) else str(value)


def _definitions(members: Sequence[Member]) -> list[dict[str, Any]]:
    """Return for each run the definitions that differ from the paper's, with the claims that they apply to."""
    out = []
    for member in members:
        memories = member.resolved["composition"]["memories"] if member.resolved else "active"
        by_text: dict[str, list[str]] = {}
        for claim in register():
            if text := wording.definition(claim.rests_on, member.info, memories):
                by_text.setdefault(text, []).append(claim.id)
        if by_text:
            out.append({"label": member.label, "said": [(", ".join(ids), text) for text, ids in by_text.items()]})
    return out

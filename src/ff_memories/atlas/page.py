"""Write the page of an atlas: what was compared, the verdicts of every run, and the figures with their numbers."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from ff_memories.atlas.member import Member
from ff_memories.base.text import listed
from ff_memories.figures import font
from ff_memories.judge import wording
from ff_memories.judge.register import register
from ff_memories.model.info import ABOUT, quantised
from ff_memories.report.html import inline, policy, render
from ff_memories.report.outline import SECTIONS

MANY = 4  # more runs than this do not fit beside a claim's statement
UNKNOWN = "unknown"


def page(
    members: Sequence[Member],
    warnings: Sequence[str],
    notes: Sequence[str],
    different: Mapping[str, Sequence[Any]],
    figures: Sequence[Mapping[str, Any]],
) -> str:
    """Return the page as one self-contained HTML document.

    Args:
        members: the runs, in order.
        warnings: what makes the runs hard to compare.
        notes: what a reader should know besides.
        different: {setting: each run's value} of the settings that differ.
        figures: each panel with its SVG and rows of numbers.
    """
    runs, many, claims = _runs(members), len(members) > MANY, _claims(members)
    facts = {name: [run["facts"][name] for run in runs] for name in runs[0]["facts"]}
    cells = [cell for claim in claims for cell in claim["cells"] if cell]
    return render(
        "atlas/atlas.html.j2",
        runs=runs,
        many=many,
        facts={name: values[:1] if many and len(set(values)) == 1 else values for name, values in facts.items()},
        warnings=warnings,
        notes=notes,
        different={
            name: [_plain(name, value, member) for value, member in zip(values, members, strict=True)]
            for name, values in different.items()
        },
        claims=claims,
        definitions=_definitions(members),
        sections=_sections(figures),
        scopes=[str(member.info["scope"]) for member in members],
        used=[name for name in wording.WORDS if any(cell["standing"] == name for cell in cells)],
        font=Markup(font.face()),
        policy=Markup(policy(None)),
    )


def _figure(figure: Mapping[str, Any]) -> dict[str, Any]:
    drawing = Markup(inline(figure["svg"], figure["name"], figure["describes"]))
    return dict(figure) | {"svg": drawing, "formula": formula(figure["formula"])}


def formula(text: str) -> Markup:
    """Return a formula in plain text as HTML: the letter after an underscore becomes an index."""
    return Markup(re.sub(r"_(\w)", r"<sub>\1</sub>", str(escape(text))))


def _runs(members: Sequence[Member]) -> list[dict[str, Any]]:
    tallies = [wording.told(wording.counts(member.claims)) for member in members]
    return [
        {"name": member.name, "label": member.label, "tally": tally, "facts": _facts(member)}
        for member, tally in zip(members, tallies, strict=True)
    ]


def _facts(member: Member) -> dict[str, str]:
    """Return a model's facts for the page; every run has the same."""
    info, read = member.info, member.text
    whole = lambda key: f"{info[key]:,}" if isinstance(info.get(key), int) else UNKNOWN
    both = info.get("signs", 1) > 1
    activation = info.get("activation") or ("relu" if info["scope"] != "model" else UNKNOWN)
    return {
        "run": member.name,
        "model": str(info.get("hub") or info.get("source") or info.get("model_type") or "fairseq transformer_lm"),
        "scope": ABOUT[info["scope"]].partition(":")[0],
        "weights": quantised(info) or "not quantised",
        "layers, L": whole("layers"),
        "width": whole("model"),
        "memories per layer, d_m": f"{member.neurons:,}" + (", each with both signs" if both else ""),
        "activation function": activation + (", gated" if info.get("gated") else ""),
        "token types, V": whole("vocab"),
        "parameters": whole("parameters"),
        "text": (read.source or (listed([Path(file).name for file in read.files]) if read.files else UNKNOWN))
        + (f" ({read.form})" if read.form else ""),
        "untrained models": str(len(member.untrained)),
    }


def _plain(name: str, value: Any, member: Member) -> str:
    if member.resolved is None or not member.resolved[name.partition(".")[0]]:
        return UNKNOWN
    return "none" if value is None else json.dumps(value) if isinstance(value, dict | list) else str(value)


def _claims(members: Sequence[Member]) -> list[dict[str, Any]]:
    return [
        vars(claim) | {"paper": claim.paper, "cells": [member.claims.get(claim.id) for member in members]}
        for claim in register()
        if not claim.beyond or any(claim.id in member.claims for member in members)
    ]


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


def _sections(figures: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the figures under the paper's sections."""
    of = {section.number: [_figure(f) for f in figures if f["section"] == section.number] for section in SECTIONS}
    return [
        {"number": section.number, "title": section.title, "heading": section.heading, "figures": of[section.number]}
        for section in SECTIONS
        if of[section.number]
    ]

"""The figures' interactive side: Vega once for the whole page, each figure's specification, and what may run."""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

import vl_convert
from markupsafe import Markup

from ff_memories.figures.font import face
from ff_memories.report.rendering import render


@cache
def vega(version: str | None = None) -> str:
    """Return Vega as one script, with the Vega-Lite of this version, or else the newest."""
    return vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]  # its stub lacks the defaults


def _ours(name: str) -> str:
    return files("ff_memories.report").joinpath("templates", name).read_text(encoding="utf-8")


def _enclosed(text: str) -> str:
    return text.replace("</script", r"<\/script")


@cache
def script() -> str:
    """Return the one script of the page: Vega, and a few lines that put it in the place of the still figures."""
    return _enclosed(f"{vega()}\n{_ours('interactive.js')}")


def figure_page(title: str, caption: str, specification: dict[str, Any], version: str) -> str:
    """Return a page with one figure that fills its window, Vega-Lite of this version and the font inside."""
    held = json.dumps(specification, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    text = _enclosed(f"{vega(version)}\nconst spec = {_escaped(held)};\n{_ours('figure.js')}")
    return render(
        "figure.html.j2",
        title=title,
        caption=caption,
        face=Markup(face()),
        policy=Markup(policy(text)),
        script=Markup(text),
    )


def policy(text: str | None) -> str:
    """Return the page's content security policy: no script runs but this one, nothing but a page beside it is shown."""
    allowed = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
    allowed += "; base-uri 'none'; form-action 'none'; object-src 'self' file:; frame-src 'self' file:"
    if text is None:
        return allowed
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"{allowed}; script-src 'sha256-{digest}'"


def embedded(specification: str) -> str:
    """Return a specification as JSON that can stand within a ``script`` element. Raises ``ValueError`` where not JSON.

    Its description is left out: the page says in its own place what a figure shows.
    """
    held: dict[str, Any] = json.loads(specification)
    held.pop("description", None)
    text = json.dumps(held, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return _escaped(text)


def _escaped(text: str) -> str:
    return text.replace("<", r"\u003c")

"""Make figures interactive: one copy of Vega per page, each figure's specification, and the script policy."""

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
    """Return Vega as one script, with this version of Vega-Lite or, by default, the newest."""
    return vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]  # its stub lacks the defaults


def _ours(name: str) -> str:
    return files("ff_memories.report").joinpath("templates", name).read_text(encoding="utf-8")


def _enclosed(text: str) -> str:
    return text.replace("</script", r"<\/script")


@cache
def script() -> str:
    """Return the page's script: Vega, and the code that replaces static figures by interactive ones."""
    return _enclosed(f"{vega()}\n{_ours('report/interactive.js')}")


def figure_page(name: str, title: str, caption: str, specification: dict[str, Any], version: str) -> str:
    """Return a self-contained page with one figure that fills its window, using this version of Vega-Lite.

    ``name``: the figure's place in the report of its run, to which the page leads back.
    """
    held = json.dumps(specification, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    text = _enclosed(f"{vega(version)}\nconst spec = {_escaped(held)};\n{_ours('report/figure.js')}")
    return render(
        "report/figure.html.j2",
        name=name,
        title=title,
        caption=caption,
        face=Markup(face()),
        policy=Markup(policy(text)),
        script=Markup(text),
    )


def policy(text: str | None) -> str:
    """Return the page's content security policy: only this script runs, and only pages beside it can be embedded."""
    allowed = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
    allowed += "; base-uri 'none'; form-action 'none'; object-src 'self' file:; frame-src 'self' file:"
    if text is None:
        return allowed
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"{allowed}; script-src 'sha256-{digest}'"


def embedded(specification: str) -> str:
    """Return a specification as JSON that is safe inside a ``script`` element. Raises ``ValueError`` if it is not JSON.

    Omits the description, since the page shows the caption itself.
    """
    held: dict[str, Any] = json.loads(specification)
    held.pop("description", None)
    text = json.dumps(held, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return _escaped(text)


def _escaped(text: str) -> str:
    return text.replace("<", r"\u003c")

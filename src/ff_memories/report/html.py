"""Render the templates; embed figures and scripts: a page needs nothing else."""

import base64
import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from markupsafe import Markup

from ff_memories.base.text import counted, latex, opened
from ff_memories.base.text import environment as templates
from ff_memories.figures.registry import title
from ff_memories.judge import wording
from ff_memories.judge.numbers import measured, number, spread
from ff_memories.model.info import NOTICES, mark_latex

if TYPE_CHECKING:
    from jinja2 import Environment

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_REFERENCE = re.compile(r"url\(\s*['\"]?#([^'\")]+)['\"]?\s*\)")


@cache
def environment() -> "Environment":
    from ff_memories.figures.render import face  # altair takes a second to load

    jinja = templates("report")
    jinja.filters |= {"number": number, "measured": measured, "spread": spread, "latex": latex, "counted": counted}
    jinja.filters["notice"] = NOTICES.__getitem__
    jinja.globals |= {"words": wording.WORDS, "word": wording.word, "limits": wording.LIMITS}
    jinja.globals |= {"opened": opened, "mark_latex": mark_latex, "face": face, "policy": policy}
    return jinja


def render(template: str, **context: object) -> str:
    """Return a rendered template of the report."""
    return environment().get_template(template).render(**context)


def inline(source: str, name: str, label: str) -> str:
    """Return an SVG document as part of a page that embeds its font (``face``): its ids start with ``name``."""
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(source)
    for parent in root.iter():
        for child in [c for c in parent if str(c.tag).endswith(("}script", "}foreignObject", "}style"))]:
            parent.remove(child)
    labels = ("role", "aria-label", "aria-roledescription")  # of every shape; a screen reader should read one figure
    for element in root.iter():
        kept = [key for key in element.attrib if key not in labels and not key.lower().startswith("on")]
        element.attrib = {key: _prefixed(key, element.attrib[key], name) for key in kept}
    root.set("role", "img")
    root.set("aria-label", label)
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _prefixed(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key in ("href", f"{{{XLINK}}}href") and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    return _REFERENCE.sub(lambda found: f"url(#{name}-{found[1]})", value)


@cache
def vega(version: str | None = None) -> str:
    """Return Vega as one script, with this version of Vega-Lite or, by default, the newest."""
    import vl_convert  # takes a while

    return vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]  # its stub lacks the defaults


def ours(name: str) -> str:
    """Return the text of a script among the templates."""
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def _enclosed(text: str) -> str:
    return text.replace("</script", r"<\/script")


@cache
def script() -> str:
    """Return the page's script: Vega, and the code that replaces static figures by interactive ones."""
    return _enclosed(f"{vega()}\n{ours('report/interactive.js')}")


def figure_page(name: str, specification: dict[str, Any]) -> str:
    """Return a self-contained page with one figure that fills its window, from its Vega-Lite."""
    version = re.findall(r"/v(\d+\.\d+)", specification["$schema"])[0]
    text = _enclosed(f"{vega(version)}\nconst spec = {compact(specification)};\n{ours('report/figure.js')}")
    caption = specification["description"]
    return render("report/figure.html.j2", name=name, title=title(name), caption=caption, script=Markup(text))


def policy(text: str | None = None) -> str:
    """Return the page's content security policy: only this script runs, and only pages beside it can be embedded."""
    allowed = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
    allowed += "; base-uri 'none'; form-action 'none'; object-src 'self' file:; frame-src 'self' file:"
    if text is None:
        return allowed
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"{allowed}; script-src 'sha256-{digest}'"


def compact(data: dict[str, Any]) -> str:
    """Return data as JSON that is safe inside a ``script`` element."""
    text = json.dumps(data, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return text.replace("<", r"\u003c")

"""The figures' interactive side: Vega once for the whole page, each figure's specification, and what may run."""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

import vl_convert


@cache
def script() -> str:
    """Return the one script of the page: Vega, and a few lines that put it in the place of the still figures."""
    ours = files("ff_memories.report").joinpath("templates", "interactive.js").read_text(encoding="utf-8")
    vega = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub lacks the defaults
    return f"{vega}\n{ours}".replace("</script", r"<\/script")


def policy(text: str | None) -> str:
    """Return the page's content security policy: no script runs but this one, nothing but a page beside it is shown."""
    allowed = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    allowed += "; object-src 'self' file:; frame-src 'self' file:"
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
    return text.replace("<", r"\u003c")

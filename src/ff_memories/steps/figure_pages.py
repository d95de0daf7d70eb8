"""Build figures' interactive pages from their specifications. A page contains Vega and the data and works offline.

Pages are rebuilt on every machine rather than shared, because a page's JavaScript is 200 times as long as its
specification.
"""

import json
import re
from pathlib import Path

from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import Inputs, Outputs
from ff_memories.figures.registry import title
from ff_memories.report.interactive import figure_page


def run(specs: Inputs, pages: Outputs) -> None:
    """Write the pages in one step, because bundling Vega takes longer than everything else.

    Args:
        specs: the figures' specifications, FIGURE.vl.json
        pages: files to write: FIGURE.html, in the same order
    """
    if len(specs) != len(pages):
        raise UserError(f"--pages: {len(pages)} for {len(specs)} specifications", "give one page per specification")
    for spec, page in zip(specs, pages, strict=True):
        write_whole(page, interactive(spec))


def interactive(spec: Path) -> str:
    """Return a figure's page as HTML. Raises ``UserError`` if the specification cannot be read."""
    try:
        drawn = json.loads(spec.read_text(encoding="utf-8"))
        version = re.findall(r"/v(\d+\.\d+)", drawn["$schema"])[0]
        caption = drawn["description"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UserError(f"{spec}: not readable ({error})", rebuild_hint(str(spec))) from None
    name = spec.name.removesuffix(".vl.json")
    return figure_page(name, title(name), caption, drawn, version)

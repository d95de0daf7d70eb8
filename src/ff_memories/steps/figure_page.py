"""Make a figure's interactive page of its specification: Vega and the data inside, so that it needs no network.

The page is made where it is looked at: the JavaScript in it is 200 times as long as the specification.
"""

import html
import json
import re

import vl_convert

from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import Input, Output
from ff_memories.figures.registry import title


def run(spec: Input, page: Output) -> None:
    """Write the page.

    Args:
        spec: a figure's specification, FIGURE.vl.json
        page: FIGURE.html
    """
    try:
        drawn = json.loads(spec.read_text(encoding="utf-8"))
        version = re.findall(r"/v(\d+\.\d+)", drawn["$schema"])[0]
        name = f"{title(spec.name.removesuffix('.vl.json'))}: {drawn['description']}"
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UserError(f"{spec}: not readable ({error})", rebuild_hint(str(spec))) from None
    text = vl_convert.vegalite_to_html(drawn, vl_version=version, bundle=True)
    write_whole(page, re.sub(r"<title>.*?</title>", lambda _: f"<title>{html.escape(name)}</title>", text, count=1))

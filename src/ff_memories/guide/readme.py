"""The README's lines on the demo, from what a run came to."""

import re
from collections.abc import Mapping
from typing import Any

BEGIN, END = "<!-- the demo's verdicts: ff-memories readme -->", "<!-- end -->"


def facts(claims: Mapping[str, Mapping[str, Any]], run: str, scope: str) -> dict[str, Any]:
    """Return what the README says of a run: its name, its scope, and how often each verdict was given."""
    verdicts = [claim["verdict"] for claim in claims.values()]
    return {"run": run, "scope": scope, "verdicts": {name: verdicts.count(name) for name in sorted(set(verdicts))}}


def badge(known: Mapping[str, Any]) -> str:
    """Return the line: ``demo (surrogate): 11 hold, 5 fail, 14 not applicable``."""
    words = {"holds": "hold", "fails": "fail"}
    order = ["reproduced", "not_reproduced", "holds", "fails", "not_applicable", "not_attempted"]
    told = [f"{known['verdicts'][v]} {words.get(v, v.replace('_', ' '))}" for v in order if v in known["verdicts"]]
    return f"**{known['run']} ({known['scope']}): {', '.join(told)}**"


def renewed(text: str, known: Mapping[str, Any]) -> str:
    """Return the README with its line renewed. Raises ``ValueError`` where the place for it is missing."""
    place = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)
    if not place.search(text):
        raise ValueError(f"there is no {BEGIN} … {END}")
    return place.sub(lambda _: f"{BEGIN}\n{badge(known)}\n{END}", text, count=1)

"""Update the README's line of verdicts and its Figure 11 from the demo run; docs/data/demo.json keeps the data.

``--results`` names the run. trace_picture.py and atlas_pictures.py make the README's other pictures.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pages import ROOT, options, renew, replaced

from ff_memories.base.files import write_whole
from ff_memories.judge import wording
from ff_memories.model.info import read_info

KEPT, PICTURE, FIGURE = Path("docs/data/demo.json"), Path("docs/pictures/demo.svg"), "figure11"
BEGIN = "<!-- the demo's verdicts: python docs/tools/readme.py -->"


def facts(claims: Mapping[str, Mapping[str, Any]], run: str, scope: str) -> dict[str, Any]:
    """Return the README's facts about a run: its name, its scope and the count of each verdict."""
    return {"run": run, "scope": scope, "verdicts": wording.counts(claims)}


def badge(known: Mapping[str, Any]) -> str:
    """Return the README's line with a run's verdicts."""
    return f"**{wording.line(known['run'], known['scope'], known['verdicts'])}**"


def of_run(results: Path) -> tuple[dict[str, Any], str]:
    """Return the README's facts about a run, and its picture."""
    claims = json.loads((results / "claims.json").read_text(encoding="utf-8"))
    scope = read_info(str(results / "model/info.json"))["scope"]
    return facts(claims, results.name, scope), (results / f"figures/{FIGURE}.svg").read_text(encoding="utf-8")


def main(argv: list[str] | None = None) -> None:
    parser = options(__doc__, ROOT / "README.md")
    parser.add_argument("--results", type=Path, help=f"a run's folder; default: the data in {KEPT}")
    args = parser.parse_args(argv)
    root = args.out.parent
    try:
        known, picture = of_run(args.results) if args.results else (json.loads((root / KEPT).read_text()), None)
        new = replaced(args.out.read_text(encoding="utf-8"), BEGIN, badge(known))
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"{args.out}: cannot make the line of verdicts ({error}); run snakemake first")
    if picture is not None and not args.check:
        write_whole(root / KEPT, json.dumps(known, indent=1, sort_keys=True) + "\n")
        write_whole(root / PICTURE, picture)
    renew(args.out, new, args.check)


if __name__ == "__main__":
    main()

"""Update the README's line of verdicts and its pictures from runs; docs/data/demo.json keeps the data.

``--results`` names the demo run. The second picture needs the runs of the other demo models beside it.
"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pages import ROOT, options, renew

from ff_memories.base.files import write_whole
from ff_memories.claims import summary
from ff_memories.model.info import read_info

KEPT, PICTURE, FIGURE = Path("docs/data/demo.json"), Path("docs/pictures/demo.svg"), "figure11"
SECOND = Path("docs/pictures/demo-models.svg")
MODELS = {"demo-gpt2": "GPT-2, 12 layers", "demo-llama": "Llama, 8 layers"}
SIZE = re.compile(r'<svg[^>]*\swidth="([\d.]+)"[^>]*\sheight="([\d.]+)"')
BEGIN, END = "<!-- the demo's verdicts: python docs/tools/readme.py -->", "<!-- end -->"


def facts(claims: Mapping[str, Mapping[str, Any]], run: str, scope: str) -> dict[str, Any]:
    """Return the README's facts about a run: its name, its scope and the count of each verdict."""
    return {"run": run, "scope": scope, "verdicts": summary.counts(claims)}


def badge(known: Mapping[str, Any]) -> str:
    """Return the README's line with a run's verdicts."""
    return f"**{summary.line(known['run'], known['scope'], known['verdicts'])}**"


def renewed(text: str, known: Mapping[str, Any]) -> str:
    """Return the README with the line updated. Raises ``ValueError`` if the line's markers are missing."""
    place = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)
    if not place.search(text):
        raise ValueError(f"it has no {BEGIN} … {END}")
    return place.sub(lambda _: f"{BEGIN}\n{badge(known)}\n{END}", text, count=1)


def of_run(results: Path) -> tuple[dict[str, Any], str]:
    """Return the README's facts about a run, and its picture."""
    claims = json.loads((results / "claims.json").read_text(encoding="utf-8"))
    scope = read_info(str(results / "model/info.json"))["scope"]
    return facts(claims, results.name, scope), (results / f"figures/{FIGURE}.svg").read_text(encoding="utf-8")


def side_by_side(pictures: Mapping[str, str], titled: bool = True) -> str:
    """Return one SVG with several beside each other, each under its title unless ``titled`` is false."""
    parts, at, tallest, above = [], 0.0, 0.0, 18 if titled else 0
    for title, picture in pictures.items():
        width, height = (float(side) for side in SIZE.findall(picture)[0])
        inner = re.sub(r"^.*?(?=<svg)", "", picture, flags=re.DOTALL).replace("<svg", f'<svg x="{at}" y="{above}"', 1)
        middle = f'x="{at + width / 2}" y="12" text-anchor="middle" font-family="sans-serif" font-size="11"'
        parts.append((f"<text {middle}>{title}</text>" if titled else "") + inner)
        at, tallest = at + width, max(tallest, height)
    size = f'width="{at}" height="{tallest + above}" viewBox="0 0 {at} {tallest + above}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>\n'


def main(argv: list[str] | None = None) -> None:
    parser = options(__doc__, ROOT / "README.md")
    parser.add_argument("--results", type=Path, help=f"a run's folder; default: the data in {KEPT}")
    args = parser.parse_args(argv)
    root = args.out.parent
    try:
        known, picture = of_run(args.results) if args.results else (json.loads((root / KEPT).read_text()), None)
        new = renewed(args.out.read_text(encoding="utf-8"), known)
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"{args.out}: cannot make the line of verdicts ({error}); run snakemake first")
    if picture is not None and not args.check:
        write_whole(root / KEPT, json.dumps(known, indent=1, sort_keys=True) + "\n")
        write_whole(root / PICTURE, picture)
        drawn = {said: args.results.parent / run / f"figures/{FIGURE}.svg" for run, said in MODELS.items()}
        if all(path.is_file() for path in drawn.values()):
            pictures = {said: path.read_text(encoding="utf-8") for said, path in drawn.items()}
            write_whole(root / SECOND, side_by_side(pictures))
    renew(args.out, new, args.check)


if __name__ == "__main__":
    main()

"""Update docs/atlas.md from atlases: its pictures, and its sentences on training. docs/data/atlas.json keeps the data.

``--models`` names an atlas of the recorded runs, ``--training`` one of the runs over training steps:

    python -m data.training_steps
    python docs/tools/atlas_pictures.py --training results/training-steps
"""

import csv
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pages import ROOT, options, renew, replaced

from ff_memories.base.files import write_whole
from ff_memories.figures import render

KEPT = Path("data/atlas.json")
PICTURES = {"models": Path("pictures/atlas.svg"), "training": Path("pictures/training-steps.svg")}
SHOWN = {"models": ("agreement", "residual"), "training": ("agreement", "rank", "residual")}
SIZE = re.compile(r'<svg[^>]*\swidth="([\d.]+)"[^>]*\sheight="([\d.]+)"')
LARGEST = 60_000  # bytes of a picture
BEGIN = "<!-- over training: python docs/tools/atlas_pictures.py -->"


def drawing(spec: dict[str, Any], name: str, bars: bool) -> str:
    """Return a panel as a small SVG: without the font, which readers' machines replace, and without hidden texts.

    Args:
        spec: the panel's Vega-Lite specification.
        bars: whether to draw intervals and points, and not only lines.
    """
    if not bars:
        layers = [layer for layer in spec["layer"] if layer["encoding"].get("y2") is None]
        points = layers.pop()
        line = next(layer for layer in reversed(layers) if layer["mark"]["type"] == "line")
        line["encoding"]["color"] = points["encoding"]["color"]  # which has the legend
        spec = spec | {"layer": layers}
    spec["title"]["subtitle"] = [line.replace("; bars: 95% bootstrap interval", "") if not bars else line
                                 for line in spec["title"]["subtitle"]]  # fmt: skip
    return small(render.svg(spec, name))


def small(svg: str) -> str:
    """Return an SVG without hidden texts, and with coordinates to a tenth of a point."""
    svg = re.sub(r' (?:aria-[a-z]+|role|class|pointer-events)="[^"]*"', "", svg)
    numbers = re.compile(r"-?\d+\.\d{2,}(?:e-?\d+)?")
    rounded = lambda found: numbers.sub(lambda n: f"{float(n[0]):.1f}".removesuffix(".0"), found[0])
    return re.sub(r' (?:d|transform|x1|x2|y1|y2)="[^"]*"', rounded, svg)


def facts(numbers: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return the numbers of the sentences on training: each measure's mean over the layers at every checkpoint.

    ``numbers``: the rows of an atlas's numbers.csv, whose labels are the numbers of updates.
    """
    steps = {row["label"]: float(row["label"].replace(",", "")) for row in numbers}
    first, *_ = in_order = sorted(steps, key=steps.__getitem__)
    out: dict[str, Any] = {
        "steps": [steps[label] for label in in_order],
        "layers": max(int(row["layer"]) for row in numbers),
    }
    for panel in SHOWN["training"]:
        rows = [row for row in numbers if row["panel"] == panel]
        mean = lambda column, label: _mean(row[column] for row in rows if row["label"] == label)  # noqa: B023
        out[panel] = [round(mean("value", label), 4) for label in in_order]
        out[f"untrained {panel}"] = round(mean("untrained", first), 4)
    return out


def _mean(values: Iterable[str]) -> float:
    found = [float(value) for value in values if value]
    return sum(found) / len(found)


def said(known: Mapping[str, Any]) -> str:
    """Return the sentences on training."""
    steps: Sequence[float] = known["steps"]
    agreement, rank, residual = (known[name] for name in SHOWN["training"])
    most, least = agreement.index(max(agreement)), rank.index(min(rank))
    at = lambda place: f"{steps[place]:,.0f} update" + ("" if steps[place] == 1 else "s")
    text = (
        f"All numbers are means over {known['layers']} layers. After {at(0)}, values agree with the next token "
        f"{agreement[0]:.0f} times as often as chance, after {at(most)} {agreement[most]:.0f} times, and at "
        f"the end {agreement[-1]:.0f} times; untrained ones {known['untrained agreement']:.1f} times. "
        f"The next token's median rank falls from {known['untrained rank']:.0%} of the token types without training to "
        f"{rank[least]:.1%} after {at(least)}"
        + (f", and then rises to {rank[-1]:.1%}. " if least < len(rank) - 1 else ". ")
        + f"The residual predicts the output in {known['untrained residual']:.0%} of examples without training, in "
        f"{residual[0]:.0%} after {at(0)}, and in {residual[-1]:.0%} at the end."
    )
    return "\n".join(_wrapped(text.replace("%", " %")))


def _wrapped(text: str, width: int = 120) -> list[str]:
    lines = [""]
    for word in text.replace(" %", "\u00a0%").split(" "):
        if len(lines[-1]) + len(word) + 1 > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [line.replace("\u00a0", " ") for line in lines]


def side_by_side(pictures: Sequence[str], columns: int = 9) -> str:
    """Return one SVG with several beside each other, in rows of so many."""
    parts, across, down = [], 0.0, 0.0
    for start in range(0, len(pictures), columns):
        at, tallest = 0.0, 0.0
        for drawn in pictures[start : start + columns]:
            width, height = (float(side) for side in SIZE.findall(drawn)[0])
            inner = re.sub(r"^.*?(?=<svg)", "", drawn, flags=re.DOTALL)
            parts.append(inner.replace("<svg", f'<svg x="{at}" y="{down:g}"', 1))
            at, tallest = at + width, max(tallest, height)
        across, down = max(across, at), down + tallest
    size = f'width="{across}" height="{down}" viewBox="0 0 {across} {down}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>\n'


def picture(atlas: Path, kind: str) -> str:
    """Return an atlas's panels side by side."""
    read = lambda panel: json.loads((atlas / "figures" / f"{panel}.vl.json").read_text(encoding="utf-8"))
    made = side_by_side([drawing(read(panel), panel, bars=kind == "models") for panel in SHOWN[kind]])
    if len(made.encode()) > LARGEST:
        raise ValueError(f"the picture has {len(made.encode()):,} bytes, more than {LARGEST:,}")
    return made


def main(argv: list[str] | None = None) -> None:
    parser = options(__doc__, ROOT / "docs" / "atlas.md")
    for kind, path in PICTURES.items():
        parser.add_argument(f"--{kind}", type=Path, help=f"an atlas's folder, to draw docs/{path} anew")
    args = parser.parse_args(argv)
    root, given = args.out.parent, {kind: getattr(args, kind) for kind in PICTURES if getattr(args, kind)}
    try:
        pictures = {kind: picture(atlas, kind) for kind, atlas in given.items()}
        if "training" in given:
            with (given["training"] / "numbers.csv").open(encoding="utf-8", newline="") as file:
                known = facts([*csv.DictReader(file)])
        else:
            known = json.loads((root / KEPT).read_text(encoding="utf-8"))
        new = replaced(args.out.read_text(encoding="utf-8"), BEGIN, said(known))
    except (OSError, ValueError, LookupError, TypeError) as error:
        sys.exit(f"{args.out}: cannot draw its pictures ({error}); draw the atlas first with ff-memories atlas")
    if not args.check:
        write_whole(root / KEPT, json.dumps(known, indent=1, sort_keys=True) + "\n")
        for kind, drawn in pictures.items():
            write_whole(root / PICTURES[kind], drawn)
    renew(args.out, new, args.check)


if __name__ == "__main__":
    main()

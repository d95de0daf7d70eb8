"""Update docs/findings.md and the README's results from recorded runs; docs/data/findings.json keeps the data.

``--results`` names the runs' folders, the one that leads first:

    python docs/tools/findings.py --results results/smollm2 results/stories15m results/demo
"""

import json
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pages import ROOT, options, renew, replaced

from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.judge import wording
from ff_memories.judge.numbers import measured, spread
from ff_memories.judge.register import register
from ff_memories.model.info import read_info
from ff_memories.report import outline
from ff_memories.report.answers import answer, clause

KEPT, PICTURE, FIGURE = Path("docs/data/findings.json"), Path("docs/pictures/findings.svg"), "figure4"
BEGIN = "<!-- real models: python docs/tools/findings.py -->"
DECIDED = {"higher": "raised", "lower": "lowered", "same": "the same"}
KEYS = ("claim", "verdict", "training", "measured", "low", "high", "sample", "baseline", "shuffled")
INTRODUCTION = """\
# What the models show

This page puts the [paper's claims](paper.md) beside what each [recorded run](index.md#other-runs) measured, from the
runs' tables. Brackets show 95 % intervals; [results](results.md#verdicts) says how claims are judged. Beside each
run stand the same number for [untrained models](paper.md#untrained-model) of its shape (their mean), for a model with
its own weights in a random order, and its own on the same sample of sentences, and whether training raises or lowers
the number. The words: [trigger](paper.md#trigger), [active memory](paper.md#active-memory) and
[residual](paper.md#residual).

None of these is the paper's model, so nothing here confirms or refutes the paper's own numbers. A
[proxy](paper.md#proxy) labelled what K6 to K9 and K30 count. A run is of one trained model and says nothing of another.
`stories15m` was trained on children's stories and reads Wikipedia here: its perplexity is high because of the text.

![Figure 4 of the first run: how often values predict the token after their keys' triggers](pictures/findings.svg)
"""


def of_run(results: Path) -> dict[str, Any]:
    """Return what the page says of a run: its first lines, an answer for each section, and its claims' numbers.

    Raises:
        ValueError: the run's summary is not of its verdicts.
    """
    baselines = results / "tables/baselines.parquet"
    rows = outline.rows(
        tables.read(results / "tables/claims.parquet"), tables.read(baselines) if baselines.exists() else None
    )
    claims = json.loads((results / "claims.json").read_text(encoding="utf-8"))
    scope = read_info(str(results / "model/info.json"))["scope"]
    heading = wording.line(results.name, scope, wording.counts(claims))
    first = wording.first_lines((results / "summary.md").read_text(encoding="utf-8"), heading)
    if first is None:
        raise ValueError(f"{results}/summary.md is of other verdicts")
    return {
        "run": results.name,
        "heading": heading,
        "first": first,
        "readme": [clause(row) for row in rows if row["shown"] == "first" and row["measured"] is not None],
        "answers": {section.number: answer(section.number, rows) for section in outline.SECTIONS},
        "claims": [{key: row[key] for key in KEYS} for row in rows],
    }


def page(known: Sequence[Mapping[str, Any]]) -> str:
    """Return docs/findings.md."""
    out = [INTRODUCTION, *(_run(run) for run in known)]
    return "\n".join([*out, *(_section(section, known) for section in outline.SECTIONS)])


def _run(run: Mapping[str, Any]) -> str:
    return f"## {_plain(run['heading'])}\n\n{_filled(run['first'][0])}\n"


def _section(section: outline.PaperSection, known: Sequence[Mapping[str, Any]]) -> str:
    place, title = section.heading, section.title
    out = [f"## {place[0].upper()}{place[1:]}: {title[0].lower()}{title[1:]}", "", section.question, ""]
    columns = [name for run in known for name in (run["run"], "untrained; shuffled; same sentences")]
    out += ["| claim | paper | " + " | ".join(columns) + " |", "|---" * (len(columns) + 2) + "|"]
    for claim in (claim for claim in register() if outline.section_of(claim) == section.number):
        cells = [f"{claim.id}: {claim.measured_as}", claim.paper_value]
        for run in known:
            row = next((row for row in run["claims"] if row["claim"] == claim.id), None)
            cells += ["not measured", ""] if row is None else [_here(row, claim.unit), _beside(row, claim.unit)]
        out.append("| " + " | ".join(map(_plain, cells)) + " |")
    return "\n".join([*out, ""])


def _filled(text: str, start: str = "") -> str:
    """Return a paragraph or an item as lines that fit the page."""
    return textwrap.fill(start + _plain(text), 120, subsequent_indent="  " * (start == "- "), break_on_hyphens=False)


def _here(row: Mapping[str, Any], unit: str) -> str:
    if row["measured"] is None:
        return wording.word(row["verdict"])
    interval = spread(row["low"], row["high"], unit)
    told = measured(row["measured"], unit) + (f" ({interval})" if interval else "")
    return told if row["verdict"] == "measured" else f"{told}: {wording.word(row['verdict'])}"


def _beside(row: Mapping[str, Any], unit: str) -> str:
    numbers = [row[column] for column in ("baseline", "shuffled", "sample")]
    if not any(number is not None for number in numbers):
        return ""
    said = "; ".join("–" if number is None else measured(number, unit) for number in numbers)
    return f"{said}: {DECIDED.get(row['training'], 'undecided')}" if row["training"] else said


def _plain(text: str) -> str:
    """Return text escaped for a Markdown table."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", text).replace("\n", " ")


def led(readme: str, known: Sequence[Mapping[str, Any]]) -> str:
    """Return the README with the first run's findings. Raises ``ValueError`` if its markers are missing."""
    lines = "\n".join(_filled(f"{said}.", "- ") for said in known[0]["readme"])
    return replaced(readme, BEGIN, f"**{_plain(known[0]['heading'])}**\n\n{lines}")


def main(argv: list[str] | None = None) -> None:
    parser = options(__doc__, ROOT / "docs/findings.md")
    parser.add_argument("--results", type=Path, nargs="+", help=f"runs' folders; default: the data in {KEPT}")
    args = parser.parse_args(argv)
    root = args.out.parents[1]
    readme = root / "README.md"
    try:
        known = [of_run(run) for run in args.results] if args.results else json.loads((root / KEPT).read_text())
        picture = args.results and (args.results[0] / f"figures/{FIGURE}.svg").read_text(encoding="utf-8")
        new, leading = page(known), led(readme.read_text(encoding="utf-8"), known)
    except (OSError, ValueError, KeyError, TypeError, IndexError, StopIteration) as error:
        sys.exit(f"{args.out}: cannot be written ({error}); run snakemake for each run first")
    if picture and not args.check:
        write_whole(root / KEPT, json.dumps(known, indent=1, ensure_ascii=False) + "\n")
        write_whole(root / PICTURE, picture)
    renew(args.out, new, args.check)
    renew(readme, leading, args.check)


if __name__ == "__main__":
    main()

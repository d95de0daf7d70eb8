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

from pages import ROOT, options, renew

from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.judge import wording
from ff_memories.judge.numbers import measured, spread
from ff_memories.judge.register import register
from ff_memories.model.info import read_info
from ff_memories.report import outline
from ff_memories.report.answers import answer, clause

KEPT, PICTURE, FIGURE = Path("docs/data/findings.json"), Path("docs/pictures/findings.svg"), "figure4"
BEGIN, END = "<!-- real models: python docs/tools/findings.py -->", "<!-- end -->"
KEYS = ("claim", "verdict", "training", "measured", "low", "high", "sample", "baseline", "shuffled")
INTRODUCTION = """\
# What the models show

This page puts the [paper's claims](paper.md) beside what each [recorded run](artefacts.md) measured, section by
section. It is written from the runs' tables. *Untrained* is the mean of [untrained models](words.md#untrained-model) of
the same shape on a sample of the sentences, *shuffled* a model with the run's own weights in a random order, and *same
sentences* the run's own number there. Brackets show 95 % intervals. [Results](results.md) says how claims are judged,
and [statistics](statistics.md) what the intervals leave out: all of a run's numbers are of one trained model. The
words: [trigger](words.md#trigger), [active memory](words.md#active-memory),
[residual](words.md#residual), [effective number of memories](words.md#effective-number-of-memories) and
[proxy](words.md#proxy).

None of these is the paper's model, so nothing here confirms or refutes the paper's own numbers. `stories15m` was
trained on children's stories and reads Wikipedia here: its perplexity is high because of the text.

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
        "readme": [clause(row) for row in rows if row["shown"] == "readme" and row["measured"] is not None],
        "answers": {section.number: answer(section.number, rows) for section in outline.SECTIONS},
        "claims": [{key: row[key] for key in KEYS} for row in rows],
    }


def page(known: Sequence[Mapping[str, Any]]) -> str:
    """Return docs/findings.md."""
    out = [INTRODUCTION, *(_run(run) for run in known)]
    return "\n".join([*out, *(_section(section, known) for section in outline.SECTIONS)])


def _run(run: Mapping[str, Any]) -> str:
    about, *findings = run["first"]
    told = (_filled(line, "- ") for line in findings)
    lines = [f"## {_plain(run['heading'])}", "", _filled(about), "", *told, ""]
    return "\n".join(lines)


def _section(section: outline.PaperSection, known: Sequence[Mapping[str, Any]]) -> str:
    place, title = section.heading, section.title
    out = [f"## {place[0].upper()}{place[1:]}: {title[0].lower()}{title[1:]}", "", section.question, ""]
    for run in known:
        out += [_filled(run["answers"].get(section.number, "not measured"), f"**{run['run']}**: "), ""]
    columns = [name for run in known for name in (run["run"], "untrained")]
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
    said = [
        f"{word} {measured(row[column], unit)}"
        for word, column in (("untrained", "baseline"), ("shuffled", "shuffled"), ("same sentences", "sample"))
        if row[column] is not None
    ]
    decided = {"higher": "training raises it", "lower": "training lowers it", "same": "the same"}
    return ", ".join(said) + (f": {decided.get(row['training'], 'undecided')}" if row["training"] else "")


def _plain(text: str) -> str:
    """Return text escaped for a Markdown table."""
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", text).replace("\n", " ")


def led(readme: str, known: Sequence[Mapping[str, Any]]) -> str:
    """Return the README with the first run's findings. Raises ``ValueError`` if its markers are missing."""
    place = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)
    if not place.search(readme):
        raise ValueError(f"it has no {BEGIN} … {END}")
    lines = "\n".join(_filled(f"{said}.", "- ") for said in known[0]["readme"])
    return place.sub(lambda _: f"{BEGIN}\n**{_plain(known[0]['heading'])}**\n\n{lines}\n{END}", readme, count=1)


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

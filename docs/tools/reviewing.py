"""Update the tables of docs/reviewing.md: what leads from a claim to its number and files; how records were verified.

Claims and figures name all but the numbers, which are the demo's in docs/data/findings.json. docs/data/verified.json
keeps what certificates say, the last of each run:

    ff-memories verify --configfile config/smollm2.yaml --certificate smollm2.json
    python docs/tools/reviewing.py --certificates smollm2.json
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pages import ROOT, options, renew, replaced, table

from ff_memories.audit import baselines
from ff_memories.base.files import write_whole
from ff_memories.figures.registry import FIGURES
from ff_memories.judge import wording
from ff_memories.judge.numbers import measured
from ff_memories.judge.register import Claim, register
from ff_memories.report.outline import part_of

KEPT = "docs/data/findings.json"
BEGIN = "<!-- claims to files: python docs/tools/reviewing.py -->"
RUN = "demo"
VERIFIED = ROOT / "docs/data/verified.json"
OF_RECORDS = "<!-- verified records: python docs/tools/reviewing.py -->"
HEAD = ["run", "measured on", "verified on", "seed", "rows recomputed", "result"]
TABLES = {"table1": ["pattern_labels"], "table2": ["values"], "table3": ["refinement"]}


def place(claim: Claim) -> str:
    """Return where the paper, or this package, shows a claim: its figure or table, else its section in words."""
    return part_of(claim) or claim.source.partition(",")[0]


def lines(claims: Sequence[Claim], numbers: dict[str, dict]) -> list[list[str]]:
    """Return the rows: the place, its claims with the demo's numbers, the files that show it, the tables behind it."""
    rows = []
    for where in dict.fromkeys(map(place, claims)):
        of = [claim for claim in claims if place(claim) == where]
        shown = FIGURES.get(where)
        tables = shown.tables if shown else TABLES.get(where, ())
        folder = "figures" if shown else "report"
        file = f"`{folder}/{where}.{'pdf' if shown else 'html'}`" if shown or tables else "`report/report.html`"
        said = [f"{claim.id} {_number(claim, numbers[claim.id])}" for claim in of]
        label = of[0].source.rpartition(", ")[2] if part_of(of[0]) else f"text of {where}"
        rows.append([label, "; ".join(said), file, ", ".join(f"`{name}`" for name in tables) or "`claims`"])
    return rows


def of_certificate(certificate: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a certificate, and the processor of most steps of the record.

    Raises ``ValueError`` where the run was not verified.
    """
    run, audit, here = certificate["run"], certificate["parts"].get("audit"), dict(certificate["machine"])
    if not certificate["verdict"].startswith("verified"):
        raise ValueError(f"{run}: {certificate['last_line']}")
    folder = "workflow/sources" if run == RUN else f"runs/{run}"
    steps = json.loads((ROOT / folder / "machines.json").read_text(encoding="utf-8")).values()
    sampled = [table for table in audit["tables"].values() if table["what"] not in baselines.LABELS]
    return {
        "run": run,
        "measured_on": Counter(_processor(step["machine"]) for step in steps).most_common(1)[0][0],
        "verified_on": _processor(", ".join(f"{name} {fact}" for name, fact in here.items())),
        "seed": audit["seed"],
        "rows": sum(table["recomputed"] for table in sampled),
        "near_ties": sum(table["near_ties"] for table in sampled),
        "triggers": audit["tables"]["triggers"]["recomputed"],
        **{name: certificate[name] for name in ("last_line", "made", "commit", "dvc_lock_sha256")},
    }


def _processor(machine: str) -> str:
    return " ".join(re.findall(r"(?:processor|instructions) ([^,]+)", machine)).replace("(R)", "")


def verified(kept: Sequence[dict[str, Any]]) -> str:
    """Return the table of what certificates say."""
    cells = lambda row: [row["run"], row["measured_on"], row["verified_on"], str(row["seed"]), f"{row['rows']:,}"]
    return table(HEAD, [[*cells(row), f"{row['last_line']}, {row['made'][:10]}"] for row in kept])


def _number(claim: Claim, row: dict) -> str:
    mark = wording.WORDS[row["standing"]].get("mark", "")
    return f"{mark} {measured(row['measured'], claim.unit)}".strip()


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__, ROOT / "docs" / "reviewing.md")
    parser.add_argument(
        "--certificates", type=Path, nargs="+", default=[], help="files of verify --certificate to keep"
    )
    args = parser.parse_args(argv)
    kept = {row["run"]: row for row in json.loads(VERIFIED.read_text(encoding="utf-8"))}
    if args.certificates and not args.check:
        new = [of_certificate(json.loads(file.read_text(encoding="utf-8"))) for file in args.certificates]
        kept |= {row["run"]: row for row in new}
        write_whole(VERIFIED, json.dumps([*kept.values()], indent=1) + "\n")
    runs = json.loads((ROOT / KEPT).read_text(encoding="utf-8"))
    numbers = {row["claim"]: row for run in runs if run["run"] == RUN for row in run["claims"]}
    head = ["where", "claims, with the demo's mark and number", "file in `results/demo/`", "tables"]
    part = table(head, lines(register(), numbers))
    page = (ROOT / "docs" / "reviewing.md").read_text(encoding="utf-8")
    page = replaced(page, OF_RECORDS, verified([*kept.values()]))
    renew(args.out, replaced(page, BEGIN, part), args.check)


if __name__ == "__main__":
    main()

"""Write the table of families in docs/own-model.md: what each row of families.py says, and how exact it is.

Errors are in docs/data/parity.csv; of a new row they are measured first, and ``--measure`` measures all again (a
minute): tiny random models, through this package and, one sentence at a time, through the eager attention of
`transformers`.
"""

import csv
import io
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pages import ROOT, options, renew, replaced

from ff_memories.base.files import write_whole
from ff_memories.model.families import FAMILIES, Family

sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "tools" / "models")]

PAGE, KEPT = ROOT / "docs/own-model.md", ROOT / "docs/data/parity.csv"
BEGIN = "<!-- python docs/tools/families.py -->"
PARTS = ("coefficients", "residual", "update", "output", "logits")
LENGTHS = (1, 2, 3, 3, 5, 5, 5, 8, 11, 17, 17, 23, 30, 59)
PRECISIONS = ("float32", "float64")


def measure(names: Collection[str]) -> list[dict[str, str]]:
    """Return the errors of families, relative to the largest number of each kind."""
    import numpy as np
    import tiny
    import torch

    rows = []
    drawn = np.random.default_rng(0)
    sentences = [drawn.integers(2, tiny.TYPES, n) for n in LENGTHS]
    off = lambda ours, theirs: float((ours - theirs).abs().max() / theirs.abs().max())
    for name in names:
        for precision in PRECISIONS:
            made = tiny.model(name, getattr(torch, precision))
            ours = tiny.analysed(made)
            seen, last = tiny.run(ours, sentences)
            alone = [tiny.alone(made, tiny.family(name), sentence) for sentence in sentences]
            found = dict.fromkeys(PARTS, 0.0)
            for index, layer in enumerate(seen):
                for part in PARTS[:-1]:
                    truth = torch.cat([getattr(layers[index], part) for layers, _ in alone])
                    found[part] = max(found[part], off(getattr(layer, part), truth))
            read = ours.vocabulary.log_probabilities(ours.vocabulary.output(last), whole=True)
            truth = torch.log_softmax(torch.cat([logits for _, logits in alone]), -1)
            found["logits"] = off(read, truth)
            rows.append(
                {"model": name, "precision": precision} | {part: f"{value:.1e}" for part, value in found.items()}
            )
    return rows


def completed(kept: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the errors of all families, and keep them in the file; those that are not known yet are measured."""
    import tiny

    kept = kept + measure(tiny.CONFIGS.keys() - {row["model"] for row in kept})
    kept = [row for name in tiny.CONFIGS for row in kept if row["model"] == name]
    out = io.StringIO()
    writer = csv.DictWriter(out, ("model", "precision", *PARTS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(kept)
    write_whole(KEPT, out.getvalue())
    return kept


def table(kept: list[dict[str, str]]) -> str:
    """Return the page's table from the errors and from the rows of families.py."""
    import tiny

    lines = [
        "| model | wiring | gate | norm behind | attention | largest error, float32 | float64 |",
        "|---|---|---|---|---|---|---|",
    ]
    errors: dict[str, dict[str, float]] = {}
    for row in kept:
        errors.setdefault(row["model"], {})[row["precision"]] = max(float(row[part]) for part in PARTS)
    if errors.keys() != tiny.CONFIGS.keys():
        raise ValueError(f"{KEPT} lacks or has too many of {sorted(errors.keys() ^ tiny.CONFIGS)}: run make docs-pages")
    alike: dict[str, list[str]] = {}
    for name in errors:
        alike.setdefault(_said(tiny.family(name)), []).append(name)
    for said, names in alike.items():
        worst = (f"{max(errors[name][p] for name in names):.0e}" for p in PRECISIONS)
        lines.append(f"| {'; '.join(names)} | {said} | {' | '.join(worst)} |")
    rows = sum(map(len, FAMILIES.values()))
    lines += [
        "",
        f"These are the {rows} rows of `families.py`, with tiny models of random weights, against the eager attention",
        "of `transformers`, one sentence at a time. The error is the largest of coefficients, residuals, updates,",
        "outputs and log-probabilities, relative to the largest number of their kind.",
    ]
    return "\n".join(lines)


def _said(row: Family) -> str:
    mark = lambda has: "yes" if has else "–"
    way = "packed" if row.packed else "one length at a time"
    return f"{row.wiring} | {mark(row.gate or row.fused)} | {mark(row.norm_after)} | {way}"


def main(argv: list[str] | None = None) -> None:
    parser = options(__doc__, PAGE)
    parser.add_argument("--measure", action="store_true", help="measure all of docs/data/parity.csv again")
    args: Any = parser.parse_args(argv)
    kept = [] if args.measure else list(csv.DictReader(KEPT.read_text(encoding="utf-8").splitlines()))
    if not args.check:
        kept = completed(kept)
    text = Path(PAGE).read_text(encoding="utf-8")
    renew(args.out, replaced(text, BEGIN, table(kept)), args.check)


if __name__ == "__main__":
    main()

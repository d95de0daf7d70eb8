"""Keep the claims of runs on rounded weights in docs/data/rounding.csv, from which docs/findings.md tells what changes.

python -m data.rounding
python docs/tools/rounding.py
python docs/tools/findings.py
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pages import ROOT, table

from data.rounding import STUDY, WHOLE
from ff_memories import config, tables
from ff_memories.base.files import write_whole
from ff_memories.judge import wording
from ff_memories.judge.numbers import number
from ff_memories.report.outline import rows

KEPT = Path("docs/data/rounding.csv")
COLUMNS = ("model", "weights", "perplexity", "claim", "measured", "low", "high", "group")
Row = Mapping[str, Any]


def of_runs(results: Path, study: Mapping[str, Any]) -> str:
    """Return the claims of a study's runs as CSV, and the perplexity of each rounded model."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for model in (config.load(path).run for path in study["runs"]):
        for kind in study["types"]:
            folder = results / f"{model}-{kind.lower()}"
            known = json.loads((folder / "models/same_sample/perplexity.json").read_text(encoding="utf-8"))
            for row in rows(tables.read(folder / "tables/claims.parquet")):
                numbers = ["" if row[name] is None else f"{row[name]:.6g}" for name in ("measured", "low", "high")]
                perplexity = f"{known['in_windows']['perplexity']:.6g}"
                writer.writerow([model, kind, perplexity, row["claim"], *numbers, row["standing"]])
    return file.getvalue()


def section(kept: str) -> str:
    """Return a table of what rounding changes, by model and type."""
    every = [row for row in csv.DictReader(io.StringIO(kept)) if row["measured"]]
    lines = []
    for model, kind in dict.fromkeys((row["model"], row["weights"]) for row in every):
        here, whole = _by_claim(every, model, kind), _by_claim(every, model, WHOLE)
        both = here.keys() & whole.keys()
        outside = [claim for claim in here if claim in both and _outside(here[claim], whole[claim])]
        moved = [claim for claim in here if claim in both and here[claim]["group"] != whole[claim]["group"]]
        perplexity = number(float(next(iter(here.values()))["perplexity"]))
        changes = [f"{len(outside)} of {len(both)}", _listed(here, whole, moved)] if kind != WHOLE else ["", ""]
        lines.append([model, kind, perplexity, *changes])
    return table(["model", "weights", "perplexity", "numbers outside its interval", "claims in another group"], lines)


def _by_claim(every: Sequence[Row], model: str, weights: str) -> dict[str, Row]:
    return {row["claim"]: row for row in every if (row["model"], row["weights"]) == (model, weights)}


def _outside(row: Row, whole: Row) -> bool:
    ends = whole["low"], whole["high"]
    return "" not in ends and not float(ends[0]) <= float(row["measured"]) <= float(ends[1])


def _listed(here: Mapping[str, Row], whole: Mapping[str, Row], moved: Sequence[str]) -> str:
    mark = lambda row: wording.WORDS[row["group"]]["mark"]
    return ", ".join(f"{claim} {mark(whole[claim])} → {mark(here[claim])}" for claim in moved) or "none"


if __name__ == "__main__":
    write_whole(ROOT / KEPT, of_runs(ROOT / "results", config.read_yaml(ROOT / STUDY)))

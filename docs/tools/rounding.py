"""Update what docs/performance.md says of rounded weights; docs/data/rounding.csv keeps the numbers.

``--results`` names the folder of the runs that ``python -m data.rounding`` makes:

    python docs/tools/rounding.py --results results
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pages import ROOT, table, update_part

from ff_memories import config, tables
from ff_memories.judge import wording
from ff_memories.judge.numbers import measured, number, spread
from ff_memories.judge.register import register

KEPT = Path("docs/data/rounding.csv")
STUDY = ROOT / "config" / "rounding.yaml"
BEGIN = "<!-- rounding: python docs/tools/rounding.py -->"
NUMBERS = ("measured", "low", "high")
COLUMNS = ("run", "type", "claim", *NUMBERS, "group", "perplexity")
HEAD = ["model", "weights", "perplexity", "numbers outside float32's interval", "claims in another group"]
WHOLE = "whole"  # the type of weights as they are
NO_GROUP, SUPPORT = "·", "signal"

Row = Mapping[str, str]


def of_study(folders: list[Path]) -> list[dict[str, str]]:
    """Return the rows of all runs: each claim that has a number, with the run's perplexity."""
    (results,), rows, study = folders, [], config.read_yaml(STUDY)
    for run in (Path(base).stem for base in study["runs"]):
        for kind in study["types"]:
            folder = results / f"{run}-{kind.lower()}"
            own = json.loads((folder / "models/same_sample/perplexity.json").read_text(encoding="utf-8"))
            perplexity = f"{own['in_windows']['perplexity']:.6g}"
            for claim in tables.read(folder / "tables/claims.parquet").iter_rows(named=True):
                if claim["measured"] is not None:
                    numbers = ["" if claim[name] is None else f"{claim[name]:.6g}" for name in NUMBERS]
                    cells = run, kind, claim["claim"], *numbers, claim["group"] or "", perplexity
                    rows.append(dict(zip(COLUMNS, cells, strict=True)))
    return rows


def part(rows: Sequence[Row]) -> str:
    """Return the page's tables: each run beside its model's run in float32, and the claims that rounding changes."""
    if not rows:
        return "No rounded model was measured yet."
    of_runs: dict[str, dict[str, dict[str, Row]]] = {}
    for row in rows:
        of_runs.setdefault(row["run"], {}).setdefault(row["type"], {})[row["claim"]] = row
    kinds = [kind for kind in config.read_yaml(STUDY)["types"] if kind != WHOLE]
    runs = [line for run, of_kinds in of_runs.items() for line in _runs(run, of_kinds)]
    claims = [line for run, of_kinds in of_runs.items() for line in _claims(run, of_kinds, kinds)]
    return f"{table(HEAD, runs)}\n\n{table(['model, question', 'float32', *kinds], claims)}"


def beyond(rows: Sequence[Row], kind: str, run: str) -> str:
    """Return how many of a run's numbers a type moves out of float32's interval, of those with one: ``1 of 33``."""
    whole = {row["claim"]: row for row in rows if row["run"] == run and row["type"] == WHOLE and row["low"]}
    pairs = [(whole[row["claim"]], row) for row in rows if (row["run"], row["type"]) == (run, kind)
             if row["claim"] in whole]  # fmt: skip
    return f"{sum(_outside(*pair) for pair in pairs)} of {len(pairs)}"


def _runs(run: str, of_kinds: Mapping[str, Mapping[str, Row]]) -> list[list[str]]:
    """Return a line for each run of a model: its perplexity, and how many claims it changes."""
    lines, whole = [], of_kinds[WHOLE]
    for kind, claims in of_kinds.items():
        both = [(whole[claim], row) for claim, row in claims.items() if claim in whole]
        with_interval = [pair for pair in both if pair[0]["low"]]
        counts = [
            f"{sum(_outside(*pair) for pair in with_interval)} of {len(with_interval)}",
            f"{sum(_moved(*pair) for pair in both)} of {len(both)}",
        ]
        perplexity = number(float(next(iter(claims.values()))["perplexity"]))
        lines.append([run, "float32", perplexity, "–", "–"] if kind == WHOLE else [run, kind, perplexity, *counts])
    return lines


def _claims(run: str, of_kinds: Mapping[str, Mapping[str, Row]], kinds: Sequence[str]) -> list[list[str]]:
    """Return a line for each claim that some type makes support or not, or moves out of float32's interval (bold)."""
    lines = []
    for claim in register():
        whole, others = (of_kinds[WHOLE].get(claim.id), [of_kinds[kind].get(claim.id) for kind in kinds])
        if whole and any(other and (_outside(whole, other) or _supports(whole, other)) for other in others):
            cells = ["–" if other is None else _cell(other, claim.unit, _outside(whole, other)) for other in others]
            low, high = (float(whole[end]) if whole[end] else None for end in ("low", "high"))
            interval = spread(low, high, claim.unit)
            own = _cell(whole, claim.unit) + (f" ({interval})" if interval else "")
            lines.append([f"{run}: {claim.words}", own, *cells])
    return lines


def _cell(row: Row, unit: str, bold: bool = False) -> str:
    """Return the mark of a claim's group, and its number."""
    said = measured(float(row["measured"]), unit)
    mark = wording.WORDS[row["group"]]["mark"] if row["group"] else NO_GROUP
    return f"{mark} **{said}**" if bold else f"{mark} {said}"


def _outside(whole: Row, rounded: Row) -> bool:
    return bool(whole["low"]) and not float(whole["low"]) <= float(rounded["measured"]) <= float(whole["high"])


def _supports(whole: Row, rounded: Row) -> bool:
    return _moved(whole, rounded) and SUPPORT in (whole["group"], rounded["group"])


def _moved(whole: Row, rounded: Row) -> bool:
    return whole["group"] != rounded["group"]


def main(argv: Sequence[str] | None = None) -> None:
    update_part(argv, __doc__, "performance.md", BEGIN, part, {KEPT: (COLUMNS, of_study)})


if __name__ == "__main__":
    main()

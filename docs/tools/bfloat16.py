"""Update the part of docs/performance.md that compares runs in bfloat16 with the same runs in float32.

docs/data/bfloat16.json keeps the data. ``--pair`` names the folders of a run's results in float32 and in bfloat16,
whose configs differ in nothing else but ``run`` and ``execution.arithmetic``:

    python docs/tools/bfloat16.py --pair results/smollm2 results/smollm2-bfloat16
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pages import ROOT, options, renew, replaced

from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.base.job_costs import costs
from ff_memories.base.progress import duration
from ff_memories.judge.numbers import measured
from ff_memories.judge.register import register

KEPT = Path("docs/data/bfloat16.json")
VERDICT = ["shows", "training"]
STEPS = {"trigger_shard": "trigger pass", "values": "values", "composition": "composition, refinement"}
WHOLE = "the whole run"
BEGIN = "<!-- bfloat16: python docs/tools/bfloat16.py -->"


def compared(one: Path, other: Path) -> dict[str, Any]:
    """Return how much of a run in float32, ``one``, the same run in bfloat16, ``other``, agrees with.

    ``other`` may end with its tables of triggers, values and composition: then no claim is compared.
    """
    read = lambda name: [tables.read(results / f"tables/{name}.parquet") for results in (one, other)]
    triggers = [frame.select("layer", "key", "rank", "sentence", "position") for frame in read("triggers")]
    both = triggers[0].join(triggers[1], on=["layer", "key", "sentence", "position"], suffix="_other")
    first = pl.col("rank") == 1
    keys = triggers[0].filter(first).height
    values = read("values")[0].join(read("values")[1], on=["layer", "key"], suffix="_other")
    layers = read("refinement")[0].join(read("refinement")[1], on=["example", "layer"], suffix="_other")
    rank = lambda column: pl.col(column).cast(pl.Int64)
    moved = (rank("next_token_rank") - rank("next_token_rank_other")).abs()
    same = values.filter(pl.col("next_token") == pl.col("next_token_other"))
    found: dict[str, Any] = {"claims": 0, "changed": [], "perplexities": []}
    if (other / "tables/claims.parquet").is_file():
        claims = read("claims")[0].join(read("claims")[1], on="claim", suffix="_other").sort("claim")
        changed = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_other")) for name in VERDICT)
        beside = [f"{name}{end}" for name in ("measured", *VERDICT) for end in ("", "_other")]
        own = [results / "models/same_sample/perplexity.json" for results in (one, other)]
        found = {
            "claims": claims.height,
            "changed": claims.filter(changed).select("claim", *beside).to_dicts(),
            "perplexities": [json.loads(path.read_text(encoding="utf-8"))["perplexity"] for path in own],
        }
    return found | {
        "run": one.name,
        "keys": keys,
        "triggers": both.height / triggers[0].height,
        "first": both.filter(first, pl.col("rank_other") == 1).height / keys,
        "tops": _same(values, "top_token"),
        "rank": float(same.select((moved / (1 + rank("next_token_rank"))).median()).item()),
        "ffn": _same(layers, "ffn_top"),
        "output": _same(layers, "output_top"),
        "seconds": [_seconds(results) for results in (one, other)],
    }


def _same(both: pl.DataFrame, column: str) -> float:
    """Return the share of rows in which a column is the same in both runs."""
    return float(both.select((pl.col(column) == pl.col(f"{column}_other")).mean()).item())


def _seconds(results: Path) -> dict[str, float]:
    """Return the processor seconds of some steps and, where it ended, of the whole run."""
    known = {cost.rule: cost.processor_seconds for cost in costs(results / "logs")}
    whole = {WHOLE: sum(known.values())} if (results / "summary.md").is_file() else {}
    return {name: known[rule] for rule, name in STEPS.items() if rule in known} | whole


def part(known: Sequence[Mapping[str, Any]]) -> str:
    """Return the tables of docs/performance.md."""
    runs = [run["run"] for run in known]
    share = lambda name: [f"{100 * run[name]:.1f} %" for run in known]
    rows = {
        "triggers in both runs": share("triggers"),
        "keys with the same first trigger": share("first"),
        "values with the same top token": share("tops"),
        "median change of the rank of the trigger's next token": share("rank"),
        "layers' predictions: the same top token of the feed-forward layer": share("ffn"),
        "the same top token of the layer's output": share("output"),
        "perplexity, float32 and bfloat16": [
            " and ".join(f"{x:,.4g}" for x in run["perplexities"]) or "not measured" for run in known
        ],
        "claims of which a verdict changed": [
            f"{len(run['changed'])} of {run['claims']}" if run["claims"] else "not measured" for run in known
        ],
    }
    for name in (*STEPS.values(), WHOLE):
        times = [[seconds.get(name) for seconds in run["seconds"]] for run in known]
        rows[f"processor time, {name}"] = [_beside(*pair) for pair in times]
    lines = ["| | " + " | ".join(runs) + " |", "|---" * (len(runs) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows.items()]
    units = {claim.id: claim.unit for claim in register()}
    said = [_told(run["run"], row, units[row["claim"]]) for run in known for row in run["changed"]]
    if any(run["claims"] for run in known):
        lines += ["", *([CHANGED, *said] if said else ["No verdict changed."])]
    return "\n".join(lines)


CHANGED = """\
Verdicts that changed:

| run, claim | in float32 | shows | due to training | in bfloat16 | shows | due to training |
|---|---|---|---|---|---|---|"""


def _beside(one: float | None, other: float | None) -> str:
    return f"{duration(one)} and {duration(other)}, {other / one:.2f} ×" if one and other else "not measured"


def _told(run: str, row: Mapping[str, Any], unit: str) -> str:
    cells = [f"{run}, {row['claim']}"]
    for end in ("", "_other"):
        found = row[f"measured{end}"]
        cells += ["nothing" if found is None else measured(found, unit)]
        cells += [row[f"shows{end}"] or "not judged", row[f"training{end}"] or "not compared"]
    return "| " + " | ".join(cells) + " |"


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__, ROOT / "docs/performance.md")
    parser.add_argument("--pair", nargs=2, type=Path, action="append", help="results in float32 and in bfloat16")
    args = parser.parse_args(argv)
    if args.pair:
        write_whole(ROOT / KEPT, json.dumps([compared(*pair) for pair in args.pair], indent=1) + "\n")
    made = part(json.loads((ROOT / KEPT).read_text(encoding="utf-8")))
    renew(args.out, replaced(args.out.read_text(encoding="utf-8"), BEGIN, made), args.check)


if __name__ == "__main__":
    main()

"""Update docs/bfloat16.md, which compares runs in bfloat16 with the same runs in float32.

docs/data/bfloat16.json keeps the data. ``--pair`` names the folders of a run's results in float32 and in bfloat16,
whose configs differ in nothing else but ``run`` and ``execution.arithmetic``:

    python docs/tools/bfloat16.py --pair results/smollm2 results/smollm2-bfloat16
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pages import ROOT, options, renew

from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.base.progress import duration
from ff_memories.claims.numbers import measured
from ff_memories.claims.register import register
from ff_memories.report.cost import costs

KEPT = Path("docs/data/bfloat16.json")
VERDICT = ["shows", "training"]
STEPS = {"trigger_shard": "trigger pass", "values_shard": "values", "composition_shard": "composition, refinement"}
INTRODUCTION = """\
# What bfloat16 changes

`extraction.precision: bfloat16` rounds both factors of every matrix product to 8 significant bits; sums stay in float32
([equality](equality.md#other-arithmetic-extractionprecision)). This page puts whole runs in bfloat16 beside the same
runs in float32. Rounding moves single rows: where two [triggers](words.md#trigger) or two tokens are nearly as good as
each other, they change places. Read the verdicts' lines to see whether it moves a conclusion.
"""


def compared(one: Path, other: Path) -> dict[str, Any]:
    """Return how much of a run in float32, ``one``, the same run in bfloat16, ``other``, agrees with."""
    read = lambda name: [tables.read(results / f"tables/{name}.parquet") for results in (one, other)]
    triggers = [frame.select("layer", "key", "rank", "sentence", "position") for frame in read("triggers")]
    both = triggers[0].join(triggers[1], on=["layer", "key", "sentence", "position"], suffix="_other")
    first = pl.col("rank") == 1
    keys = triggers[0].filter(first).height
    values = read("values")[0].join(read("values")[1], on=["layer", "key"], suffix="_other")
    layers = read("refinement")[0].join(read("refinement")[1], on=["example", "layer"], suffix="_other")
    moved = (pl.col("next_token_rank") - pl.col("next_token_rank_other")).abs()
    same = values.filter(pl.col("next_token") == pl.col("next_token_other"))
    claims = read("claims")[0].join(read("claims")[1], on="claim", suffix="_other").sort("claim")
    changed = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_other")) for name in VERDICT)
    own = [results / "baselines/same_sample/perplexity.json" for results in (one, other)]
    perplexities = [json.loads(path.read_text(encoding="utf-8"))["perplexity"] for path in own]
    return {
        "run": one.name,
        "keys": keys,
        "triggers": both.height / triggers[0].height,
        "first": both.filter(first, pl.col("rank_other") == 1).height / keys,
        "tops": float((values["top_token"] == values["top_token_other"]).mean()),
        "rank": float(same.select((moved / (1 + pl.col("next_token_rank"))).median()).item()),
        "ffn": float((layers["ffn_top"] == layers["ffn_top_other"]).mean()),
        "output": float((layers["output_top"] == layers["output_top_other"]).mean()),
        "perplexities": perplexities,
        "claims": claims.height,
        "changed": claims.filter(changed)
        .select("claim", *(f"{n}{end}" for n in ("measured", *VERDICT) for end in ("", "_other")))
        .to_dicts(),
        "seconds": [_seconds(results) for results in (one, other)],
    }


def _seconds(results: Path) -> dict[str, float]:
    """Return the processor seconds of some steps, and of the whole run."""
    known = {
        cost.rule: cost.processor_seconds or 0.0 for cost in costs([str(p) for p in results.rglob("logs/**/*.tsv")])
    }
    return {name: known.get(rule, 0.0) for rule, name in STEPS.items()} | {"the whole run": sum(known.values())}


def page(known: Sequence[Mapping[str, Any]]) -> str:
    """Return docs/bfloat16.md."""
    runs = [run["run"] for run in known]
    share = lambda name: [f"{100 * run[name]:.1f} %" for run in known]
    rows = {
        "triggers in both runs": share("triggers"),
        "keys with the same first trigger": share("first"),
        "values with the same top token": share("tops"),
        "median change of the rank of the trigger's next token": share("rank"),
        "layers' predictions: the same top token of the feed-forward layer": share("ffn"),
        "the same top token of the layer's output": share("output"),
        "perplexity, float32 and bfloat16": [" and ".join(f"{x:.2f}" for x in run["perplexities"]) for run in known],
        "claims of which a verdict changed": [f"{len(run['changed'])} of {run['claims']}" for run in known],
    }
    for name in known[0]["seconds"][0]:
        rows[f"processor time, {name}"] = [_beside(*(seconds[name] for seconds in run["seconds"])) for run in known]
    lines = [INTRODUCTION, "| | " + " | ".join(runs) + " |", "|---" * (len(runs) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows.items()]
    units = {claim.id: claim.unit for claim in register()}
    said = [_told(run["run"], row, units[row["claim"]]) for run in known for row in run["changed"]]
    lines += ["", *(["Verdicts that changed:", "", *said] if said else ["No verdict changed."]), "", REMAKE]
    return "\n".join(lines)


REMAKE = """\
Processor times are of one machine, whose CPU has bfloat16 instructions: float32 under `execution.arithmetic: portable`,
the default, and bfloat16 under `fast`, which also uses AVX-512.
"""


def _beside(one: float, other: float) -> str:
    return f"{duration(one)} and {duration(other)}, {other / one:.2f} ×" if one and other else "not measured"


def _told(run: str, row: Mapping[str, Any], unit: str) -> str:
    one, other = (
        f"{'nothing' if row[f'measured{end}'] is None else measured(row[f'measured{end}'], unit)}, shows: "
        f"{row[f'shows{end}']}, training: {row[f'training{end}'] or 'not compared'}"
        for end in ("", "_other")
    )
    return f"- {run}, {row['claim']}: {one}; in bfloat16 {other}"


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__, ROOT / "docs/bfloat16.md")
    parser.add_argument("--pair", nargs=2, type=Path, action="append", help="results in float32 and in bfloat16")
    args = parser.parse_args(argv)
    if args.pair:
        write_whole(ROOT / KEPT, json.dumps([compared(*pair) for pair in args.pair], indent=1) + "\n")
    renew(args.out, page(json.loads((ROOT / KEPT).read_text(encoding="utf-8"))), args.check)


if __name__ == "__main__":
    main()

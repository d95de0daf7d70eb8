"""Update the part of docs/paper.md that measures what later work found; docs/data/later.csv keeps the numbers.

``--results`` names the folders of finished runs, whose tables alone are read:

    python docs/tools/later.py --results results/smollm2 results/stories15m results/demo
"""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from pages import ROOT, options, renew, replaced, table

from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.judge.numbers import measured
from ff_memories.model.info import has_inactive, read_info

KEPT = Path("docs/data/later.csv")
BEGIN = "<!-- later work: python docs/tools/later.py -->"
COLUMNS = ("quantity", "run", "measured", "random_low", "random_high")


@dataclass(frozen=True)
class Quantity:
    """What a later paper measured: the question, the paper with its number, and how a model's tables give ours.

    ``of`` takes the folder of one model's tables and the run's model info, and returns ``None`` if it is not defined.
    """

    question: str
    paper: str
    of: Callable[[Path, dict], float | None]


def saved(folder: Path, info: dict) -> float | None:
    """Return the share of layers above the first from which each layer's output predicts the final token."""
    refinement = tables.read(folder / "refinement.parquet")
    wrong = pl.when(pl.col("output_top") != pl.col("model_top")).then("layer")
    last_wrong = refinement.group_by("example").agg(wrong.max().fill_null(0).cast(pl.Int64).alias("last"))
    above = (info["layers"] - last_wrong["last"] - 1).to_numpy()
    return float(above.mean() / info["layers"])


def nonzero(folder: Path, info: dict) -> float | None:
    """Return the mean share of memories with a coefficient above zero; they are all nonzero if none is inactive."""
    if not has_inactive(info):
        return None
    active = tables.read(folder / "composition.parquet")["active"].to_numpy()
    return float(active.mean() / info["keys"])


def dead(folder: Path, info: dict) -> float | None:
    """Return the share of keys that never fire, in the layer where it is highest; random networks are not counted."""
    if not has_inactive(info) or not (folder / "firing.parquet").exists():
        return None
    never = tables.read(folder / "firing.parquet").group_by("layer").agg((pl.col("fired") == 0).mean().alias("share"))
    return float(never["share"].to_numpy().max())


def controlled(folder: Path, info: dict) -> float | None:
    """Return how often the model's prediction changes without a layer's 20 largest memories."""
    removals = tables.read(folder / "removals.parquet").filter(by="size", removed=20)
    return float(removals["top_changed"].to_numpy().mean()) if len(removals) else None


QUANTITIES = {
    "saved": Quantity(
        "layers after which no layer changes the prediction any more",
        "[Geva et al. 2022](https://aclanthology.org/2022.emnlp-main.3): an exit rule saves 20 % of computation",
        saved,
    ),
    "nonzero": Quantity(
        "coefficients above zero after a ReLU, mean",
        "[Li et al. 2023](https://arxiv.org/abs/2210.06313): 3.0 % in T5-Base, fewer in larger models",
        nonzero,
    ),
    "dead": Quantity(
        "keys that never fire, in the layer with most of them",
        "[Voita et al. 2024](https://arxiv.org/abs/2309.04827): more than 70 % in some layers of OPT-66B",
        dead,
    ),
    "controlled": Quantity(
        "predictions that change without one layer's 20 largest memories",
        "[Arora et al. 2026](https://arxiv.org/abs/2601.22594): some 10² neurons, of all layers, control agreement of "
        "subject and verb",
        controlled,
    ),
}


def of_run(results: Path) -> list[dict[str, str]]:
    """Return the rows of a finished run: each quantity of its model, and the range over its untrained models."""
    info, rows = read_info(results / "model" / "info.json"), []
    untrained = sorted(results.glob("models/untrained-*/tables"))
    for name, quantity in QUANTITIES.items():
        own = quantity.of(results / "tables", info)
        random = [one for folder in untrained if (one := quantity.of(folder, info)) is not None]
        ends = (min(random), max(random)) if random else (None, None)
        numbers = ["" if number is None else f"{number:.6g}" for number in (own, *ends)]
        rows.append(dict(zip(COLUMNS, (name, results.name, *numbers), strict=True)))
    return rows


def part(rows: Sequence[dict[str, str]]) -> str:
    """Return the table of the page."""
    runs = list(dict.fromkeys(row["run"] for row in rows))
    cells = {(row["quantity"], row["run"]): row for row in rows}
    share = lambda text: measured(float(text) if text else None, "share")

    def cell(row: dict[str, str]) -> str:
        if not row["measured"]:
            return "–"
        low, high = (share(row[name]) for name in ("random_low", "random_high"))
        return share(row["measured"]) + (f" ({low} to {high})" if row["random_low"] else "")

    lines = [[q.question, q.paper, *(cell(cells[name, run]) for run in runs)] for name, q in QUANTITIES.items()]
    return table(["what", "there", *runs], lines)


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__, ROOT / "docs" / "paper.md")
    parser.add_argument("--results", type=Path, nargs="+", help="folders of finished runs")
    args = parser.parse_args(argv)
    if args.results:
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for folder in args.results for row in of_run(folder))
        write_whole(ROOT / KEPT, text.getvalue())
    with (ROOT / KEPT).open(encoding="utf-8", newline="") as kept:
        rows = list(csv.DictReader(kept))
    page = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    renew(args.out, replaced(page, BEGIN, part(rows)), args.check)


if __name__ == "__main__":
    main()

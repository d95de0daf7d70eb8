"""Update what docs/results.md says of other trainings of the demo's model; docs/data keeps the numbers.

``trainings.csv`` has each claim's numbers, and ``trained_models.csv`` the models. ``--results`` names the folder with
the trainings and runs that ``python -m data.training_seeds`` makes:

    python docs/tools/trainings.py --results results
"""

import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from pages import ROOT, read_rows, table, update_part
from scipy.stats import chi2, norm

from ff_memories import config, tables
from ff_memories.base.text import listed
from ff_memories.judge import wording
from ff_memories.judge.numbers import SCALE, measured, number, spread
from ff_memories.judge.register import register

KEPT, MODELS, LEDGER = (Path("docs/data", f"{name}.csv") for name in ("trainings", "trained_models", "ledger"))
STUDY, RECIPE = ROOT / "config/training_seeds.yaml", ROOT / "config/demo_model.yaml"
DEMO = ROOT / "data/demo/perplexities.json"
BEGIN = "<!-- trainings: python docs/tools/trainings.py -->"
SEEDS = [str(seed) for seed in config.read_yaml(STUDY)["seeds"]]
OF_SEEDS = [f"seed_{seed}" for seed in SEEDS]
GROUPS, SHOWS = ("signal", "common", "absent", "open"), ("yes", "too_small", "no", "undecided")
STATISTICS = ("mean", "deviation", "lowest", "highest", "half_width")  # half_width: of the runs' intervals, their mean
OF_DEMO = ("demo", "demo_low", "demo_high", "demo_group")
COLUMNS = ("claim", *OF_SEEDS, *STATISTICS, *OF_DEMO, *(f"group_{g}" for g in GROUPS), *(f"shows_{s}" for s in SHOWS))
MODEL_COLUMNS = ("seed", "updates", "perplexity", "bigram", "unigram", "sha256")
SHOWN = 6  # claims in the table
HEAD = ["question", "mean", "lowest to highest", "two deviations", "half an interval", "ratio", "groups"]
MARK = wording.WORDS["signal"]["mark"]
RARE = 0.05  # how often samples alone may make as large a difference

Row = Mapping[str, str]


# ------------------------------------------------------------------------------------------------------------- numbers


def of_runs(folders: list[Path]) -> list[dict[str, str]]:
    """Return a row for each claim: its number in each training's run, what they have in common, and the demo's."""
    (results,) = folders
    runs = [results / f"demo-seed-{seed}" / "tables/claims.parquet" for seed in SEEDS]
    found = [{row["claim"]: row for row in tables.read(run).iter_rows(named=True)} for run in runs]
    demo = {row["claim"]: row for row in read_rows(ROOT / LEDGER) if row["model"] == "demo"}
    return [_row(claim.id, [run[claim.id] for run in found], demo[claim.id]) for claim in register()]


def _row(claim: str, of_claim: Sequence[Mapping[str, Any]], demo: Row) -> dict[str, str]:
    numbers = [row["measured"] for row in of_claim]
    widths = [row["high"] - row["low"] for row in of_claim if None not in (row["low"], row["high"])]
    known: list[float | None] = [None] * len(STATISTICS)
    if None not in numbers:
        half = mean(widths) / 2 if len(widths) == len(numbers) else None
        known = [mean(numbers), stdev(numbers), min(numbers), max(numbers), half]
    cells = ["" if value is None else f"{value:.6g}" for value in (*numbers, *known)]
    own = [demo[name] for name in ("measured", "low", "high", "group")]
    counts = [sum(row["group"] == group for row in of_claim) for group in GROUPS]
    counts += [sum(row["shows"] == shows for row in of_claim) for shows in SHOWS]
    return dict(zip(COLUMNS, (claim, *cells, *own, *map(str, counts)), strict=True))


def of_models(folders: list[Path]) -> list[dict[str, str]]:
    """Return a row for each training: its updates, what perplexities it ended with, and its checkpoint's digest."""
    (results,), rows = folders, []
    for seed in SEEDS:
        folder = results / f"train-seed-{seed}"
        found = json.loads((folder / "perplexities.json").read_text(encoding="utf-8"))
        updates = read_rows(folder / "curve.csv")[-1]["updates"]
        digest = config.read_yaml(results / f"demo-seed-{seed}" / "config.yaml")["model"]["sha256"]
        perplexities = [f"{found[name]:.6g}" for name in ("model", "bigram", "unigram")]
        rows.append(dict(zip(MODEL_COLUMNS, (seed, updates, *perplexities, digest), strict=True)))
    return rows


# ---------------------------------------------------------------------------------------------------------------- page


def compared(rows: Sequence[Row]) -> dict[str, float]:
    """Return {claim: two standard deviations between trainings over half the width of a run's interval}.

    A layer's number, whose interval may be one point, and what holds by construction are left out.
    """
    skipped = {claim.id for claim in register() if claim.by_construction or claim.unit == "layer"}
    both = {row["claim"]: [float(row[name] or 0) for name in ("deviation", "half_width")] for row in rows}
    return {claim: 2 * one / half for claim, (one, half) in both.items() if half and claim not in skipped}


def far_apart(rows: Sequence[Row]) -> dict[str, float]:
    """Return the ratios of ``compared`` that samples alone would seldom give."""
    far = of_samples_alone(len(SEEDS))[1]
    return {claim: ratio for claim, ratio in compared(rows).items() if ratio > far}


def in_other_groups(rows: Sequence[Row]) -> str:
    """Return how many claims change group between trainings, and how many of these are only sometimes undecided."""
    grouped = [{group: int(row[f"group_{group}"]) for group in GROUPS} for row in rows if _grouped(row)]
    several = [{group for group, n in counts.items() if n} for counts in grouped if max(counts.values()) < len(SEEDS)]
    unsure = sum(len(groups - {"open"}) == 1 for groups in several)
    return f"{len(several)} of {len(grouped)} claims change group, {unsure} only to *cannot tell*"


def part(rows: Sequence[Row], models: Sequence[Row]) -> str:
    """Return the page's sentences, and its table of the claims that differ between trainings."""
    if not rows:
        return "No training was measured yet."
    ratios, most = compared(rows), far_apart(rows)
    by_chance, far = of_samples_alone(len(models))
    above = sum(ratio > 1 for ratio in ratios.values())
    support = [row for row in rows if row["demo_group"] == wording.WORDS["signal"]["word"]]
    lacking = [row["claim"] for row in support if row["group_signal"] == "0"]
    which = f" ({listed(lacking)}) are in no training; fewer updates or fewer random networks may be why"
    said = (
        f"{_short(models)} Of the demo's {len(support)} {MARK}, {len(lacking)}"
        f"{which if lacking else ' are in no training'}. For {above} of "
        f"{len(ratios)} claims, two standard deviations between trainings exceed half of the width of an interval "
        "within a run. If trainings "
        f"differed by independent samples alone, about {100 * by_chance:.0f} % would, and {100 * RARE:.0f} % more than "
        f"{far:.2g} times; {len(most)} do: the table has the {min(SHOWN, len(most))} that differ most. "
        f"{in_other_groups(rows)}."
    )
    of_claim, lines = {claim.id: claim for claim in register()}, []
    for row in (row for row in rows if row["claim"] in sorted(most, key=most.__getitem__)[-SHOWN:]):
        claim = of_claim[row["claim"]]
        lines.append([f"{claim.id}: {claim.words}", *_cells(row, claim.unit, most[claim.id])])
    return f"{textwrap.fill(said, 120, break_on_hyphens=False)}\n\n{table(HEAD, lines)}"


def of_samples_alone(trainings: int) -> tuple[float, float]:
    """Return what to expect if only samples differed: the share of ratios above 1, and the ratio that few exceed."""
    free, scale = trainings - 1, float(norm.ppf(0.975)) / 2  # half an interval in two standard errors
    return float(chi2.sf(free * scale**2, free)), float(chi2.isf(RARE, free) / free) ** 0.5 / scale


def _short(models: Sequence[Row]) -> str:
    """Return the sentences that say how long the trainings were, and how well their models predict."""
    ends = [f(float(row["perplexity"]) for row in models) for f in (min, max)]
    updates = " to ".join(f"{n:,}" for n in sorted({int(row["updates"]) for row in models}))
    demo = json.loads(DEMO.read_text(encoding="utf-8"))
    other = "" if f"{demo['bigram']:.6g}" == models[0]["bigram"] else ", on a slightly other text"
    whole = config.read_yaml(RECIPE)["options"]["max-update"]
    return (
        f"These {len(models)} trainings are short: {updates} updates, where the demo's model had {whole:,}{other}. "
        f"Their validation perplexities (fairseq's) are {number(ends[0])} to {number(ends[1])}; the demo's is "
        f"{number(demo['model'])}, and their bigram model's {number(float(models[0]['bigram']))}."
    )


def _grouped(row: Row) -> bool:
    return any(row[f"group_{group}"] != "0" for group in GROUPS)


def _cells(row: Row, unit: str, ratio: float) -> list[str]:
    value = {name: float(row[name]) for name in STATISTICS}
    counts = {wording.WORDS[group]["mark"]: int(row[f"group_{group}"]) for group in GROUPS}
    return [
        measured(value["mean"], unit),
        spread(value["lowest"], value["highest"], unit),
        *(number(one * SCALE.get(unit, 1)) for one in (2 * value["deviation"], value["half_width"])),
        number(ratio),
        ", ".join(f"{count} {mark}" for mark, count in counts.items() if count) or "not judged",
    ]


def main(argv: Sequence[str] | None = None) -> None:
    update_part(
        argv, __doc__, "results.md", BEGIN, part, {KEPT: (COLUMNS, of_runs), MODELS: (MODEL_COLUMNS, of_models)}
    )


if __name__ == "__main__":
    main()

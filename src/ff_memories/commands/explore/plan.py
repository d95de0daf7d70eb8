"""Estimate the time, memory and disk space of each step, here or on a GPU. Fail if the run does not fit."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ff_memories.base import arithmetic
from ff_memories.base.errors import UserError, did_you_mean
from ff_memories.base.files import write_whole
from ff_memories.base.parameters import threads, whole
from ff_memories.base.progress import duration
from ff_memories.config import Config
from ff_memories.inputs.models import model_folder
from ff_memories.model.info import quantised
from ff_memories.report.cost import Cost, costs
from ff_memories.report.wording import looked_at
from ff_memories.workflow.cards import cards
from ff_memories.workflow.rules import refuse_bad_inputs
from ff_memories.workflow.runs import opening
from ff_memories.workflow.runs.run import Run

if TYPE_CHECKING:
    from ff_memories.workflow.estimate import Planned
    from ff_memories.workflow.planning import Planner

LONG = 24 * 3600  # seconds without a GPU above which a plan begins with a GPU's answer
GPU = "h100"


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument("--threads", type=threads, help="CPU threads per job")
    parser.add_argument(
        "--devices",
        type=whole(),
        nargs="+",
        default=[1, 8, 64],
        help="numbers of GPUs or machines to estimate the total time for",
    )
    parser.add_argument("--on", metavar="CARD", help=f"estimate for a GPU that is not here: {', '.join(cards())}")
    parser.add_argument("--json", metavar="FILE", help="also write the plan to this file as JSON")


def run(args: argparse.Namespace) -> None:
    from ff_memories.workflow import estimate  # torch takes a second to load
    from ff_memories.workflow.planning import THREADS, Planner

    if args.on and args.on not in cards():
        raise UserError(f"--on {args.on}: unknown card{did_you_mean(args.on, cards())}", f"choose {', '.join(cards())}")
    run_ = opening.opened(args.configfile)
    refuse_bad_inputs(run_)
    made = Planner.of(run_, args.threads or THREADS, cards()[args.on] if args.on else None)
    config, plan = run_.config, made.steps(run_.config)
    elapsed = {n: estimate.elapsed(made.steps(config, n), n) for n in args.devices}
    measured = {cost.rule: cost for cost in costs([str(p) for p in Path(run_.path("logs")).rglob("*.tsv")])}
    if made.card:
        print(_on_card(made, config))
    elif made.device == "cpu" and estimate.elapsed(plan, made.here) > LONG:
        print(f"{_on_card(made.on(cards()[GPU], config), config)}\n\nwithout a GPU, on this machine:")
    _show(run_, made, plan, measured, elapsed)
    if args.json:
        write_whole(args.json, json.dumps(_plain(made, config, plan, measured, elapsed), indent=1) + "\n")
    if faults := made.unfit(plan):
        raise UserError(
            "this run does not fit\n  " + "\n  ".join(faults),
            "lower execution.batch_tokens or execution.shards, or set corpus.train.max_sentences",
        )


def _on_card(made: "Planner", config: Config) -> str:
    """Say in a line how long a run takes on one card that is not here, and how sure that is; or why it does not fit."""
    card, plan, precision = made.card, made.steps(config), config.extraction.precision
    assert card is not None
    if faults := made.unfit(plan):
        return f"this run does not fit on one {card.name}: {faults[0]}"
    total = sum(step.jobs * step.seconds for step in plan)
    sure = sum(step.jobs * step.seconds for step in plan if card.measures(step.rule, precision, made.shape.matrices))
    if not card.measured:
        how = "computed: the card was never measured"
    elif not sure:
        how = f"computed: no step of such a model was measured on it in {precision}"
    else:
        how = f"{duration(sure)} of measured steps, {duration(total - sure)} computed"
    return f"about {duration(total)} on one {card.name} in {precision}; {how}"


def _show(
    run_: Run,
    made: "Planner",
    plan: list["Planned"],
    measured: dict[str, Cost],
    elapsed: dict[int, float],
) -> None:
    device, shape, speed, tokens = made.device, made.shape, made.speed, made.tokens_of(run_.config)
    card, precision = made.card, run_.config.extraction.precision
    one = speed.layer * shape.layers * speed.over["trigger_shard"]  # seconds of a token in the trigger pass
    said = looked_at(run_.config.triggers.keys, shape.keys // shape.signs, run_.config.seed)
    some = f"of which the run looks at {said}, " if said else ""
    print(
        f"{run_.config.run}: {shape.layers} layers of {shape.keys:,} keys, {some}{shape.vocab:,} types, "
        f"{tokens['train']:,} + {tokens['validation']:,} tokens; {'there' if card else 'here'} {1 / one:,.0f} "
        f"tokens/s on {card.name if card else device}\n"
    )
    if run_.inputs.model_folder and (weights := quantised(model_folder.made_from(run_.inputs.model_folder))):
        print(f"{weights}\n")
    execution = run_.config.execution
    if device == "cpu" and (slow := arithmetic.slow_products(precision, execution.arithmetic)):
        print(f"{slow}\n")
    last = "on this card" if card else "last measured"
    print(f"{'step':34}{'jobs':>5}{'time':>14}{'memory':>9}{'GPU':>9}{'disk':>9}  {last}")
    for step in plan:
        gpu = f"{step.device_memory / 1e9:.1f} GB" if device == "cuda" and step.device_memory else ""
        was = measured.get(step.rule)
        before = f"{duration(was.seconds)}, {was.peak_mib / 953.7:.1f} GB" if was and was.peak_mib else ""
        if card:
            before = "measured" if card.measures(step.rule, precision, shape.matrices) else "computed"
        time = duration(step.jobs * step.seconds) if step.seconds else "download"
        sizes = f"{step.memory / 1e9:6.1f} GB{gpu:>9}{step.disk / 1e9:6.1f} GB"
        print(f"{step.rule:34}{step.jobs:5}{time:>14}{sizes}  {before}")
    for n, seconds in elapsed.items():
        print(f"total on {n:3} {'device: ' if n == 1 else 'devices:'} {duration(seconds)}")


def _plain(
    made: "Planner",
    config: Config,
    plan: list["Planned"],
    measured: dict[str, Cost],
    elapsed: dict[int, float],
) -> dict[str, Any]:
    """Return the plan for JSON: memory and disk in bytes, and seconds summed over a step's jobs."""
    found = {
        rule: {"jobs": c.jobs, "seconds": c.seconds, "memory": (c.peak_mib or 0) * 2**20 or None}
        for rule, c in measured.items()
    }
    steps = [asdict(step) | {"seconds": step.jobs * step.seconds, "measured": found.get(step.rule)} for step in plan]
    on = {"device": made.device, "card": made.card and made.card.name, "tokens": made.tokens_of(config)}
    return on | {"speed": asdict(made.speed), "steps": steps, "elapsed": elapsed}

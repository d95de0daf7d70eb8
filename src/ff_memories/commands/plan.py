"""Estimate the time, memory and disk space of each step, here or on a GPU. Fail if the run does not fit."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ff_memories.base.errors import UserError
from ff_memories.base.job_costs import Cost, costs
from ff_memories.base.parameters import whole
from ff_memories.base.progress import duration
from ff_memories.config import Config
from ff_memories.inputs import model_folder
from ff_memories.model.info import quantised
from ff_memories.plan.speed import cards
from ff_memories.report.answers import looked_at
from ff_memories.workflow import opening
from ff_memories.workflow.rules import refuse_bad_sample
from ff_memories.workflow.run import Run

if TYPE_CHECKING:
    from ff_memories.plan.costs import Planned
    from ff_memories.plan.planner import Planner

LONG = 24 * 3600  # seconds without a GPU above which a plan begins with a GPU's answer


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    says = "numbers of GPUs or machines to estimate the total time for; default: 1 8 64"
    parser.add_argument("--devices", type=whole(), nargs="+", default=[1, 8, 64], help=says)
    says = f"estimate for a GPU that is not here: {', '.join(cards())}"
    parser.add_argument("--on", metavar="CARD", choices=cards(), help=says)


def run(args: argparse.Namespace) -> None:
    from ff_memories.plan.planner import Planner, widths  # torch takes a second to load

    run_ = opening.opened(args.configfile)
    refuse_bad_sample(run_)
    planner = Planner.of(run_, cards()[args.on] if args.on else None)
    config, plan = run_.config, planner.steps(run_.config)
    measured = {cost.rule: cost for cost in costs(Path(run_.path("logs")))}
    if planner.card:
        print(_on_card(planner, config))
    elif planner.device == "cpu" and planner.elapsed(config) > LONG:
        print(f"{_on_card(planner.on(cards()['h100'], config), config)}\n\nwithout a GPU, on this machine:")
    _show_sizes(run_, planner)
    _show_steps(config, planner, plan, measured)
    for n in args.devices:
        print(f"total on {n:3} {'device: ' if n == 1 else 'devices:'} {duration(planner.elapsed(config, n))}")
    print("\nby the sizes of samples, at 95 %:", *widths(config, planner), sep="\n  ")
    if faults := planner.unfit(plan):
        hint = "lower execution.batch_tokens or execution.shards, or set corpus.train.max_sentences"
        raise UserError("this run does not fit\n  " + "\n  ".join(faults), hint)


def _on_card(planner: "Planner", config: Config) -> str:
    """Say in a line how long a run takes on one card that is not here, and how sure that is; or why it does not fit."""
    card, plan, precision = planner.card, planner.steps(config), config.extraction.precision
    assert card is not None
    if faults := planner.unfit(plan):
        return f"this run does not fit on one {card.name}: {faults[0]}"
    total = sum(step.jobs * step.seconds for step in plan)
    sure = sum(step.jobs * step.seconds for step in plan if card.measures(step.rule, precision, planner.shape.matrices))
    if not card.measured:
        how = "computed: the card was never measured"
    elif not sure:
        how = f"computed: no step of such a model was measured on it in {precision}"
    else:
        how = f"{duration(sure)} of measured steps, {duration(total - sure)} computed"
    return f"about {duration(total)} on one {card.name} in {precision}; {how}"


def _show_sizes(run_: Run, planner: "Planner") -> None:
    """Print the sizes of a run's model and texts, and the speed of its trigger pass."""
    config, shape, card, speed = run_.config, planner.shape, planner.card, planner.speed
    text, pace = planner.text.read_by(config), 1 / (speed.layer * shape.layers * speed.over.get("trigger_shard", 1.0))
    memories = looked_at(config.triggers.keys, shape.keys // shape.signs, config.seed)
    some = f"of which the run looks at {memories}, " if memories else ""
    of_model = f"{shape.layers} layers of {shape.keys:,} keys, {some}{shape.vocab:,} types"
    fast = f"{'there' if card else 'here'} {pace:,.0f} tokens/s on {card.name if card else planner.device}"
    print(f"{config.run}: {of_model}, {text.train:,} + {text.validation:,} tokens; {fast}\n")
    if run_.inputs.model_folder and (weights := quantised(model_folder.made_from(run_.inputs.model_folder))):
        print(f"{weights}\n")


def _show_steps(config: Config, planner: "Planner", plan: list["Planned"], measured: dict[str, Cost]) -> None:
    """Print a line for each step."""
    card, precision = planner.card, config.extraction.precision
    last = "on this card" if card else "last measured"
    print(f"{'step':34}{'jobs':>5}{'time':>14}{'memory':>9}{'GPU':>9}{'disk':>9}  {last}")
    for step in plan:
        gpu = f"{step.device_memory / 1e9:.1f} GB" if planner.device == "cuda" and step.device_memory else ""
        was = measured.get(step.rule)
        before = f"{duration(was.seconds)}, {was.peak_mib / 953.7:.1f} GB" if was else ""
        if card:
            before = "measured" if card.measures(step.rule, precision, planner.shape.matrices) else "computed"
        time = duration(step.jobs * step.seconds) if step.seconds else "download"
        sizes = f"{step.memory / 1e9:6.1f} GB{gpu:>9}{step.disk / 1e9:6.1f} GB"
        print(f"{step.rule:34}{step.jobs:5}{time:>14}{sizes}  {before}")

"""Estimate the time, memory and disk space of each step on this machine. Fail if the run does not fit."""

import argparse
import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.base.hardware import arithmetic
from ff_memories.base.options import threads, whole
from ff_memories.base.progress import duration
from ff_memories.inputs.models import model_folder
from ff_memories.model.info import quantised
from ff_memories.report.cost import Cost, costs
from ff_memories.report.wording import looked_at
from ff_memories.workflow.runs import opening
from ff_memories.workflow.runs.run import Run
from ff_memories.workflow.sizes import Shape

if TYPE_CHECKING:
    from ff_memories.workflow.estimate import Planned
    from ff_memories.workflow.speed import Speed


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
    parser.add_argument("--json", metavar="FILE", help="also write the plan to this file as JSON")


def run(args: argparse.Namespace) -> None:
    import torch  # takes a second to load, and so do the modules that measure with it

    from ff_memories.workflow import estimate
    from ff_memories.workflow.planning import THREADS, Planner

    run_ = opening.opened(args.configfile)
    run_.check_inputs()
    made = Planner.of(run_, args.threads or THREADS)
    config, device, shape, speed = run_.config, made.device, made.shape, made.speed
    plan, tokens = made.steps(config), made.tokens_of(config)
    elapsed = {n: estimate.elapsed(made.steps(config, n), n) for n in args.devices}
    measured = {cost.rule: cost for cost in costs([str(p) for p in Path(run_.path("logs")).rglob("*.tsv")])}
    _show(run_, device, shape, tokens, speed, plan, measured, elapsed)
    if args.json:
        write_whole(args.json, json.dumps(_plain(device, tokens, speed, plan, measured, elapsed), indent=1) + "\n")
    on_gpu = torch.cuda.get_device_properties(0).total_memory if device == "cuda" else None
    faults = estimate.unfit(plan, psutil.virtual_memory().total, shutil.disk_usage(".").free, on_gpu)
    if faults:
        raise UserError(
            "this run does not fit\n  " + "\n  ".join(faults),
            "lower execution.batch_tokens or execution.shards, or set corpus.train.max_sentences",
        )


def _show(
    run_: Run,
    device: str,
    shape: Shape,
    tokens: dict[str, int],
    speed: "Speed",
    plan: list["Planned"],
    measured: dict[str, Cost],
    elapsed: dict[int, float],
) -> None:
    said = looked_at(run_.config.triggers.keys, shape.keys // shape.signs, run_.config.seed)
    some = f"of which the run looks at {said}, " if said else ""
    print(
        f"{run_.config.run}: {shape.layers} layers of {shape.keys:,} keys, {some}{shape.vocab:,} types, "
        f"{tokens['train']:,} + {tokens['validation']:,} tokens; here {1 / (speed.layer * shape.layers):,.0f} "
        f"tokens/s on {device}\n"
    )
    if run_.model_folder and (weights := quantised(model_folder.made_from(run_.model_folder))):
        print(f"{weights}\n")
    execution = run_.config.execution
    if device == "cpu" and (slow := arithmetic.slow_products(run_.config.extraction.precision, execution.arithmetic)):
        print(f"{slow}\n")
    print(f"{'step':34}{'jobs':>5}{'time':>14}{'memory':>9}{'GPU':>9}{'disk':>9}  last measured")
    for step in plan:
        gpu = f"{step.device_memory / 1e9:.1f} GB" if device == "cuda" and step.device_memory else ""
        was = measured.get(step.rule)
        before = f"{duration(was.seconds)}, {was.peak_mib / 953.7:.1f} GB" if was and was.peak_mib else ""
        time = duration(step.jobs * step.seconds) if step.seconds else "download"
        sizes = f"{step.memory / 1e9:6.1f} GB{gpu:>9}{step.disk / 1e9:6.1f} GB"
        print(f"{step.rule:34}{step.jobs:5}{time:>14}{sizes}  {before}")
    for n, seconds in elapsed.items():
        print(f"total on {n:3} {'device: ' if n == 1 else 'devices:'} {duration(seconds)}")


def _plain(
    device: str,
    tokens: dict[str, int],
    speed: "Speed",
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
    return {"device": device, "tokens": tokens, "speed": asdict(speed), "steps": steps, "elapsed": elapsed}

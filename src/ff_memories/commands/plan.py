"""Estimate the time, memory and disk space of each step on this machine. Fail if the run does not fit."""

import argparse
from dataclasses import asdict
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.base.files import write_json
from ff_memories.base.parameters import threads
from ff_memories.base.progress import duration
from ff_memories.report.outcome import costs
from ff_memories.workflow import opening
from ff_memories.workflow.rules import refuse_bad_sample


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument("--threads", type=threads, help="CPU threads per job")
    parser.add_argument("--json", metavar="FILE", help="also write the plan to this file as JSON")


def run(args: argparse.Namespace) -> None:
    from ff_memories.workflow.planning import Planner  # torch takes a second to load

    run_ = opening.opened(args.configfile)
    refuse_bad_sample(run_)
    planner = Planner.of(run_, args.threads)
    config, plan = run_.config, planner.steps(run_.config)
    elapsed = planner.elapsed(config)
    measured = {cost.rule: cost for cost in costs([str(p) for p in Path(run_.path("logs")).rglob("*.tsv")])}
    shape, text, pace = planner.shape, planner.text.read_by(config), 1 / (planner.speed.layer * planner.shape.layers)
    print(
        f"{config.run}: {shape.layers} layers of {shape.keys:,} keys, {shape.vocab:,} types, {text.train:,} + "
        f"{text.validation:,} tokens; here {pace:,.0f} tokens/s on {planner.device}\n"
    )
    print(f"{'step':34}{'jobs':>5}{'time':>14}{'memory':>9}{'GPU':>9}{'disk':>9}  last measured")
    for step in plan:
        gpu = f"{step.device_memory / 1e9:.1f} GB" if planner.device == "cuda" and step.device_memory else ""
        was = measured.get(step.rule)
        before = f"{duration(was.seconds)}, {was.peak_mib / 953.7:.1f} GB" if was and was.peak_mib else ""
        time = duration(step.jobs * step.seconds)
        sizes = f"{step.memory / 1e9:6.1f} GB{gpu:>9}{step.disk / 1e9:6.1f} GB"
        print(f"{step.rule:34}{step.jobs:5}{time:>14}{sizes}  {before}")
    print(f"in all {duration(elapsed)}, with {planner.here} at a time of the jobs that run the model")
    if args.json:
        spent = lambda c: c and {"jobs": c.jobs, "seconds": c.seconds, "memory": c.peak_mib and c.peak_mib * 2**20}
        of_all = lambda step: {"seconds": step.jobs * step.seconds, "measured": spent(measured.get(step.rule))}
        whole = {
            "device": planner.device,
            "tokens": asdict(text),
            "speed": asdict(planner.speed),
            "steps": [asdict(step) | of_all(step) for step in plan],  # memory and disk in bytes
            "elapsed": elapsed,
        }
        write_json(args.json, whole)
    if faults := planner.unfit(plan):
        raise UserError(
            "this run does not fit\n  " + "\n  ".join(faults),
            "lower execution.batch_tokens or execution.shards, or set corpus.train.max_sentences",
        )

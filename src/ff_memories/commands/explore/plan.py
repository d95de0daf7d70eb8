"""Estimate the time, memory and disk space of each step on this machine. Fail if the run does not fit."""

import argparse
import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil
import torch

from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.base.options import threads, whole
from ff_memories.base.progress import duration
from ff_memories.config import Config
from ff_memories.corpus.tokenizer import Tokenizer
from ff_memories.inputs import registry
from ff_memories.inputs.fetch import fetch, missing
from ff_memories.inputs.fetching import hub
from ff_memories.inputs.models import from_gguf, model_folder
from ff_memories.memories.search import chosen
from ff_memories.model.files import checkpoint, converted
from ff_memories.model.info import quantised
from ff_memories.model.loading import chosen_device
from ff_memories.report.cost import Cost, costs
from ff_memories.report.wording import looked_at
from ff_memories.workflow import estimate
from ff_memories.workflow.runs import opening
from ff_memories.workflow.runs.run import Run

BEGINNING = 1 << 20  # characters of a text that tell how long its tokens are


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument("--threads", type=threads, default=min(4, os.cpu_count() or 1), help="CPU threads per job")
    parser.add_argument(
        "--devices",
        type=whole(),
        nargs="+",
        default=[1, 8, 64],
        help="numbers of GPUs or machines to estimate the total time for",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the plan to this file as JSON")


def run(args: argparse.Namespace) -> None:
    run_ = opening.opened(args.configfile)
    run_.check_inputs()
    config, device = run_.config, chosen_device(run_.config.execution.device)
    sources = {kind: run_.source(kind) for kind in ("text", "model", "pipeline")}
    shape, (tokens, sentence) = _shape(run_, sources["model"]), _tokens(run_, sources["text"])
    _refuse_unknown_keys(config, shape)
    _refuse_wide(shape)
    wanting = [s for s in sources.values() if s is not None and s.downloads and missing(s)]
    archives = sum(_bytes(source) for source in wanting)
    speed = estimate.calibrate(shape, device, config.execution.batch_tokens, args.threads, config.extraction.precision)
    on = lambda devices: estimate.steps(
        config, shape, tokens, speed, archives, bool(run_.golden), sentence, devices=devices
    )
    plan = on(torch.cuda.device_count() if device == "cuda" else os.cpu_count() or 1)
    elapsed = {n: estimate.elapsed(on(n), n) for n in args.devices}
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


def _refuse_unknown_keys(config: Config, shape: estimate.Shape) -> None:
    """Raise ``UserError`` for memories that the model lacks, or that the gallery shows and the run does not look at."""
    neurons = shape.keys // shape.signs
    found = chosen.memories(config.triggers.keys, shape.layers, neurons, config)
    if config.gallery.keys is not None:
        found = found or [np.arange(neurons)] * shape.layers
        own = pl.DataFrame(chosen.keys(found, neurons, 1), schema=["layer", "key"], orient="row")
        chosen.in_gallery(config.gallery.keys, own, shape.layers, neurons, config.seed)


def _refuse_wide(shape: estimate.Shape) -> None:
    """Raise ``UserError`` for a model of which this machine cannot hold one layer, on which its speed is measured."""
    layer = 4 * (4 * shape.model**2 + 2 * shape.keys * shape.model + shape.head * shape.model)
    if layer > (memory := psutil.virtual_memory().total):
        raise UserError(
            f"this run does not fit: a layer and the output layer need {layer / 1e9:,.0f} GB of memory, but this "
            f"machine has {memory / 1e9:.0f} GB",
            "use a smaller model, or a larger machine",
        )


def _show(
    run_: Run,
    device: str,
    shape: estimate.Shape,
    tokens: dict[str, int],
    speed: estimate.Speed,
    plan: list[estimate.Planned],
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
    speed: estimate.Speed,
    plan: list[estimate.Planned],
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


def _bytes(source: registry.Source) -> int:
    way = source.downloads[0]
    return source.unpacked_bytes + sum(part.bytes or part.at_most or 0 for part in way.parts)


def _shape(run_: Run, source: registry.Source | None) -> estimate.Shape:
    """Return the model's sizes, from the converted model, the checkpoint, or the registry."""
    described = Path(run_.path("model", "model.json"))
    found: converted.Description
    if run_.config.model.has_tokenizer:
        found = _transformer(run_, described)
    elif described.exists():
        found = converted.read_description(described)
    elif not Path(run_.checkpoint).is_file() and source is not None and source.shape:
        return estimate.Shape(**source.shape)
    else:
        found, _ = checkpoint.read(run_.checkpoint)
    return estimate.Shape.of(found)


def _transformer(run_: Run, described: Path) -> converted.Description:
    from ff_memories.model.files import config_file, headers
    from ff_memories.model.transformer import describe, load  # the library takes seconds to load

    if described.exists():
        return describe.read_description(described)
    path = _model_file(run_, model_folder.CONFIG)
    plain = config_file.read(path.parent)
    headers.check(path.parent, plain, str(path.parent))
    return load.sizes(plain, run_.config.triggers.signs, str(path))


def _model_file(run_: Run, name: str) -> Path:
    """Return a small file of a model of `transformers`, which need not be fetched yet; a GGUF file is converted."""
    pinned = run_.pinned_on_hub
    for path, digest in run_.gguf.items():
        if pinned is not None:
            hub.fetch(pinned)
        from_gguf.folder(Path(path), digest)
    if (source := run_.source("model")) is not None:
        fetch(str(run_.config.model.source), source)
    if pinned is None or run_.gguf:
        return Path(str(run_.model_folder), name)
    return hub.small_file(pinned, name)


def _pieces(run_: Run, path: Path) -> float:
    """Return how many tokens the model's tokenizer makes of a word, by the beginning of a text."""
    if not run_.config.model.has_tokenizer:
        return 1.0
    with path.open(encoding="utf-8", errors="replace") as file:
        words = file.read(BEGINNING).split()
    tokens = Tokenizer.read(_model_file(run_, model_folder.TOKENIZER)).encode(words)
    return len(tokens) / max(1, len(words))


def _tokens(run_: Run, source: registry.Source | None) -> tuple[dict[str, int], int]:
    """Return the tokens of each split, fewer if sentences are capped, and the mean number of a sentence."""
    out, sentence = {}, estimate.SENTENCE
    for split in ("train", "validation"):
        paths, most = run_.texts(split), getattr(run_.config.corpus, split).max_sentences
        if all(Path(path).is_file() for path in paths):
            pieces = _pieces(run_, Path(paths[0]))
            sentence = round(estimate.SENTENCE * pieces)
            out[split] = round(sum(_words(Path(path)) for path in paths) * pieces)
        elif source is not None and split in source.tokens:
            out[split] = source.tokens[split]
        else:
            raise UserError(
                f"{', '.join(paths)}: no such text file, and its size is unknown", "fetch or make the text first"
            )
        if most is not None:
            out[split] = min(out[split], most * sentence)
    return out, sentence


def _words(path: Path) -> int:
    with path.open("rb") as lines:
        return sum(len(line.split()) for line in lines)

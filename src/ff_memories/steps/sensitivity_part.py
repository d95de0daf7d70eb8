"""Measure the claims with some choices changed: one part of the table `sensitivity`.

A part is a config section (`values`: each of its choices in turn) or one choice (`triggers.positions=full`). Steps that
a choice does not affect do not run again; their files come from the run. If the run would be refused with a choice
(`corpus.too_long=refuse` and a sentence that is too long), no claim applies.
"""

import argparse
import contextlib
import filecmp
import io
import json
import shlex
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ff_memories import declaration, tables
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import Execution, Input, Output, Param, Wildcard
from ff_memories.base.progress import Progress
from ff_memories.corpus import store
from ff_memories.judge.sensitivity import parts, refused, rows, varied
from ff_memories.paper.keys import mutations, patterns, proxy, trigger_shard, triggers
from ff_memories.paper.layers import composition
from ff_memories.paper.values import values
from ff_memories.steps import claims as judging
from ff_memories.steps import corpus as reading
from ff_memories.steps import join, model, transformer_model
from ff_memories.workflow.jobs import workflow
from ff_memories.workflow.run import Run

# Imported explicitly, because a part depends on the source of every step that it may run again.
AGAIN = (reading, model, transformer_model, trigger_shard, triggers, mutations, values, composition, join, proxy,
         patterns, judging)  # fmt: skip
STEPS: dict[str, Any] = {module.__name__.rpartition(".")[2].replace("_", "-"): module for module in AGAIN}
# begin the names of rules that no varied choice concerns: the baselines', and what claims beyond the paper rest on
LEFT_OUT = ("models", "sample", "baselines", "perplexity", "interventions")
PREFIX, REDIRECTION = ("ff-memories", "step"), "2>"  # of a job's command


@dataclass(frozen=True)
class StepJob:
    """One job of the run: its files, its config's sections as JSON, and its step with the rule's options."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    config: str
    command: tuple[str, ...]


def run(
    configfile: Param, part: Wildcard, corpus: Input, claims: Input, sensitivity: Output, execution: Execution
) -> None:
    """Measure the claims under every choice of the part.

    Args:
        configfile: the run's config file
        part: a config section, or one choice as key=value
        corpus: the run's corpus.safetensors
        claims: the run's claims table
    """
    run_ = Run.read(configfile)
    choices = parts(run_.config) | parts(run_.config, "controls")
    if part not in choices:
        raise UserError(f"--part: unknown part {part!r}; expected one of {', '.join(choices)}")
    jobs = jobs_of(run_, str(claims), execution.threads)
    sentences = store.read(corpus).train
    sensitivity.parent.mkdir(parents=True, exist_ok=True)
    done, progress = [], Progress(len(choices[part]), "choices", part)
    for choice in choices[part]:
        with tempfile.TemporaryDirectory(dir=sensitivity.parent, prefix="variant-") as folder:
            try:
                moved = evaluate(jobs, varied(run_.config, choice, sentences).resolved(), Path(folder), run_step)
                measured = rows(tables.read(moved.get(str(claims), claims)), choice.path, choice.value)
            except UserError as error:
                print(f"{choice.name}: a run with this choice is refused: {error}", file=sys.stderr)
                measured = refused(tables.read(claims), choice.path, choice.value)
            done.append(measured)
        progress.step(1)
    tables.write(pl.concat(done), sensitivity)


def jobs_of(run: Run, target: str, cores: int) -> list[StepJob]:
    """Return the run's jobs that a target needs and that a choice may change, each after those that it needs.

    Raises ``UserError`` if no job of the run makes the target.
    """
    needed, wanted = list[StepJob](), {target}
    with workflow(run, forceall=True, cores=cores) as opened:
        for job in reversed([job for level in opened.dag.toposorted() for job in sorted(level, key=str)]):
            words, inputs, outputs = shlex.split(job.shellcmd or ""), [*map(str, job.input)], [*map(str, job.output)]
            on_own_model = not job.wildcards_dict.get("model") and not job.rule.name.startswith(LEFT_OUT)
            if wanted & {*outputs} and tuple(words[:2]) == PREFIX and on_own_model:
                config, command = dict(job.params.items())["config"], tuple(words[2 : words.index(REDIRECTION)])
                needed.insert(0, StepJob(tuple(inputs), tuple(outputs), config, command))
                wanted |= {*inputs}
    if not needed:
        hint = "give its path from the project's top folder"
        raise UserError(f"{target}: no step of {run.file} makes this file", hint)
    return needed


def evaluate(
    jobs: list[StepJob], resolved: dict[str, Any], folder: Path, run: Callable[[list[str]], None]
) -> dict[str, str]:
    """Run the steps of a run that another config changes; after an output that comes out unchanged, none runs.

    ``jobs``: of the run itself, whose files exist. ``resolved``: the variant's config. ``folder``: for its files.
    ``run``: runs one step, given its name and options. Return {path in the run: path of the variant's file} of files
    that differ.
    """
    moved: dict[str, str] = {}
    for job in jobs:
        declared = changed(job.config, resolved)
        if declared == job.config and not any(path in moved for path in job.inputs):
            continue
        outputs = {path: str(folder / path) for path in job.outputs}
        replaced = moved | outputs | {job.config: declared}
        for path in outputs.values():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        run([replaced.get(word, word) for word in job.command])
        same = {path for path, new in outputs.items() if Path(path).exists() and filecmp.cmp(path, new, shallow=False)}
        moved |= {path: new for path, new in outputs.items() if path not in same}
    return moved


def changed(config: str, resolved: dict[str, Any]) -> str:
    """Return a job's declared config sections with another config's values."""
    part = json.loads(config)
    for name, section in part.items():
        part[name] = {key: resolved[name][key] for key in section} if isinstance(section, dict) else resolved[name]
    return json.dumps(part, sort_keys=True)


def run_step(words: list[str]) -> None:
    """Run one step in this process, without its output."""
    step, parser = declaration.step(words[0]), argparse.ArgumentParser(prog=words[0])
    declaration.add_options(parser, step.parameters)
    with contextlib.redirect_stdout(io.StringIO()):
        step.call(STEPS[words[0]].run, parser.parse_args(words[1:]))

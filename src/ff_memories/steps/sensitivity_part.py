"""Measure the claims with some choices changed: one part of the table `sensitivity`.

A part is a config section (`values`: each of its choices in turn) or one choice (`triggers.positions=full`). Steps that
a choice does not affect do not run again; their files come from the run. If the run would be refused with a choice
(`corpus.too_long=refuse` and a sentence that is too long), no claim applies.
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

import polars as pl

from ff_memories import declaration, tables
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import Execution, Input, Output, Param, Wildcard
from ff_memories.base.progress import Progress
from ff_memories.claims.sensitivity.choices import Choice, parts, varied
from ff_memories.claims.sensitivity.table import refused, rows
from ff_memories.corpus import store
from ff_memories.model.families import families
from ff_memories.steps import claims as judging

# Imported explicitly, because a part depends on the source of every step that it may run again.
from ff_memories.steps import (
    composition,
    docstrings,
    join,
    model,
    mutations,
    patterns,
    proxy,
    trigger_shard,
    triggers,
    values,
)
from ff_memories.steps import corpus as reading
from ff_memories.workflow.runs.run import Run
from ff_memories.workflow.variants import StepJob, evaluate, jobs_of

STEPS = {
    "claims": judging,
    "composition": composition,
    "corpus": reading,
    "docstrings": docstrings,
    "join": join,
    "model": model,
    "mutations": mutations,
    "patterns": patterns,
    "proxy": proxy,
    "trigger-shard": trigger_shard,
    "triggers": triggers,
    "values": values,
}


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
    known = parts(run_.config)
    if part not in known:
        raise UserError(f"--part: unknown part {part!r}; expected one of {', '.join(known)}")
    jobs = jobs_of(run_, str(claims), execution.threads)
    sentences = store.read(corpus).train
    sensitivity.parent.mkdir(parents=True, exist_ok=True)
    done, progress = [], Progress(len(known[part]), "choices", part)
    for choice in (choice for choice in known[part] if _differs(choice, jobs)):
        with tempfile.TemporaryDirectory(dir=sensitivity.parent, prefix="variant-") as folder:
            try:
                moved = evaluate(jobs, varied(run_.config, choice, sentences), Path(folder), run_step)
                measured = rows(tables.read(moved.get(str(claims), claims)), choice.path, choice.value)
            except UserError as error:
                print(f"{choice.name}: a run with this choice is refused: {error}", file=sys.stderr)
                measured = refused(tables.read(claims), choice.path, choice.value)
            done.append(measured)
        progress.step(1)
    tables.write(pl.concat(done), sensitivity)


def _differs(choice: Choice, jobs: list[StepJob]) -> bool:
    """Say whether a choice can differ for the run's model: only a parallel block reads something else than r."""
    if choice.path != "composition.residual":
        return True
    model = next(
        Path(path) for job in jobs if job.rule == "model" for path in job.outputs if path.endswith("model.json")
    )
    held = json.loads(model.read_text(encoding="utf-8"))
    return families.row(held["config"], str(model)).wiring == "parallel"


def run_step(words: list[str]) -> None:
    """Run one step in this process, without its output."""
    step, parser = declaration.step(words[0]), argparse.ArgumentParser(prog=words[0])
    step.add_to(parser)
    with contextlib.redirect_stdout(io.StringIO()):
        step.call(STEPS[words[0]].run, parser.parse_args(words[1:]))

"""The audit: recompute random rows of the measured tables from the model and the text.

The audit samples every table and makes a statement about it at the requested confidence. It also runs random whole
sentences: no prefix may beat the last trigger of a key that does not list it. That finds rows missing from the table,
which recomputing existing rows cannot find. What follows from other tables is checked in all rows (``structure``).
"""

import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import active_children, get_context, parent_process, util
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import NoReturn

import numpy as np
import polars as pl
import psutil
import torch

from ff_memories import tables
from ff_memories.audit.recompute import baselines, reading, structure
from ff_memories.audit.recompute.basis import At, Basis, library
from ff_memories.audit.recompute.closeness import DIFFERS, NEAR_TIE, Result
from ff_memories.audit.recompute.rows import ROWS, recomputed_rows
from ff_memories.audit.recompute.sampling import Aim
from ff_memories.audit.recompute.unlisted import Unlisted
from ff_memories.base.errors import UserError
from ff_memories.base.progress import Progress
from ff_memories.corpus import store
from ff_memories.corpus.prefixes import available
from ff_memories.model.info import read_info
from ff_memories.tables.schema import FOLLOWS
from ff_memories.workflow.runs.run import Run

# tables that the audit needs: what a run measured of its own model
READ = tuple(name for name, schema in tables.TABLES.items() if schema.measured and schema.compared != FOLLOWS)
LEFT_OUT = "sentences"  # the check of whole sentences for triggers that the table lacks
STRUCTURE = "structure"
AT_ONCE = 100  # rows of one piece of work
SMALL = 1_000_000  # parameters: below, starting a process takes longer than the audit
PATIENCE = 5  # seconds for a process to end by itself
OF_BASELINES = "baselines"
# what reading tables may raise that name what does not exist, or numbers that cannot be
BROKEN = (LookupError, ArithmeticError, ValueError, TypeError, pl.exceptions.PolarsError)


@dataclass
class Finding:
    """The audit's result for one table, or for the rows that it lacks."""

    what: str
    population: int
    looked_at: int = 0
    near_ties: int = 0
    largest_difference: float = 0.0
    differ: list[str] = field(default_factory=list)

    def add(self, where: str, result: Result) -> None:
        self.looked_at += 1
        self.largest_difference = max(self.largest_difference, result.difference)
        self.near_ties += result.state == NEAR_TIE
        if result.state == DIFFERS:
            self.differ.append(f"{where}: {result.says}")

    def statement(self, aim: Aim) -> str:
        """Return the statement about the table in words."""
        if self.what == LEFT_OUT:
            words = "sentences hold no unlisted trigger", "do"
        else:
            words = f"rows of {self.what.replace(OF_BASELINES, 'the baselines')} match", "differ"
        return aim.statement(self.looked_at, len(self.differ), self.population, *words)


Said = tuple[str, str, Result]  # table, place, result


@dataclass(frozen=True)
class Work:
    """A piece of the audit: some rows of a table of the run, or some of each table of one of its baselines."""

    what: str
    rows: np.ndarray
    others: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        return len(self.rows) + sum(map(len, self.others.values()))


def audit(basis: Basis, aim: Aim, only: Iterable[str] = (*ROWS, LEFT_OUT)) -> list[Finding]:
    """Recompute a random sample of every measured table, and look for prefixes missing from ``triggers``.

    Args:
        basis: the tables, and the model and text to recompute them from.
        aim: the confidence and the share of errors to detect.
        only: tables to audit, and ``sentences`` to look for missing triggers.
    """
    works, sizes = _works(basis.corpus, basis.config.triggers.positions, basis.tables, aim, only)
    with Progress(sum(work.steps for work in works), "rows", "audit") as progress:
        said = (found for work in works for found in _looked(basis, work, progress))
        return _findings(said, sizes)


def _looked(basis: Basis, work: Work, progress: Progress) -> list[Said]:
    found = _run(basis, work)
    progress.step(work.steps)
    return found


def audit_run(run: Run, aim: Aim, at: At = Path, cores: int = 1) -> tuple[list[Finding], list[str], str]:
    """Audit a run with its baselines, in several processes.

    Args:
        at: from a file of the run to the place to read it from; it must be picklable.

    Returns:
        The findings; contradictions between tables; and whose forward pass the reference model is.
    """
    corpus = store.read(at(run.path("corpus", "corpus.safetensors")))
    frames = {name: reading.read(at(run.table(name))) for name in READ}
    works, sizes = _works(corpus, run.resolved["triggers"]["positions"], frames, aim, (*ROWS, LEFT_OUT))
    del frames
    more, others = _of_baselines(run, aim, at)
    works, sizes = [*more, Work(STRUCTURE, np.arange(1)), *works], sizes | others
    said: list[Said] = []
    with Progress(sum(work.steps for work in works), "rows", "audit") as progress:
        do = partial(_in_process, json.dumps(run.config.model_dump(), sort_keys=True), run.file, at)
        for work, found in _each(works, do, _workers(run, cores)):
            said += found
            progress.step(work.steps)
    faults = [f"{where}: {result.says}" for what, where, result in said if what == STRUCTURE]
    return _findings((one for one in said if one[0] != STRUCTURE), sizes), faults, library(run)


def _works(
    corpus: store.Corpus, positions: str, frames: Mapping[str, pl.DataFrame], aim: Aim, only: Iterable[str]
) -> tuple[list[Work], dict[str, int]]:
    """Draw the rows to look at; return them in pieces, and the size of each table."""
    sentences, works = np.flatnonzero(available(corpus, positions)), []
    names = [name for name in (*ROWS, LEFT_OUT) if name in only]
    sizes = {name: len(sentences) if name == LEFT_OUT else len(frames[name]) for name in names}
    for name, size in sizes.items():
        drawn = aim.draw(name, size)
        drawn = sentences[drawn] if name == LEFT_OUT else drawn
        works += [Work(name, drawn[i : i + AT_ONCE]) for i in range(0, len(drawn), AT_ONCE)]
    return works, sizes


def _of_baselines(run: Run, aim: Aim, at: At) -> tuple[list[Work], dict[str, int]]:
    """Draw rows of each table among all models of the baselines; return a piece of work for each model."""
    names, sizes = baselines.models(run), {}
    rows: dict[str, dict[str, np.ndarray]] = {name: {} for name in names}
    for table in baselines.OWN:
        counts = [len(tables.read(at(run.path("baselines", name, f"{table}.parquet")))) for name in names]
        sizes[f"{OF_BASELINES} {table}"] = sum(counts)
        if table in baselines.LABELS:
            continue
        drawn, ends = aim.draw(f"baselines {table}", sum(counts)), np.cumsum([0, *counts])
        for name, first, end in zip(names, ends, ends[1:], strict=False):
            rows[name][table] = drawn[(drawn >= first) & (drawn < end)] - first
    sizes[f"{OF_BASELINES} {baselines.PERPLEXITY}"] = len(names)
    return [Work(f"{OF_BASELINES} {name}", np.arange(0), others) for name, others in rows.items()], sizes


def _findings(said: Iterable[Said], sizes: Mapping[str, int]) -> list[Finding]:
    found = {what: Finding(what, size) for what, size in sizes.items()}
    for what, where, result in said:
        found[what].add(where, result)
    return list(found.values())


def _run(basis: Basis, work: Work) -> list[Said]:
    """Do a piece of work on the run's own tables; those that cannot be read together are a fault."""
    try:
        return _done(basis, work)
    except BROKEN as error:
        return [(work.what, work.what, _broken(error))]


def _broken(error: Exception) -> Result:
    return Result(DIFFERS, f"cannot be recomputed from what the tables say ({str(error).partition(chr(10))[0]})")


def _done(basis: Basis, work: Work) -> list[Said]:
    if work.what == LEFT_OUT:
        with torch.inference_mode():
            unlisted = Unlisted(basis)
            return [(LEFT_OUT, f"sentence {sentence}", unlisted.of(sentence)) for sentence in work.rows.tolist()]
    return [
        (work.what, f"{work.what}, {where}", result)
        for where, result in recomputed_rows(basis, work.what, work.rows.tolist())
    ]


def contradictions(basis: Basis, run: Run, at: At = Path) -> list[str]:
    """Return what contradicts other tables, the text, the config or the counts, each as ``table: what``."""
    said = list(structure.as_written({name: at(run.table(name)) for name in READ}, basis.config.precision))
    said += structure.faults(basis)
    for step in structure.COUNTS:
        again = structure.counts_again(basis, step)
        if again is None or not pl.read_parquet(at(run.path("counts", f"{step}.parquet"))).equals(again):
            said.append(f"counts/{step}: not what the tables say")
    return said


@cache
def _own(settings: str, file: str, at: At) -> tuple[Run, Basis]:
    run = Run(json.loads(settings), file)
    return run, Basis.read(run, READ, at)


def _in_process(settings: str, file: str, at: At, work: Work) -> list[Said]:
    """Do a piece of work, in a process that keeps what it has read; ``settings``: the config as JSON."""
    try:
        if work.what.startswith(OF_BASELINES):
            return _of_baseline(Run(json.loads(settings), file), work, at)
        run, basis = _own(settings, file, at)
        if work.what == STRUCTURE:
            parts = (said.partition(": ") for said in contradictions(basis, run, at))
            return [(STRUCTURE, where, Result(DIFFERS, what)) for where, _, what in parts]
        return _run(basis, work)
    except BROKEN as error:
        return [(STRUCTURE, "tables" if work.what == STRUCTURE else work.what, _broken(error))]


def _of_baseline(run: Run, work: Work, at: At) -> list[Said]:
    model, out = work.what.partition(" ")[2], []
    for table, where, result in baselines.recompute(run, model, work.others, at):
        what = STRUCTURE if table == STRUCTURE else f"{OF_BASELINES} {table}"
        out.append((what, f"{OF_BASELINES}, {table}, {where}", result))
    return out


def _each(works: list[Work], do: Callable[[Work], list[Said]], workers: int) -> Iterator[tuple[Work, list[Said]]]:
    if workers == 1:
        yield from ((work, do(work)) for work in works)
        return
    try:
        with ProcessPoolExecutor(workers, get_context("spawn"), _begin) as pool:
            todo = {pool.submit(do, work): work for work in works}
            try:
                for done in as_completed(todo):
                    yield todo[done], done.result()
            except BaseException:  # someone stops the command: the pool itself would wait for the rest of the work
                for process in (others := active_children()):
                    process.terminate()
                for process in others:
                    process.join(PATIENCE)
                    process.kill()
                raise
    except BrokenProcessPool:
        raise UserError(
            "the system ended a process of the audit, as it does when memory runs out; with --cores 1 it needs less"
        ) from None


def _begin() -> None:
    """Prepare a process: one thread of arithmetic; it ends when the command that started it ends."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, _end)
    if command := parent_process():
        Thread(target=_end_with, args=(command,), daemon=True).start()


def _end_with(command: BaseProcess) -> None:
    command.join()
    _end()


def _end(*_: object) -> NoReturn:
    """End this process at once, but give its semaphores back to the system: fairseq makes one."""
    if current_thread() is main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a limit signals the command and its group
    util._exit_function()  # type: ignore[attr-defined]
    os._exit(1)


def _workers(run: Run, cores: int) -> int:
    """Return how many processes audit a run side by side, each with models of its own in memory."""
    parameters = read_info(run.path("model", "info.json")).get("parameters", 0)
    if not isinstance(parameters, int) or parameters < SMALL:
        return 1
    return max(1, min(cores, psutil.virtual_memory().available // (40 * parameters)))

"""The audit: recompute random rows of the measured tables from the model and the text, for one model after another.

The audit samples every table of every model by itself and makes a statement about it at the requested confidence. It
also runs random whole sentences: no prefix may beat the last trigger of a key that does not list it. That finds rows
missing from the table, which recomputing existing rows cannot find. What follows from other tables is checked in all
rows (``recompute``).
"""

import gc
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import RLock, Thread

import numpy as np
import polars as pl
import psutil
import torch

from ff_memories import tables
from ff_memories.audit import baselines, recompute
from ff_memories.audit.audit_inputs import At, AuditInputs, Later, read_table
from ff_memories.audit.near_equal import DIFFERS, FEW, MATCH, NEAR_TIE, Result, RowResult, Tolerances
from ff_memories.audit.recompute import ROWS, place, recomputed
from ff_memories.audit.sampling import Aim
from ff_memories.base import machine
from ff_memories.base.draws import generator
from ff_memories.base.errors import UserError
from ff_memories.base.progress import Progress
from ff_memories.base.text import counted
from ff_memories.corpus import store
from ff_memories.model.info import read_info
from ff_memories.paper.keys.audit import Unlisted
from ff_memories.workflow.run import Run

OWN = "own"  # the run's own model
LEFT_OUT = "sentences"  # the check of whole sentences for triggers that the table lacks
EXAMPLE, PREFIX = "example", "prefix"  # keys that name prefixes, which tables with such a key share
TOGETHER = 5 / 8  # of the tokens whose activations are kept, how many run together
BATCH = 4  # times these tokens, of changes that run together
AT_ONCE = 100  # rows of one piece of work
ROUNDS = 8  # of an audit that has a limit of time: the rows of each are a random sample by themselves
SMALL = 1_000_000  # parameters: below, starting a process takes longer than the audit
# what reading tables may raise that name what does not exist, or numbers that cannot be
BROKEN = (LookupError, ArithmeticError, ValueError, TypeError, pl.exceptions.PolarsError)
Drawn = tuple[str, int]  # a table, and the number of one of its rows
Done = tuple[list[RowResult], list[str]]  # of a piece of work: the results of rows, and contradictions between tables


@dataclass
class Finding:
    """The audit's result for one table of one model, or for the rows that it lacks."""

    what: str
    rows: int
    model: str = OWN
    recomputed: int = 0
    near_ties: int = 0
    largest_difference: float = 0.0
    differ: list[str] = field(default_factory=list)

    def add(self, where: str, result: Result) -> None:
        self.recomputed += 1
        self.largest_difference = max(self.largest_difference, result.difference)
        self.near_ties += result.state == NEAR_TIE
        if result.state == DIFFERS:
            self.differ.append(f"{where}: {result.says}")

    def hangs(self, limits: Tolerances) -> bool:
        """Return whether more rows than a stated share hang on near-ties: then they show too little."""
        return self.near_ties > limits.near_ties * self.recomputed + FEW


@dataclass(frozen=True)
class Piece:
    """A piece of the audit: some rows of a model's tables."""

    model: str
    rows: tuple[Drawn, ...] = ()
    round: int = 0  # of an audit that has a limit of time; 0 is done whatever it takes
    whole: bool = True  # whether what follows from other tables is checked too


def statement(found: Sequence[Finding], aim: Aim) -> str:
    """Return in words what one table's findings show, of one model or of several."""
    first, recomputed, differ = found[0], sum(f.recomputed for f in found), sum(len(f.differ) for f in found)
    match, other = f"rows of {first.what} match", f"of {first.rows:,} differ"
    if first.what == LEFT_OUT:
        match, other = "sentences hold no unlisted trigger", f"of {first.rows:,} do"
    elif first.model != OWN:
        match, other = f"rows of {first.what} in {len(found)} other models match", "of each one's differ"
    matching, near = f"{recomputed - differ:,} of {recomputed:,} {match}", sum(f.near_ties for f in found)
    if near:
        only = ", which hold none that scores clearly higher" if first.what == LEFT_OUT else ""
        matching += f" ({counted(near, 'near-tie', 'near-ties')}{only})"
    bounds = [100 * aim.bound(f.recomputed, len(f.differ)) for f in found if f.recomputed < f.rows]
    if not bounds:
        return f"{matching}: these are all rows"
    most = f"{max(bounds):.2g}" if max(bounds) < 99.5 else "100"
    return f"{matching}: with {100 * aim.confidence:g} % confidence, fewer than {most} % {other}"


def draw(
    model: str, frames: Mapping[str, pl.DataFrame], aim: Aim, rounds: int = 1
) -> tuple[list[Piece], dict[str, Finding]]:
    """Draw rows of a model's tables, and of ``LEFT_OUT`` sentences; return them in pieces, and a finding for each name.

    Rows that share prefixes are in one piece, because one process finds them once.
    """
    drawn, findings = dict[str, list[Drawn]](), {}
    shared = {name: next((key for key in (EXAMPLE, PREFIX) if key in tables.TABLES[name].key), None) for name in ROWS}
    for name, frame in frames.items():
        findings[name] = Finding(name, len(frame), model)
        rows = _of_examples(aim, model, frame) if shared.get(name) == EXAMPLE else None
        rows = aim.draw(f"{model} {name}", len(frame)) if rows is None else rows
        rows = generator(aim.seed, f"audit rounds {model} {len(rows)}").permutation(rows)
        numbers = frame["sentence"].to_numpy()[rows] if name == LEFT_OUT else rows
        drawn[name] = [(name, row) for row in numbers.tolist()]
    works = []
    for number in range(rounds):
        some = {name: rows[number::rounds] for name, rows in drawn.items()}
        for column in (PREFIX, EXAMPLE):
            group = tuple(row for name in some if shared.get(name) == column for row in some[name])
            works.append(Piece(model, group, number, whole=number == 0 and column == PREFIX))
        for one in (some[name] for name in some if shared.get(name) is None):
            works += [Piece(model, tuple(one[i : i + AT_ONCE]), number, False) for i in range(0, len(one), AT_ONCE)]
    return works, findings


def _of_examples(aim: Aim, model: str, frame: pl.DataFrame) -> np.ndarray | None:
    """Draw a row of each of as many examples, so all tables run the same prefixes; ``None`` if there are too few."""
    # wherever wrong rows are, they are found at least as often as in rows drawn by themselves
    groups = frame.with_row_index("row").group_by("example", maintain_order=True).agg("row")["row"]
    if len(groups) <= aim.rows:
        return None
    rng = generator(aim.seed, f"audit {model} rows of examples {len(frame)}")
    examples = aim.draw(f"{model} examples", len(groups)).tolist()
    return np.array([int(rng.choice(groups[i].to_numpy())) for i in examples])


def look(inputs: AuditInputs, rows: Sequence[Drawn]) -> list[RowResult]:
    """Return the result of every row; tables that cannot be read together are a fault.

    Rows are recomputed in float32, and all that do not match, or are near-ties, again in float64.
    """
    if not rows:
        return []
    matching, left = list[RowResult](), list(rows)
    with inputs.oracle.in_float32(), suppress(RuntimeError):  # a model whose code needs float64 matches nothing
        looked = list(judged(replace(inputs, quick=True), rows))
        matching = [result for _, result in looked if result[2].state == MATCH]
        left = [row for row, result in looked if result[2].state != MATCH]
    return [*matching, *(result for _, result in judged(inputs, left))]


def judged(inputs: AuditInputs, rows: Sequence[Drawn]) -> Iterator[tuple[Drawn, RowResult]]:
    """Yield rows, in another order, with their results, in the precision that the reference model has."""
    unlisted = cache(lambda: Unlisted(inputs))
    for few in _together(inputs, rows):
        _change_together(inputs, few)
        for name, row in few:
            try:
                if name == LEFT_OUT:
                    yield (name, row), (name, f"sentence {row}", unlisted().of(row))
                else:
                    cells = inputs.tables[name].row(row, named=True)
                    yield (name, row), (name, f"{name}, {place(name, cells)}", recomputed(name, inputs, cells))
            except BROKEN as error:
                yield (name, row), (name, name, Result(DIFFERS, _broken(error)))


def _together(inputs: AuditInputs, rows: Sequence[Drawn]) -> Iterator[list[Drawn]]:
    """Yield rows a few at a time, whose texts, of about the same length, the model has run together."""
    needs = []
    for name, row in rows:
        until, texts = 1, list[np.ndarray]()
        if name == LEFT_OUT:
            until, texts = inputs.oracle.keys[0], [inputs.corpus.sentence(row)]
        else:
            with suppress(*BROKEN):  # what a row names may not exist: its check says so
                until, texts = ROWS[name].runs(inputs, inputs.tables[name].row(row, named=True))
        needs.append((until, {text.tobytes(): text for text in texts}, (name, row)))
    needs.sort(key=lambda need: (need[0], max(map(len, need[1].values()), default=0), sorted(need[1]), need[2]))
    few, texts_ = list[Drawn](), dict[bytes, np.ndarray]()
    for number, (last, row_texts, drawn) in enumerate(needs, 1):
        few, texts_ = [*few, drawn], texts_ | row_texts
        if sum(map(len, texts_.values())) >= TOGETHER * inputs.kept or number == len(needs):
            inputs.run_together(texts_, last)
            yield few
            few, texts_ = [], {}


def _change_together(inputs: AuditInputs, rows: Sequence[Drawn]) -> None:
    """Run together what rows change in the model: each first asks for its change, and finds it when it is looked at."""
    inputs.changes, inputs.asked = {}, {}
    for name, row in (drawn for drawn in rows if drawn[0] != LEFT_OUT and PREFIX in tables.TABLES[drawn[0]].key):
        with torch.inference_mode(), suppress(Later, *BROKEN):
            ROWS[name].row(inputs, inputs.tables[name].row(row, named=True))
    asked, inputs.asked = inputs.asked, None
    size = max(1, BATCH * inputs.kept // max((len(change.tokens) + 1 for change in asked.values()), default=1))
    for few in (list(asked)[i : i + size] for i in range(0, len(asked), size)):
        with torch.inference_mode(), suppress(*BROKEN):  # then each runs by itself
            inputs.changes |= zip(few, inputs.oracle.changed(*map(asked.__getitem__, few)), strict=True)


def _broken(error: Exception) -> str:
    return f"cannot be recomputed from what the tables say ({str(error).partition(chr(10))[0]})"


def contradictions(inputs: AuditInputs, run: Run, at: At = Path) -> list[str]:
    """Return what contradicts other tables, the text, the config or the counts, each as ``table: what``."""
    lines = recompute.contradictions(inputs, {name: at(run.table(name)) for name in ROWS})
    for step, count in ((name, audit.counts) for name, audit in ROWS.items() if audit.counts):
        reasons, recorded = count(inputs), pl.read_parquet(at(run.path("counts", f"{step}.parquet")), glob=False)
        possible = min(reasons.values(), default=0) >= 0  # tables may give a number that cannot be
        if not possible or not recorded.equals(tables.counts(step, reasons)):
            lines.append(f"counts/{step}: not what the tables say")
    return lines


def audit_run(
    run: Run, aim: Aim, at: At = Path, cores: int = 1, until: float = math.inf
) -> tuple[list[Finding], list[str]]:
    """Audit a run's own model and those that it is compared with; return the findings, and what contradicts itself.

    ``at``: from a file of the run to the place to read it from; equal ones are one, of whatever process. ``cores``:
    processes, if memory suffices. ``until``: the time (``time.monotonic``) from which no further round of random rows
    begins.
    """
    corpus = store.read(at(run.path("corpus", "corpus.safetensors")))
    sentences = np.flatnonzero(store.available(corpus, run.resolved["triggers"]["positions"]))
    names, rounds = run.config.baselines.names, ROUNDS if until < math.inf else 1
    frames = {name: read_table(at(run.table(name))) for name in ROWS}
    works, of_own = draw(OWN, frames | {LEFT_OUT: pl.DataFrame({"sentence": sentences})}, aim, rounds)
    found = {OWN: of_own}
    for model in names:
        frames = {name: read_table(at(baselines.file(run, model, name))) for name in baselines.OWN}
        measured = {name: frames[name] for name in ROWS if name in baselines.ROWS}
        some, found[model] = draw(model, measured, aim.of_each(len(names)), rounds)
        found[model] |= {name: Finding(name, len(frames[name]), model) for name in baselines.LABELS}
        # a model is drawn once, so with a limit of time a quarter of its rows are looked at, whatever it takes
        works.append(Piece(model, tuple(row for work in some if work.round < max(1, rounds // 4) for row in work.rows)))
    # a process keeps the run's own model, so others come before it; the longest pieces first
    works.sort(key=lambda work: (work.round, work.model == OWN, not work.whole, -len(work.rows)))
    workers, faults = _workers(run, cores), list[str]()
    do = partial(_done, json.dumps(run.config.model_dump()), run.file, at, until, max(1, cores // workers))
    with Progress(sum(len(work.rows) for work in works), "rows", "audit") as progress:
        for work, (results, contradicting) in _each(works, do, workers):
            front = "" if work.model == OWN else f"{work.model}, "
            faults += [f"{front}{fault}" for fault in contradicting]
            for what, where, result in results:
                found[work.model][what].add(f"{front}{where}", result)
            progress.step(len(work.rows))
    return [finding for of_model in found.values() for finding in of_model.values()], list(dict.fromkeys(faults))


@cache
def _own(settings: str, file: str, at: At) -> tuple[Run, AuditInputs]:
    run = Run(json.loads(settings), file)
    return run, AuditInputs.read(run, ROWS, at)


def _done(settings: str, file: str, at: At, until: float, threads: int, work: Piece) -> Done:
    """Do a piece of work, unless it is of a further round; ``settings``: the config as JSON.

    A process keeps what it has read of the run's own model.
    """
    if work.round and time.monotonic() > until:
        return [], []
    gc.collect()  # the last model, of gigabytes, whose modules and hooks refer to each other
    torch.set_num_threads(threads)
    try:
        if work.model == OWN:
            run, inputs = _own(settings, file, at)
            results, faults = list[RowResult](), contradictions(inputs, run, at) if work.whole else []
        else:
            inputs, results, faults = baselines.read(Run(json.loads(settings), file), work.model, at)
        torch.set_num_threads(threads)  # the automatic proxy has one
        return [*results, *look(inputs, work.rows)], faults
    except BROKEN as error:
        return [], [f"tables: {_broken(error)}"]


def _each(works: list[Piece], do: Callable[[Piece], Done], workers: int) -> Iterator[tuple[Piece, Done]]:
    """Do the pieces of work, in their order, side by side."""
    if workers == 1:
        yield from zip(works, map(do, works), strict=True)
        return
    try:
        with ProcessPoolExecutor(workers, get_context("spawn"), _begin) as pool:
            todo = {pool.submit(do, work): work for work in works}
            try:
                yield from ((todo[done], done.result()) for done in as_completed(todo))
            except BaseException:  # someone stops the command: the pool itself would wait for the rest of the work
                for process in active_children():
                    process.kill()
                raise
    except BrokenProcessPool:
        why = "the system ended a process of the audit, as it does when memory runs out"
        raise UserError(f"{why}; with --cores 1 it needs less") from None


def _begin() -> None:
    """Prepare a process, which ends when the command that started it ends."""
    Progress.set_lock(RLock())  # of this process: nobody would remove another when this one is ended
    Thread(target=_end_with_the_command, daemon=True).start()


def _end_with_the_command() -> None:
    if command := parent_process():
        command.join()
        os._exit(1)


def _workers(run: Run, cores: int) -> int:
    """Return how many processes audit a run side by side, each with models of its own in memory."""
    parameters = read_info(run.path("model", "info.json")).get("parameters", 0)
    if not isinstance(parameters, int) or parameters < SMALL:
        return 1
    return max(1, min(cores, min(machine.memory(), psutil.virtual_memory().available) // (40 * parameters)))

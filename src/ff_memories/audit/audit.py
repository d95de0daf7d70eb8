"""The audit: recompute random rows of the measured tables from the model and the text, for one model after another.

The audit samples every table of every model by itself and makes a statement about it at the requested confidence. It
also runs random whole sentences: no prefix may beat the last trigger of a key that does not list it. That finds rows
missing from the table, which recomputing existing rows cannot find. What follows from other tables is checked in all
rows (``structure``).
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import RLock, Thread

import numpy as np
import polars as pl
import psutil
import torch

from ff_memories.audit import baselines, structure
from ff_memories.audit.audit_inputs import At, AuditInputs, library, read_table, text_key
from ff_memories.audit.checks import ROWS, recomputed_rows, texts_of
from ff_memories.audit.near_equal import DIFFERS, FEW, MATCH, NEAR_TIE, Result, Tolerances
from ff_memories.audit.sampling import Aim
from ff_memories.base.draws import generator
from ff_memories.base.errors import UserError
from ff_memories.base.progress import Progress
from ff_memories.corpus import store
from ff_memories.corpus.store import Corpus, available
from ff_memories.model.info import read_info
from ff_memories.workflow.run import Run

OWN = "own"  # the run's own model
LEFT_OUT = "sentences"  # the check of whole sentences for triggers that the table lacks
STRUCTURE = "structure"
TOGETHER = (("examples", "composition", "refinement"), ("causal", "removals"))  # tables whose rows share prefixes
TOGETHER_TOKENS = 160  # of texts that the model runs together
AT_ONCE = 100  # rows of one piece of work
ROUNDS = 8  # of an audit that has a limit of time: the rows of each are a random sample by themselves
SMALL = 1_000_000  # parameters: below, starting a process takes longer than the audit
# what reading tables may raise that name what does not exist, or numbers that cannot be
BROKEN = (LookupError, ArithmeticError, ValueError, TypeError, pl.exceptions.PolarsError)
Drawn = tuple[str, int]  # a table, and the number of one of its rows
Said = tuple[str, str, Result]  # table, place, result


@dataclass
class Finding:
    """The audit's result for one table of one model, or for the rows that it lacks."""

    what: str
    population: int
    model: str = OWN
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

    def hangs(self, limits: Tolerances) -> bool:
        """Return whether more rows than a stated share hang on near-ties: then they show too little."""
        return self.near_ties > limits.near_ties * self.looked_at + FEW


@dataclass(frozen=True)
class Work:
    """A piece of the audit: some rows of a model's tables. No row, or rows of `causal`, stand for all other checks."""

    model: str
    rows: tuple[Drawn, ...] = ()
    round: int = 0  # of an audit that has a limit of time; 0 is done whatever it takes

    @property
    def steps(self) -> int:
        return max(1, len(self.rows))


def statement(found: Sequence[Finding], aim: Aim) -> str:
    """Return in words what one table's findings show, of one model or of several."""
    first, looked_at, differ = found[0], sum(f.looked_at for f in found), sum(len(f.differ) for f in found)
    if first.what == LEFT_OUT:
        return aim.statement(looked_at, differ, first.population, "sentences hold no unlisted trigger", "do")
    if first.model == OWN:
        return aim.statement(looked_at, differ, first.population, f"rows of {first.what} match")
    words = f"rows of {first.what} in {len(found)} other models match"
    if all(f.looked_at == f.population for f in found):
        return aim.statement(looked_at, differ, looked_at, words)
    worst = max(found, key=lambda f: aim.bound(f.looked_at, len(f.differ)))
    of_worst = aim.statement(worst.looked_at, len(worst.differ), worst.population, words, "of each one's differ")
    shown = f"{looked_at - differ:,} of {looked_at:,} {words}"
    return shown + of_worst[of_worst.index(":") :].replace(f"% of {worst.population:,} of", "% of")


def draw(
    model: str, frames: Mapping[str, pl.DataFrame], corpus: Corpus, positions: str, aim: Aim, only: Iterable[str]
) -> tuple[list[Work], dict[str, int]]:
    """Draw the rows of a model's tables to look at; return them in pieces, and the size of each table."""
    names = [name for name in (*ROWS, LEFT_OUT) if name in only]
    sentences = np.flatnonzero(available(corpus, positions))
    sizes = {name: len(sentences) if name == LEFT_OUT else len(frames[name]) for name in names}
    rounds: list[dict[str, list[int]]] = [{} for _ in range(ROUNDS if aim.seconds else 1)]
    for name, size in sizes.items():
        of_examples = _of_examples(aim, model, frames[name]) if name in TOGETHER[0] else None
        rows = aim.draw(f"{model} {name}", size) if of_examples is None else of_examples
        order = generator(aim.seed, f"audit rounds {model} {name}").permutation(len(rows))
        for number, part in enumerate(rounds):
            part[name] = rows[np.sort(order[number :: len(rounds)])].tolist()
    return [work for number, part in enumerate(rounds) for work in _works(model, sentences, part, number)], sizes


def _works(model: str, sentences: np.ndarray, drawn: dict[str, list[int]], number: int) -> list[Work]:
    """Return the pieces of work of one round: rows that share prefixes in one, because one process finds them once."""
    works = []
    for group in [*TOGETHER, *((name,) for name in drawn if name not in sum(TOGETHER, ()))]:
        rows = [(name, int(sentences[i]) if name == LEFT_OUT else i) for name in group for i in drawn.get(name, ())]
        size = len(rows) if group in TOGETHER else AT_ONCE
        works += [Work(model, tuple(rows[i : i + size]), number) for i in range(0, len(rows), size or 1)]
    return works


def _of_examples(aim: Aim, model: str, frame: pl.DataFrame) -> np.ndarray | None:
    """Draw a row of each of as many examples, so all tables run the same prefixes; ``None`` if there are too few."""
    # wherever wrong rows are, they are found at least as often as in rows drawn by themselves
    groups = frame.with_row_index("row").group_by("example", maintain_order=True).agg("row")["row"]
    if len(groups) <= aim.rows:
        return None
    rng = generator(aim.seed, f"audit {model} rows of examples {len(frame)}")
    return np.array(
        [int(rng.choice(groups[i].to_numpy())) for i in aim.draw(f"{model} examples", len(groups)).tolist()]
    )


def look(inputs: AuditInputs, rows: Sequence[Drawn]) -> Iterator[Said]:
    """Yield the result of every row; tables that cannot be read together are a fault."""
    unlisted: Unlisted | None = None
    for few in _together(inputs, rows):
        for name, row in few:
            try:
                if name == LEFT_OUT:
                    with torch.inference_mode():
                        unlisted = unlisted or Unlisted(inputs)
                        yield name, f"sentence {row}", unlisted.of(row)
                else:
                    results = recomputed_rows(inputs, name, [row])
                    yield from ((name, f"{name}, {where}", result) for where, result in results)
            except BROKEN as error:
                yield name, name, _broken(error)


def _together(inputs: AuditInputs, rows: Sequence[Drawn]) -> Iterator[list[Drawn]]:
    """Yield rows a few at a time, whose texts, of about the same length, the model has run together."""
    needs = []
    for name, row in rows:
        until, texts = 1, list[np.ndarray]()
        with suppress(*BROKEN):  # what a row names may not exist: its check says so
            until, texts = texts_of(inputs, name, row)
        needs.append(({text_key(text): text for text in texts}, until, (name, row)))
    needs.sort(key=lambda need: (max(map(len, need[0].values()), default=0), sorted(need[0]), need[1:]))
    few, texts_, last = list[Drawn](), dict[bytes, np.ndarray](), 1
    for number, (row_texts, until, row_) in enumerate(needs, 1):
        few, texts_, last = [*few, row_], texts_ | row_texts, max(last, until)
        if sum(map(len, texts_.values())) >= TOGETHER_TOKENS or number == len(needs):
            with torch.inference_mode():
                inputs.run_together(texts_, last)
            yield few
            few, texts_, last = [], {}, 1


def _broken(error: Exception) -> Result:
    return Result(DIFFERS, f"cannot be recomputed from what the tables say ({str(error).partition(chr(10))[0]})")


class Unlisted:
    """Compare whole sentences with the last triggers of all keys at once."""

    def __init__(self, inputs: AuditInputs):
        self.inputs, self.options, self.limits = inputs, inputs.config.triggers, inputs.near.limits
        triggers = inputs.tables["triggers"]
        full = triggers.filter(pl.col("rank") == self.options.top)
        self.last = torch.zeros(inputs.oracle.keys, dtype=torch.float64)  # 0: a list with room; any prefix beats it
        if inputs.looked_at is not None:  # nothing beats the list of a key that the run did not look at
            self.last[:] = torch.inf
            layers, keys = torch.tensor(inputs.looked_at).unbind(1)
            self.last[layers - 1, keys] = 0
        self.last[_index(full["layer"]) - 1, _index(full["key"])] = torch.from_numpy(
            full["coefficient"].to_numpy().astype(np.float64)
        )
        self.listed = triggers.select("sentence", "position", "layer", "key").partition_by("sentence", as_dict=True)

    def of(self, sentence: int) -> Result:
        """Run a whole sentence and check that no prefix beats the last trigger of a key that does not list it."""
        activations = self.inputs.layers(self.inputs.corpus.sentence(sentence))
        allowed = self.inputs.lengths(sentence)
        listed = self.listed.get((sentence,), self.inputs.tables["triggers"].clear())
        results = []
        for layer, here in enumerate(activations, 1):
            m = here.coefficients()[allowed.start : allowed.stop]
            noise = here.noise(self.limits.noise)  # a smaller score may have either sign
            beats = m > (self.last[layer - 1] * (1 - self.limits.coefficient)).clamp(min=noise)
            if self.options.per_sentence == "best":
                best = torch.zeros_like(beats)
                best[m.argmax(0), torch.arange(m.shape[1])] = True
                beats &= best
            mine = listed.filter(pl.col("layer") == layer)
            any_place = slice(None) if self.options.per_sentence == "best" else _index(mine["position"]) - allowed.start
            beats[any_place, _index(mine["key"])] = False
            for row, key in beats.nonzero().tolist():
                results.append(self._against_last(layer, key, sentence, row + allowed.start, float(m[row, key])))
        missing = [result for result in results if result.state == DIFFERS]
        if missing:
            more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
            return Result(DIFFERS, missing[0].says + more)
        return Result(NEAR_TIE if any(result.state == NEAR_TIE for result in results) else MATCH)

    def _against_last(self, layer: int, key: int, sentence: int, position: int, found: float) -> Result:
        """Compare an unlisted prefix with its key's last trigger, both recomputed; the earlier place wins a tie."""
        missing = Result(
            DIFFERS,
            f"its prefix of {position} tokens should be a trigger of layer {layer} key {key} (coefficient {found:.7g})",
        )
        rows = self.inputs.triggers(layer, key)
        text = text_key(self.inputs.corpus.sentence(sentence)[:position])
        same = [rows.row(i, named=True) for i in self.inputs.listed(layer, key).get(text, ())]
        if same and self.options.duplicates == "drop":
            return Result() if (same[0]["sentence"], same[0]["position"]) < (sentence, position) else missing
        bar, ends = 0.0, [(sentence, position)]
        if len(rows) == self.options.top:
            last = rows.row(-1, named=True)
            if same and same[-1] == last:
                return Result() if (last["sentence"], last["position"]) < (sentence, position) else missing
            ends.append((last["sentence"], last["position"]))
            tokens = self.inputs.corpus.sentence(last["sentence"])
            bar = float(self.inputs.layer(tokens, layer).coefficients()[last["position"], key])
        if found < bar * (1 - self.limits.tie):
            return Result()
        layers = ((self.inputs.measuring.layer(self.inputs.corpus.sentence(i), layer), row) for i, row in ends)
        off = (here.off(self.limits.noise, row) for here, row in layers)
        return Result(NEAR_TIE) if found - bar <= self.limits.tie * bar or found - bar <= sum(off) else missing


def _index(column: pl.Series) -> torch.Tensor:
    return torch.from_numpy(column.to_numpy().astype(np.int64))


def contradictions(inputs: AuditInputs, run: Run, at: At = Path) -> list[str]:
    """Return what contradicts other tables, the text, the config or the counts, each as ``table: what``."""
    faults = list(structure.as_written({name: at(run.table(name)) for name in ROWS}, inputs.config.precision))
    faults += structure.faults(inputs)
    for step in structure.COUNTS:
        again = structure.counts_again(inputs, step)
        if again is None or not pl.read_parquet(at(run.path("counts", f"{step}.parquet"))).equals(again):
            faults.append(f"counts/{step}: not what the tables say")
    return faults


def audit_run(run: Run, aim: Aim, at: At = Path, cores: int = 1) -> tuple[list[Finding], list[str], str]:
    """Audit a run's own model and those that it is compared with, in several processes.

    ``at``: from a file of the run to the place to read it from; it must be picklable. Return the findings,
    contradictions between tables, and whose forward pass the reference model is.
    """
    corpus, positions = store.read(at(run.path("corpus", "corpus.safetensors"))), run.resolved["triggers"]["positions"]
    frames = {name: read_table(at(run.table(name))) for name in ROWS}
    works, sizes = draw(OWN, frames, corpus, positions, aim, (*ROWS, LEFT_OUT))
    works = works if any(map(_surveys, works)) else [Work(OWN), *works]
    findings = {(OWN, what): Finding(what, size) for what, size in sizes.items()}
    names = run.config.baselines.names
    for model in names:
        frames = {name: read_table(at(baselines.file(run, model, name))) for name in baselines.OWN}
        some, sizes = draw(model, frames, corpus, positions, aim.of_each(len(names)), baselines.ROWS)
        # a model is drawn once, so with a limit of time a quarter of its rows are looked at, whatever it takes
        works.append(Work(model, tuple(row for work in some if work.round < ROUNDS // 4 for row in work.rows)))
        sizes |= {name: len(frames[name]) for name in baselines.LABELS}
        findings |= {(model, what): Finding(what, size, model) for what, size in sizes.items()}
    works.sort(key=lambda work: (work.round, len(work.rows) <= AT_ONCE))  # the longest pieces first
    faults: list[str] = []
    with Progress(sum(work.steps for work in works), "rows", "audit") as progress:
        do = partial(_in_process, json.dumps(run.config.model_dump(), sort_keys=True), run.file, at)
        for work, results in _each(works, do, _workers(run, cores), aim.seconds):
            for what, where, result in results:
                if what == STRUCTURE:
                    faults.append(f"{where}: {result.says}")
                else:
                    findings[work.model, what].add(where if work.model == OWN else f"{work.model}, {where}", result)
            progress.step(work.steps)
    return list(findings.values()), faults, library(run)


def _surveys(work: Work) -> bool:
    """Return whether a piece of work needs the engine's survey, which the check of all rows needs too."""
    return any(name == "causal" for name, _ in work.rows)


@cache
def _own(settings: str, file: str, at: At) -> tuple[Run, AuditInputs]:
    run = Run(json.loads(settings), file)
    return run, AuditInputs.read(run, ROWS, at)


def _in_process(settings: str, file: str, at: At, work: Work) -> list[Said]:
    """Do a piece of work, in a process that keeps what it has read; ``settings``: the config as JSON."""
    try:
        if work.model != OWN:
            return list(baselines.recompute(Run(json.loads(settings), file), work.model, work.rows, at, look))
        run, inputs = _own(settings, file, at)
        results = list(look(inputs, work.rows))
        if not work.rows or (_surveys(work) and not work.round):
            parts = (one.partition(": ") for one in contradictions(inputs, run, at))
            results += [(STRUCTURE, where, Result(DIFFERS, what)) for where, _, what in parts]
        return results
    except BROKEN as error:
        return [(STRUCTURE, "tables" if work.model == OWN else work.model, _broken(error))]


def _each(
    works: list[Work], do: Callable[[Work], list[Said]], workers: int, seconds: float | None = None
) -> Iterator[tuple[Work, list[Said]]]:
    """Do the pieces of work, in their order, side by side; after some ``seconds``, begin no further round."""
    until = time.monotonic() + (seconds or float("inf"))
    if workers == 1:
        yield from ((work, do(work)) for work in works if not work.round or time.monotonic() < until)
        return
    try:
        with ProcessPoolExecutor(workers, get_context("spawn"), _begin) as pool:
            todo = {pool.submit(do, work): work for work in works}
            try:
                for done in as_completed(todo):
                    if not done.cancelled():
                        yield todo[done], done.result()
                    if time.monotonic() > until:
                        for waiting in (future for future, work in todo.items() if work.round):
                            waiting.cancel()
            except BaseException:  # someone stops the command: the pool itself would wait for the rest of the work
                for process in active_children():
                    process.kill()
                raise
    except BrokenProcessPool:
        raise UserError(
            "the system ended a process of the audit, as it does when memory runs out; with --cores 1 it needs less"
        ) from None


def _begin() -> None:
    """Prepare a process: one thread of arithmetic; it ends when the command that started it ends."""
    torch.set_num_threads(1)
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
    return max(1, min(cores, psutil.virtual_memory().available // (40 * parameters)))

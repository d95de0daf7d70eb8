"""Check that tables, figures and pages which follow from others are what each run's own tables give.

The same rules make them again in a temporary folder, on links to that run's files. Counts of the steps that run the
model follow from its tables (``structure``), and labels of the baselines from triggers that the engine finds again.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ff_memories import tables
from ff_memories.audit.compare import at_hand
from ff_memories.audit.compare.equality import Letter, Outcome
from ff_memories.audit.compare.settle import SIDES, Settler
from ff_memories.audit.compare.sides import Side
from ff_memories.audit.recompute import baselines, structure
from ff_memories.audit.recompute.closeness import DIFFERS, NEAR_TIE
from ff_memories.workflow import dvc_lock_file, rebuild
from ff_memories.workflow.runs.run import Run

MakeAgain = Callable[[Path, set[str], Mapping[str, Path], Run, int], rebuild.Again]


def check(
    outcomes: dict[str, Outcome],
    both: dict[Letter, Side],
    settler: Settler,
    again: MakeAgain = rebuild.again,
    drawn: Sequence[str] = (),
) -> list[str]:
    """Make the tables that differ again, from either run's tables; what cannot be made again is a difference.

    Args:
        outcomes: {name: outcome} of all tables.
        again: what makes files again.
        drawn: other files that follow from tables and that differ.

    Returns:
        The differences of these other files.
    """
    todo = {name: outcome for name, outcome in outcomes.items() if outcome.follows and not outcome.different}
    if settler.run is None:
        for outcome in todo.values():
            outcome.different.append(f"{outcome.name.removeprefix('tables/')}: {settler.not_told}")
        return [f"{path}: {settler.not_told}" for path in drawn]
    counts = {name for name in todo if name.startswith("counts/") and name.partition("/")[2] in structure.COUNTS}
    labels = {name for name in todo if name.startswith("baselines/")}
    for name in counts:
        _counts(todo[name], settler)
    for model in sorted({name.split("/")[1] for name in labels}):
        _labels({name: todo[name] for name in labels if name.split("/")[1] == model}, model, settler)
    others = {name: todo[name] for name in sorted(todo.keys() - counts - labels)}
    found: list[str] = []
    for side in SIDES if others or drawn else ():
        found += _by_rules(others, drawn, side, both[side], settler.known_run, again)
    return found


def _counts(outcome: Outcome, settler: Settler) -> None:
    step = outcome.name.partition("/")[2]
    for side in SIDES:
        again = structure.counts_again(settler.basis[side], step)
        if again is None or not settler.tables[side][outcome.name].equals(again):
            outcome.different.append(f"{outcome.name}: not what the run's tables say ({side.upper()})")


def _labels(todo: dict[str, Outcome], model: str, settler: Settler) -> None:
    for side in SIDES:
        folder = f"baselines/{model}"
        frames = {name: settler.tables[side][f"{folder}/{name}"] for name in (*baselines.LABELS, "refinement")}
        for table, where, result in baselines.labels(settler.known_run, model, frames):
            if (outcome := todo.get(f"{folder}/{table}")) is None:
                continue
            outcome.tied += result.state == NEAR_TIE
            if result.state == DIFFERS:
                outcome.different.append(f"{folder}/{table}, {where}: {result.says} ({side.upper()})")


def _by_rules(
    todo: dict[str, Outcome], drawn: Sequence[str], letter: Letter, side: Side, run: Run, again: MakeAgain
) -> Iterator[str]:
    """Compare tables and other files with those that the rules make again from a run's tables."""
    wanted = {f"{run.results}/{name}.parquet": name for name in todo}
    other = {f"{run.results}/{path}": path for path in drawn}
    files = {path: Path(path) for path in at_hand.made(run)}
    files |= {f"{run.results}/{path}": file for path, file in side.files.items()}
    with tempfile.TemporaryDirectory(prefix="ff-memories-compare-") as folder:
        made = again(Path(folder), wanted.keys() | other.keys(), files, run, os.cpu_count() or 1)
        for path, name in (wanted | other).items():
            file, said = Path(folder, path), ""
            if path in made.lacking:
                said = f"it cannot be made again, because {made.lacking[path]} is missing"
            elif not file.exists():
                said = f"could not be made again{made.why.get(path, '')} ({letter.upper()})"
            elif path in other:
                same = dvc_lock_file.content(file) == side.digests[name]
                said = "" if same else f"is not what its own run's tables give ({letter.upper()})"
            elif not tables.read(file, todo[name].table).equals(tables.read(files[path], todo[name].table)):
                said = f"is not what its own run's tables give ({letter.upper()})"
            if said and path in other:
                yield f"{name}: {said}"
            elif said:
                todo[name].different.append(f"{name.removeprefix('tables/')}: {said}")

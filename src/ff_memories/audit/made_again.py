"""Check that tables which follow from others are what each run's own tables give.

The same rules make them again in a temporary folder, on links to that run's files. Counts of the steps that run the
model follow from its tables (``structure``), and labels of the baselines from triggers that the engine finds again.
"""

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ff_memories import tables
from ff_memories.audit import baselines, structure
from ff_memories.audit.closeness import DIFFERS
from ff_memories.audit.equality import Outcome
from ff_memories.audit.equality import Side as Letter
from ff_memories.audit.settle import NOT_TOLD, SIDES, Settler
from ff_memories.audit.sides import Side
from ff_memories.tables import TABLES
from ff_memories.workflow import rebuild
from ff_memories.workflow.config_of import option_of

Again = Callable[[Path, set[str], Mapping[str, Path], Path | None, int], rebuild.Again]


def check(
    outcomes: dict[str, Outcome], both: dict[Letter, Side], settler: Settler, config: Path | None,
    again: Again = rebuild.again,
) -> None:  # fmt: skip
    """Make the tables that differ again, from either run's tables; what cannot be made again is a difference.

    Args:
        outcomes: {name: outcome} of all tables.
        config: the runs' config; ``None`` if their model and text are not here.
        again: what makes files again.
    """
    todo = {name: outcome for name, outcome in outcomes.items() if outcome.follows and not outcome.different}
    if config is None or settler.run is None:
        for outcome in todo.values():
            outcome.different.append(f"{outcome.name.removeprefix('tables/')}: {NOT_TOLD}")
        return
    counts = {name for name in todo if name.startswith("counts/") and name.partition("/")[2] in structure.COUNTS}
    labels = {name for name in todo if name.startswith("baselines/")}
    for name in counts:
        _counts(todo[name], settler)
    for model in sorted({name.split("/")[1] for name in labels}):
        _labels({name: todo[name] for name in labels if name.split("/")[1] == model}, model, settler)
    if others := todo.keys() - counts - labels:
        for side in SIDES:
            _by_rules({name: todo[name] for name in others}, side, both[side], config, again)


def _counts(outcome: Outcome, settler: Settler) -> None:
    step = outcome.name.partition("/")[2]
    for side in SIDES:
        again = tables.counts(step, structure.counted(settler.evidence[side], step) or {})
        if not settler.tables[side][outcome.name].equals(tables.conform(again, TABLES["counts"])):
            outcome.different.append(f"{outcome.name}: not what the run's tables say ({side.upper()})")


def _labels(todo: dict[str, Outcome], model: str, settler: Settler) -> None:
    for side in SIDES:
        folder = f"baselines/{model}"
        frames = {name: settler.tables[side][f"{folder}/{name}"] for name in (*baselines.LABELS, "refinement")}
        for table, where, result in baselines.labels(settler.known_run, model, frames):
            if result.state == DIFFERS and (outcome := todo.get(f"{folder}/{table}")):
                outcome.different.append(f"{folder}/{table}, {where}: {result.says} ({side.upper()})")


def _by_rules(todo: dict[str, Outcome], letter: Letter, side: Side, config: Path, again: Again) -> None:
    results = f"results/{side.run}"
    wanted = {f"{results}/{name}.parquet": name for name in todo}
    files = {f"{results}/{path}": file for path, file in side.files.items()}
    with tempfile.TemporaryDirectory(prefix="ff-memories-compare-") as folder:
        made = again(Path(folder), set(wanted), files, option_of(config), os.cpu_count() or 1)
        for path, name in wanted.items():
            outcome, file = todo[name], Path(folder, path)
            if path in made.lacking:
                outcome.different.append(f"{name}: it cannot be made again, because {made.lacking[path]} is missing")
            elif not file.exists():
                outcome.different.append(f"{name}: could not be made again{made.why.get(path, '')} ({letter.upper()})")
            elif not tables.read(file, outcome.table).equals(tables.read(files[path], outcome.table)):
                said = "is not what its own run's tables give"
                outcome.different.append(f"{name.removeprefix('tables/')}: {said} ({letter.upper()})")

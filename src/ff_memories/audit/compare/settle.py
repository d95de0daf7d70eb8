"""Settle what two runs' tables leave open, by recomputing it from the model and the text.

A row that differs counts as equal only if the reference model confirms it in the run that has it. An entry of a list
of triggers must also be a near-tie, by recomputed coefficients, with the entry that the other run has at its place, and
a run may lack it only if it does not beat that run's last one. All rows of both runs are then compared with what
follows from the other tables (``structure``).
"""

from dataclasses import replace
from functools import cached_property
from pathlib import Path

import polars as pl
import torch

from ff_memories.audit.compare.equality import Letter, NamedTables, Outcome
from ff_memories.audit.recompute import baselines, rows, structure
from ff_memories.audit.recompute.basis import Basis, TableRow
from ff_memories.audit.recompute.closeness import DIFFERS, Comparer
from ff_memories.audit.recompute.spread import Spread
from ff_memories.audit.recompute.tolerances import Tolerances
from ff_memories.base.progress import Progress
from ff_memories.workflow.runs.run import Run

NOT_TOLD = "different, or a near-tie: the model is needed to tell; compare where the run's model and text are"
SIDES: tuple[Letter, Letter] = ("a", "b")
KEY = ["layer", "key"]


class Settler:
    """Recomputes rows of two runs of one model and text.

    Args:
        run: the run whose model and text these are; ``None`` if they are not here.
        tables: {name: table} of both.
        limits: the tolerances.
        not_told: what to say of a row that cannot be recomputed.
    """

    def __init__(
        self, run: Run | None, tables: dict[Letter, NamedTables], limits: Tolerances, not_told: str = NOT_TOLD
    ):
        self.run, self.tables, self.limits, self.not_told = run, tables, limits, not_told
        self._scores: dict[tuple[int, int, int, int], tuple[float, float]] = {}

    @cached_property
    def basis(self) -> dict[Letter, Basis]:
        """Both runs' own tables with the model."""
        return self._both(self._first(), "tables")

    def _first(self) -> Basis:
        return Basis.read(self.known_run, (), Path)

    @property
    def known_run(self) -> Run:
        """The run. Raises ``ValueError`` if its model and text are not here."""
        if self.run is None:
            raise ValueError("nothing to recompute from")
        return self.run

    def _both(self, first: Basis, folder: str, **more: pl.DataFrame) -> dict[Letter, Basis]:
        out = {}
        for side in SIDES:
            names = [name for name in self.tables[side] if name.rpartition("/")[0] == folder]
            own = {name.rpartition("/")[2]: self.tables[side][name] for name in names}
            out[side] = replace(first, tables=own | more)
            out[side].near = Comparer(self.limits)
        return out

    def settle(self, outcomes: dict[str, Outcome]) -> None:
        """Recompute the open rows; those that the model does not confirm are differences."""
        todo = [outcome for outcome in outcomes.values() if outcome.opened]
        with Progress(sum(len(o.open[side]) for o in todo for side in SIDES), "rows", "compare") as progress:
            folders = sorted({outcome.name.rpartition("/")[0] for outcome in todo})
            for folder in folders:
                own = [outcome for outcome in todo if outcome.name.rpartition("/")[0] == folder]
                if self.run is None or not (folder == "tables" or folder.startswith("baselines/")):
                    for outcome in own:
                        outcome.differs(outcome.open["b"] or outcome.open["a"], self.not_told)
                    continue
                basis = self.basis if folder == "tables" else self._baseline(folder.partition("/")[2], folder)
                for outcome in own:
                    self._one(outcome, basis, progress)
                for side in SIDES:
                    for said in structure.faults(basis[side]):
                        name = said.partition(":")[0]
                        where = outcomes.get(f"{folder}/{name}", own[0])
                        whose = "" if folder == "tables" else f"{folder}/"
                        where.different.append(f"{whose}{said} ({side.upper()})")
        for outcome in todo:
            outcome.close()

    def _baseline(self, model: str, folder: str) -> dict[Letter, Basis]:
        basis = self._of_baseline(model)
        return self._both(basis, folder, triggers=basis.tables["triggers"])

    def _of_baseline(self, model: str) -> Basis:
        """Return a baseline's model; if a run changed memories, with what says which ones and where."""
        each = (self.tables[side].get(f"baselines/{model}/causal") for side in SIDES)
        changed = next((frame for frame in each if frame is not None and len(frame)), None)
        return baselines.basis(self.known_run, model, {} if changed is None else {"causal": changed}, Path)

    def _one(self, outcome: Outcome, basis: dict[Letter, Basis], progress: Progress) -> None:
        """Recompute the open rows of one table."""
        name = outcome.table
        if name in ("histogram", "samples"):
            self._of_sample(outcome, basis, progress)
            return
        for side in SIDES:
            for row in outcome.open[side]:
                if name not in rows.ROWS:
                    outcome.differs([row], self.not_told)
                    continue
                result = rows.recomputed(name, basis[side], row)
                if result.state == DIFFERS:
                    outcome.differs([row], f"{result.says} ({side.upper()})")
                elif name == "triggers":
                    self._exchanged(outcome, basis, side, row)
                progress.step(1)

    def _of_sample(self, outcome: Outcome, basis: dict[Letter, Basis], progress: Progress) -> None:
        for side in SIDES:
            opened = outcome.open[side]
            both = [row for rows_ in outcome.open.values() for row in rows_] if outcome.table == "samples" else []
            keys = sorted({(row["layer"], row["key"]) for row in both})
            spread = Spread(basis[side], keys)
            if outcome.table == "histogram":
                for row, result in spread.histogram(basis[side].tables["histogram"]):
                    if result.state == DIFFERS:
                        outcome.differs([row], f"{result.says} ({side.upper()})")
                progress.step(len(opened))
                continue
            for layer, key in keys:
                if said := spread.lacking(layer, key, basis[side].tables["samples"]):
                    outcome.differs([{"layer": layer, "key": key}], f"{said} ({side.upper()})")
            for row in opened:
                for result in (rows.recomputed("samples", basis[side], row), spread.percentile(row)):
                    if result.state == DIFFERS:
                        outcome.differs([row], f"{result.says} ({side.upper()})")
                progress.step(1)

    def _exchanged(self, outcome: Outcome, basis: dict[Letter, Basis], side: Letter, row: TableRow) -> None:
        """Check that a trigger is a near-tie with the other run's at its place, and if it is missing there, why."""
        other = basis[SIDES[1 - SIDES.index(side)]]
        score, noise = self._score(basis[side], row)
        listed = other.lists.get((row["layer"], row["key"]), other.tables["triggers"].clear())
        here = listed.filter(pl.col("rank") == row["rank"])
        its = self._score(other, here.row(0, named=True))[0] if len(here) else 0.0
        gap = abs(score - its)
        if gap > self.limits.tie * max(score, its) + noise:
            outcome.differs([row], "another row has this rank, and it is not a near-tie")
            return
        outcome.gap = max(outcome.gap, gap / max(score, its, 1e-30))
        same = listed.filter((pl.col("sentence") == row["sentence"]) & (pl.col("position") == row["position"]))
        if len(same):
            return
        options, bar = other.config.triggers, 0.0
        sibling = listed.filter(pl.col("sentence") == row["sentence"])
        if options.per_sentence == "best" and len(sibling):  # a list has one prefix of a sentence
            bar = self._score(other, sibling.row(0, named=True))[0]
        elif len(listed) == options.top:
            bar = self._score(other, listed.row(-1, named=True))[0]
        text = basis[side].prefix(row).tobytes()
        repeated = options.duplicates == "drop" and any(
            other.prefix(entry).tobytes() == text for entry in listed.iter_rows(named=True)
        )
        if score > bar * (1 + self.limits.tie) + noise or repeated:
            outcome.differs([row], "the other run lacks this trigger, and it is not a near-tie with its last")

    def _score(self, basis: Basis, row: TableRow) -> tuple[float, float]:
        """Return a trigger's recomputed coefficient, and how far rounding may have moved it."""
        at = (row["layer"], row["key"], row["sentence"], row["position"])
        if at not in self._scores:
            with torch.inference_mode():
                seen = basis.layer(basis.prefix(row), row["layer"])
            self._scores[at] = float(seen.coefficients()[-1, row["key"]]), seen.noise(self.limits.noise)
        return self._scores[at]

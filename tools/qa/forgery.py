"""Turn a run's verdicts by editing as few rows as possible: how often does `verify` find it?

    python -m tools.qa.forgery --seed 1

For each claim that a recorded run judges, a forger edits the fewest rows of the tables behind it that turn its verdict;
what follows within the table is made to fit. Prints a table in Markdown. The run must be here, from `make pull` or
Snakemake.
"""

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import hypergeom

from ff_memories import tables
from ff_memories.audit import compare, recompute, verify
from ff_memories.audit.audit_inputs import AuditInputs
from ff_memories.audit.near_equal import DIFFERS
from ff_memories.audit.sampling import Aim
from ff_memories.base.progress import Progress
from ff_memories.config import Settings
from ff_memories.judge.evidence import Evidence
from ff_memories.judge.register import Claim, register
from ff_memories.judge.verdicts import verdicts
from ff_memories.model.info import read_info
from ff_memories.workflow.run import DEFAULT, Run
from tools.qa import table

RECORDED = {"fairseq": DEFAULT, "ungated": Path("config/demo-gpt2.yaml"), "gated": Path("config/demo-llama.yaml")}

SHARES = (0.002, 0.01, 0.03, 0.1, 0.3, 1.0)  # of a table's rows that a forger edits
ENOUGH = 25  # changed rows that the audit's check is tried on
TIMES = 20  # audits of each forged verdict, with other seeds
FEWER = Aim(0.95, 0.05)  # 59 rows: so few that a sample of a small table can miss


def _mutations(frame: pl.DataFrame, at: pl.Expr, new: pl.Expr) -> pl.DataFrame:
    frame = frame.with_columns(mutated=pl.when(at).then(new).otherwise("mutated").cast(pl.Float32))
    change = pl.col("mutated").cast(pl.Float64) / pl.col("coefficient").cast(pl.Float64) - 1
    return frame.with_columns(change=change.cast(pl.Float32))


def _values(frame: pl.DataFrame, at: pl.Expr, new: pl.Expr) -> pl.DataFrame:
    frame = frame.with_columns(top_token=pl.when(at).then(new).otherwise("top_token").cast(pl.UInt32))
    agrees = pl.col("next_token") == pl.col("top_token")
    rank = pl.when(at & agrees).then(0).otherwise("next_token_rank").cast(pl.UInt32)
    return frame.with_columns(agrees=agrees, next_token_rank=rank)


def _column(name: str) -> Callable[[pl.DataFrame, pl.Expr, pl.Expr], pl.DataFrame]:
    return lambda frame, at, new: frame.with_columns(
        pl.when(at).then(new).otherwise(name).cast(frame.schema[name]).alias(name)
    )


_last, _first = pl.col("mutation") == "last", pl.col("mutation") == "first"
EDITS: dict[str, list[tuple[str, Callable[[pl.DataFrame, pl.Expr, pl.Expr], pl.DataFrame], pl.Expr, Any]]] = {
    "mutations": [
        ("the last token's removal changes nothing", _mutations, _last, pl.col("coefficient")),
        ("the last token's removal silences the key", _mutations, _last, pl.lit(0)),
        ("the first token's removal changes nothing", _mutations, _first, pl.col("coefficient")),
        ("the first token's removal silences the key", _mutations, _first, pl.lit(0)),
    ],
    "values": [
        ("values agree with the trigger", _values, pl.lit(True), pl.col("next_token").fill_null(pl.col("top_token"))),
        ("values do not agree", _values, pl.lit(True), (pl.col("next_token").fill_null(0) + 1)),
        ("the target's rank is low", _column("next_token_rank"), pl.col("next_token").is_not_null(), pl.lit(0)),
        ("the target's rank is high", _column("next_token_rank"), pl.col("next_token").is_not_null(), pl.lit(40)),
    ],
    "composition": [
        ("no memory agrees", _column("agreeing_memories"), pl.lit(True), pl.lit(0)),
        ("a memory agrees", _column("agreeing_memories"), pl.lit(True), pl.lit(1)),
    ],
    "refinement": [
        ("the residual predicts the output", _column("residual_top"), pl.lit(True), pl.col("model_top")),
        ("the residual predicts something else", _column("residual_top"), pl.lit(True), pl.col("model_top") + 1),
        ("the residual is sure", _column("residual_probability"), pl.lit(True), pl.lit(0.99)),
        ("the residual is unsure", _column("residual_probability"), pl.lit(True), pl.lit(0.001)),
    ],
    "causal": [
        ("a removed memory's effect stays", _column("total"), pl.col("control") == "none", pl.col("direct")),
        ("a removed memory's effect is turned round", _column("total"), pl.col("control") == "none", -pl.col("direct")),
        ("a matched memory's effect stays", _column("total"), pl.col("control") == "matched", pl.col("direct")),
        ("a matched memory's effect is turned round", _column("total"), pl.col("control") == "matched",
         -pl.col("direct")),
    ],
}  # fmt: skip


class Forger:
    """A run in the working folder, its verdicts from its tables, and the audit of its rows."""

    def __init__(self, kind: str, seed: int):
        self.kind, self.run, self.rng = kind, Run.read(RECORDED[kind]), np.random.default_rng(seed)
        files = compare.opened(Path(self.run.results))
        recorded = files.tables()
        self.tables = {
            name.removeprefix("tables/"): tables.read(file)
            for name, file in recorded.items()
            if name.startswith("tables/")
        }
        self.info = read_info(self.run.path("model", "info.json"))
        settings, dictionary = Settings(self.run.resolved), Path(self.run.dictionary)
        self.evidence = Evidence.of_run(settings, self.info, dictionary, self.tables)
        self.basis = AuditInputs.read(self.run, recompute.ROWS)
        self.behind = verify.behind(self.run, Path)

    def claims(self) -> list[Claim]:
        return [claim for claim in register() if claim.limit]

    def verdict(self, claim: Claim, edited: dict[str, pl.DataFrame]) -> str:
        """Return the verdict on a claim with some tables edited."""
        evidence = dataclasses.replace(self.evidence, tables=self.tables | edited)
        return str(verdicts([claim], evidence, self.info["scope"])["verdict"][0])

    def forge(self, claim: Claim) -> list[object] | None:
        """Return a line on the edit with the fewest rows that turns the verdict; ``None`` if no edit does."""
        before, fewest = self.verdict(claim, {}), None
        for name in sorted(self.behind[claim.id] & EDITS.keys()):
            for edit in EDITS[name]:
                forged = self._turned(claim, before, name, edit)
                if forged and (fewest is None or len(forged[2]) < len(fewest[2])):
                    fewest = (*forged, name, edit[0])
        if fewest is None:
            return None
        after, frame, changed, name, effect = fewest
        return [self.kind, claim.id, f"{before} → {after}", name, effect, f"{len(changed):,} of {len(frame):,}",
                *self._audited(name, frame, changed)]  # fmt: skip

    def _turned(self, claim: Claim, before: str, name: str, edit: tuple) -> tuple[str, pl.DataFrame, list[int]] | None:
        """Return the other verdict, the edited table and its changed rows, by the smallest share that turns it."""
        _, apply, where, new = edit
        recorded = self.tables[name]
        order = self.rng.permutation(len(recorded))
        for share in SHARES:
            chosen = np.zeros(len(order), bool)
            chosen[order[: max(1, round(share * len(order)))]] = True
            frame = apply(recorded, pl.Series(chosen) & where, new)
            pairs = frame.hstack(recorded.rename({c: f"{c}_recorded" for c in frame.columns}))
            differ = pl.any_horizontal(pl.col(c).ne_missing(pl.col(f"{c}_recorded")) for c in frame.columns)
            changed = pairs.select(differ).to_series().arg_true().to_list()
            if changed and (after := self.verdict(claim, {name: frame})) != before:
                return after, frame, changed
        return None

    def _audited(self, name: str, frame: pl.DataFrame, changed: list[int]) -> tuple[str, str]:
        """Audit a forged table ``TIMES`` times with few rows; return how often it is found, and the probability."""
        forged = dataclasses.replace(self.basis, tables=self.basis.tables | {name: frame})
        if recompute.faults(forged):
            return "all rows are checked", "1.000"
        looked = changed[:: max(1, len(changed) // ENOUGH)]
        states = [recompute.recomputed(name, forged, frame.row(i, named=True)).state for i in looked]
        wrong = changed[: round(len(changed) * states.count(DIFFERS) / len(states))]
        draws = (Aim(FEWER.confidence, FEWER.share, seed).draw(name, len(frame)) for seed in range(TIMES))
        hits = sum(bool(np.isin(wrong, drawn).any()) for drawn in draws)
        few, full = (chance(len(frame), len(wrong), aim.rows) for aim in (FEWER, Aim()))
        return f"{hits} of {TIMES} ({few:.2f})", f"{full:.3f}"


def chance(population: int, wrong: int, drawn: int) -> float:
    """Return the probability that a sample of a table has at least one of its wrong rows."""
    return float(1 - hypergeom.pmf(0, population, wrong, min(drawn, population))) if wrong else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", nargs="+", choices=RECORDED, default=list(RECORDED))
    arguments = parser.parse_args()
    lines, unturned = [], []
    for kind in arguments.runs:
        forger = Forger(kind, arguments.seed)
        claims = forger.claims()
        with Progress(len(claims), "claims", kind) as progress:
            for claim in claims:
                if line := forger.forge(claim):
                    lines.append(line)
                else:
                    unturned.append(f"{claim.id} ({kind})")
                progress.step(1)
    few = f"found in {TIMES} audits of {FEWER.rows} rows (expected)"
    print(
        table(["run", "claim", "turned", "table", "effect", "wrong rows", few, f"chance with {Aim().rows} rows"], lines)
    )
    print(f"No edit that we tried turns {', '.join(unturned)}.")


if __name__ == "__main__":
    main()

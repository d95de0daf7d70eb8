"""Turn a run's verdicts by editing as few rows as possible: how often `verify` finds it (docs/forgeries.md).

    python -m qa.forgery verdicts --seed 1
    python -m qa.forgery page

For each claim that a recorded run judges, and for each of its two answers, a forger edits the fewest rows that turn it,
and all else follows. The run must be here, from `make pull` or Snakemake.
"""

import argparse
import dataclasses
import itertools
import json
from collections.abc import Callable, Mapping
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import hypergeom

from ff_memories import tables
from ff_memories.audit import run_files, verify
from ff_memories.audit.recompute import baselines, rows, structure
from ff_memories.audit.recompute.basis import Basis
from ff_memories.audit.recompute.closeness import DIFFERS
from ff_memories.audit.recompute.sampling import Aim
from ff_memories.base.progress import Progress
from ff_memories.claims.judging import baselines as measured
from ff_memories.claims.judging.training import compared, decide
from ff_memories.claims.judging.verdicts import verdicts
from ff_memories.claims.register import MODELS, Claim, register
from ff_memories.claims.wording import beyond
from ff_memories.config.running import SAME_SAMPLE, UNTRAINED
from ff_memories.workflow.runs.run import DEFAULT, Run
from qa import ROOT, table

OUT = ROOT / "docs" / "data" / "forgery.json"
RECORDED = {"fairseq": DEFAULT, "ungated": Path("config/demo-gpt2.yaml"), "gated": Path("config/demo-llama.yaml")}
NAMES = ("demo", "demo-gpt2", "demo-llama")  # of these runs


class Project:
    """A run in the working folder, and the models that its rows are recomputed with."""

    def __init__(self, run: Run):
        self.run = run
        with run_files.opened(Path(run.results), None) as own:
            self.own = own

    @cached_property
    def basis(self) -> Basis:
        return Basis.read(self.run, (*rows.ROWS, "firing", "histogram"))

    @cache  # noqa: B019
    def baseline(self, model: str) -> Basis:
        names = (*baselines.ROWS, *baselines.LABELS)
        frames = {name: tables.read(baselines.file(self.run, model, name)) for name in names}
        known = baselines.Baseline.of(self.run, model).basis(frames)
        return dataclasses.replace(known, tables=known.tables | frames)

    def baselines(self) -> list[str]:
        """Return the names of the run's baselines with a model."""
        return baselines.models(self.run)


def chance(population: int, wrong: int, rows_: int = Aim().rows) -> float:
    """Return the probability that a sample of a table has at least one of its wrong rows."""
    return float(1 - hypergeom.pmf(0, population, wrong, min(rows_, population))) if wrong else 0.0


def _with(known: Basis, table: str, changed: pl.DataFrame) -> Basis:
    return dataclasses.replace(known, tables=known.tables | {table: changed})


def _rows(basis: Basis, table: str, numbers: list[int]) -> list[str]:
    """Return what `verify` says of rows that it looks at."""
    frame = basis.tables[table]
    return [rows.recomputed(table, basis, frame.row(i, named=True)).state for i in numbers]


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
    "removals": [
        ("predictions survive", _column("layer_top_changed"), pl.col("by") == "margin", pl.lit(False)),
        ("predictions do not survive", _column("layer_top_changed"), pl.col("by") == "margin", pl.lit(True)),
    ],
}  # fmt: skip


class Answers:
    """A run's two answers on a claim, from its tables, with the other claims' as they are."""

    def __init__(self, project: "Project"):
        from ff_memories.claims.evidence import Evidence as Measured
        from ff_memories.config import Settings
        from ff_memories.model.info import read_info

        run = project.run
        self.info = read_info(run.path("model", "info.json"))
        names = (*baselines.ROWS, *baselines.LABELS)
        self.of_run = {name.removeprefix("tables/"): tables.read(file) for name, file in project.own.tables().items()
                       if name.startswith("tables/")}  # fmt: skip
        self.of_models = {model: {name: tables.read(baselines.file(run, model, name)) for name in names}
                          for model in baselines.models(run)}  # fmt: skip
        self.evidence = Measured.of_run(Settings(run.resolved), self.info, Path(run.dictionary), self.of_run)
        self.recorded = self.of_run["claims"].rows_by_key("claim", named=True, unique=True)
        self.kinds = {"the run": [""], "the run's sample": [SAME_SAMPLE],
                      "untrained": [m for m in self.of_models if m.startswith(UNTRAINED)]}  # fmt: skip
        self.beside: dict[tuple[str, str], dict] = {}

    def of(self, model: str) -> dict[str, pl.DataFrame]:
        """Return the tables of the run, or of one of its baselines."""
        return self.of_models[model] if model else self.of_run

    def verdict(self, claim: Claim, edited: Mapping[str, dict[str, pl.DataFrame]]) -> str:
        """Return the verdict on a claim if some models' tables are others."""
        own, beside = dataclasses.replace(self.evidence, tables=edited.get("", self.of_run)), None
        if claim.less_untrained:
            beside = pl.DataFrame([self._baseline(claim, kind, edited) for kind in self._known()])
        return str(verdicts([claim], own, self.evidence.scope, beside)["verdict"][0])

    def training(self, claim: Claim, edited: Mapping[str, dict[str, pl.DataFrame]]) -> str:
        """Return whether a claim's number is due to training if some models' tables are others."""
        found = {(claim.id, kind): self._baseline(claim, kind, edited) for kind in self._known()}
        row = dict(self.recorded[claim.id]) | compared(claim, found)
        family = [name for name in self.recorded if name != claim.id and beyond(name) is claim.beyond]
        decide([row, *(dict(self.recorded[name]) for name in family)])
        return str(row["training"])

    def _known(self) -> list[str]:
        return [kind for kind in MODELS if any(model.startswith(kind) for model in self.of_models)]

    def _baseline(self, claim: Claim, kind: str, edited: Mapping[str, dict[str, pl.DataFrame]]) -> dict:
        models = [model for model in self.of_models if model.startswith(kind)]
        if (claim.id, kind) in self.beside and not edited.keys() & set(models):
            return self.beside[claim.id, kind]
        made = measured.table([claim], self.evidence, [(kind, edited.get(m, self.of_models[m])) for m in models])
        row = made.filter(baseline=kind).row(0, named=True)
        if not edited.keys() & set(models):
            self.beside[claim.id, kind] = row
        return row


# columns of `claims` that a forger turns, and the models whose tables each rests on
ASKED = {"verdict": ("the run",), "training": ("the run's sample", "untrained")}


def forge_verdicts(kind: str, run: Run, seed: int) -> list[dict]:
    """Turn a run's answers on claims by editing the fewest rows; return how, and how often an audit finds it."""
    project, rng, found = Project(run), np.random.default_rng(seed), []
    answers = Answers(project)
    behind = verify.behind(run, Path)
    claims = [claim for claim in register() if claim.judged(answers.info["scope"])]
    with Progress(len(claims) * len(ASKED), "answers", kind) as progress:
        for claim, (asked, of) in itertools.product(claims, ASKED.items()):
            best = None
            if claim.less_untrained:
                of = ASKED["training"]
            for table, whose in itertools.product(sorted(behind[claim.id] & EDITS.keys()), of):
                if any(table not in answers.of(model) for model in answers.kinds[whose]):
                    continue  # it is not measured on baselines
                for edit in EDITS[table]:
                    best = _least(answers, claim, asked, whose, table, edit, best, rng)
            tried = {"to": None} if best is None else _tried(project, best)
            before = getattr(answers, asked)(claim, {"": answers.of_run})
            found.append({"run": kind, "claim": claim.id, "asked": asked, "from": before} | tried)
            progress.step(1)
    return found


def _least(
    answers: Answers, claim: Claim, asked: str, whose: str, table: str, edit: tuple, best: dict | None,
    rng: np.random.Generator,
) -> dict | None:  # fmt: skip
    """Return the edit with the fewest rows that turns an answer: this one, or the best so far."""
    what, apply, where, new = edit
    says, models = partial(getattr(answers, asked), claim), answers.kinds[whose]
    before = says({"": answers.of_run})
    orders = {model: rng.permutation(len(answers.of(model)[table])) for model in models}
    for share in SHARES:
        edited, changed = {}, {}
        for model, order in orders.items():
            known = answers.of(model)
            chosen = np.zeros(len(order), bool)
            chosen[order[: max(1, round(share * len(order)))]] = True
            frame = apply(known[table], pl.Series(chosen) & where, new)
            differ = pl.any_horizontal(pl.col(c).ne_missing(pl.col(f"{c}_o")) for c in frame.columns)
            beside = frame.hstack(known[table].rename({c: f"{c}_o" for c in frame.columns}))
            changed[model] = beside.select(differ).to_series().arg_true().to_list()
            edited[model] = known | {table: frame}
        wrong = sum(map(len, changed.values()))
        if best is not None and wrong >= best["wrong"]:
            return best
        if wrong and (after := says(edited)) != before:
            return {"to": after, "whose": whose, "table": table, "what": what, "wrong": wrong, "changed": changed,
                    "frames": {model: made[table] for model, made in edited.items()}}  # fmt: skip
    return best


def _tried(project: Project, best: dict) -> dict:
    """Audit a forged answer ``TIMES`` times with few rows; return the edit, how often it was found, and the chance.

    `verify` draws from the rows of all baselines' tables together.
    """
    table, whole = best["table"], 0
    for_sure, places = False, []
    for model in [""] if "" in best["frames"] else project.baselines():
        known = project.basis if not model else project.baseline(model)
        if model in best["frames"]:
            forged = _with(known, table, best["frames"][model])
            for_sure |= bool(structure.faults(forged))
            changed = best["changed"][model]
            looked = changed[:: max(1, len(changed) // ENOUGH)]
            states = _rows(forged, table, looked)
            right = states.count(DIFFERS) / max(1, len(states))
            places += [i + whole for i in changed[: round(right * len(changed))]]
        whole += len(known.tables[table])
    draws = (Aim(FEWER.confidence, FEWER.share, seed).draw(table, whole) for seed in range(TIMES))
    hits = TIMES if for_sure else sum(bool(np.isin(places, drawn).any()) for drawn in draws)
    kept = ("to", "whose", "table", "what", "wrong")
    return {
        **{name: best[name] for name in kept}, "population": whole, "for_sure": for_sure, "found": hits,
        "times": TIMES, "rows": min(FEWER.rows, whole),
        "chance_few": 1.0 if for_sure else chance(whole, len(places), FEWER.rows),
        "chance": 1.0 if for_sure else chance(whole, len(places)),
    }  # fmt: skip


HEAD = """\
# Forgeries

How few rows must a forger of a run's results edit to turn a verdict, and does [`verify`](verify.md) find it? This page
is made from what the commands said:

    python -m qa.forgery verdicts --seed {seed}
    python -m qa.forgery page

Two answers of a run rest on its tables: a claim's `verdict`, and `training`, whether its number is due to training. For
each claim that the run judges, and each answer, the forger tried up to {edits} edits of the tables behind it, on
{shares} shares of their rows: in the run's tables, in those of its sample of the text, or in those of all untrained
models. We kept the edit that turns the answer with the fewest wrong rows; what follows within the table was made to
fit, and the other claims stayed as they are. The runs are {runs}, as large as `make demo RUN=…` makes them.

"Found" counts {times} audits of {few} rows a table, with other seeds, beside the probability expected for that many;
the last column is the probability with the {rows} rows that `verify` draws. How many of the wrong rows the audit can
tell was tried on {enough} of them.

"""


def page() -> str:
    """Return docs/forgeries.md."""
    held = json.loads(OUT.read_text(encoding="utf-8"))
    runs = ", ".join(f"`{name}`" for name in NAMES)
    out = [
        HEAD.format(seed=held["seed"], edits=sum(map(len, EDITS.values())), shares=len(SHARES), times=TIMES,
                    few=FEWER.rows, rows=Aim().rows, enough=ENOUGH, runs=runs)
    ]  # fmt: skip
    rows_ = [
        [row["run"], row["claim"], row["asked"], f"{row['from']} → {row['to']}", f"{row['whose']}: {row['table']}",
         row["what"],
         f"{row['wrong']:,} of {row['population']:,}",
         "all rows are checked" if row["for_sure"] else f"{row['found']} of {row['times']} ({row['chance_few']:.2f})",
         f"{row['chance']:.3f}"]
        for row in held["verdicts"] if row["to"]
    ]  # fmt: skip
    out.append(
        table(
            ["run", "claim", "column", "turned", "edited", "with the effect", "wrong rows", "found", "probability"],
            rows_,
        )
    )
    stays = [f"{row['claim']} `{row['asked']}` ({row['run']})" for row in held["verdicts"] if not row["to"]]
    if stays:
        out.append(f"\nNo edit that we tried turns {', '.join(stays)}.\n")
    every = {row["claim"] for row in held["verdicts"]}
    untried = [f"{', '.join(sorted(left))} ({kind})" for kind in RECORDED
               if (left := every - {row["claim"] for row in held["verdicts"] if row["run"] == kind})]  # fmt: skip
    if untried:
        out.append(f"\nNot tried again since the package has them: {'; '.join(untried)}.\n")
    return "".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("verdicts", "page"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", nargs="+", choices=RECORDED, default=list(RECORDED))
    arguments = parser.parse_args()
    if arguments.what == "page":
        (ROOT / "docs" / "forgeries.md").write_text(page(), encoding="utf-8")
        return
    held = json.loads(OUT.read_text(encoding="utf-8"))
    for kind in arguments.runs:
        found = forge_verdicts(kind, Run.read(RECORDED[kind]), arguments.seed)
        held["verdicts"] = [row for row in held["verdicts"] if row["run"] != kind] + found
        held["seed"] = arguments.seed
        OUT.write_text(json.dumps(held, indent=None, separators=(",", ":")).replace("},{", "},\n{") + "\n")


if __name__ == "__main__":
    main()

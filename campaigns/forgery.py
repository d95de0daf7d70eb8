"""Change cells of recorded tables, and turn verdicts: what `compare` and `verify` say of each.

    python -m campaigns.forgery cells --seed 1
    python -m campaigns.forgery files --seed 1
    python -m campaigns.forgery verdicts --seed 1

Three small runs, of a fairseq checkpoint, an ungated and a gated model of `transformers`, are made by Snakemake. Cells:
in each column of each table, one cell is changed by more than its tolerance and one by its last bit, all cells are
shuffled, and all get another plausible value; rows are left out, added and swapped. Files: verdicts and figures that
tables do not give, alone and beside a cell within its tolerance, another precision, numbers that are not finite.
Verdicts: for each claim that a recorded run judges, and for each of its two answers, a forger edits the fewest rows
that turn it, and all else follows; the run must be here, from `make pull` or Snakemake.
docs/forgeries.md is made from what it finds.
"""

import argparse
import dataclasses
import itertools
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import transformers_run
import yaml
from factories import words
from pipeline import config, write_inputs
from scipy.stats import hypergeom

from campaigns import ROOT
from ff_memories import tables
from ff_memories.audit import compare, run_files, verify
from ff_memories.audit.recompute import audit, baselines, reading, rows, structure
from ff_memories.audit.recompute.basis import Basis
from ff_memories.audit.recompute.closeness import DIFFERS, NEAR_TIE
from ff_memories.audit.recompute.sampling import Aim
from ff_memories.base.errors import UserError
from ff_memories.base.progress import Progress
from ff_memories.claims.judging import baselines as measured
from ff_memories.claims.judging.training import compared, decide
from ff_memories.claims.judging.verdicts import verdicts
from ff_memories.claims.order import beyond
from ff_memories.claims.register import MODELS, Claim, register
from ff_memories.config.running import SAME_SAMPLE, UNTRAINED
from ff_memories.tables import TABLES
from ff_memories.tables.schema import COUNT, EXACT
from ff_memories.workflow import dvc_lock_file, rebuild
from ff_memories.workflow.runs.run import DEFAULT, Run

OUT = ROOT / "docs" / "data" / "faults" / "forgery.json"
RECORDED = {"fairseq": DEFAULT, "ungated": Path("config/demo-gpt2.yaml"), "gated": Path("config/demo-llama.yaml")}
NAMES = ("demo", "demo-gpt2", "demo-llama")  # of these runs
KINDS = {"fairseq": None, "ungated": "gpt2", "gated": "llama"}
CELLS = ("one cell", "the last bit", "all cells shuffled", "another value in all rows")
ROWS = ("a row left out", "a row added", "two rows swapped")
NEAR = "a near-tie"
LOOKED_AT = 5  # changed rows of a table that the audit's check is tried on


# ------------------------------------------------------------------------------------------------------ the small runs


def make(kind: str, folder: Path) -> Path:
    """Make a small run in a folder with the project's Snakefile; return the folder."""
    from projects import publish

    inputs = folder / "inputs"
    inputs.mkdir(parents=True)
    if KINDS[kind] is None:
        write_inputs(inputs, words(60), decoder_embed_dim=64, decoder_ffn_embed_dim=96, train=300)
        (inputs / "my.yaml").write_text(yaml.safe_dump(config(), sort_keys=False))
        return publish(inputs, _empty(folder / "project"), "small")
    transformers_run.prepare(inputs, KINDS[kind], train=300)
    return publish(inputs, _empty(folder / "project"), "small", transformers_run.INPUTS)


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


class Project:
    """A small run, as the working folder, and forged copies of it that share its files."""

    def __init__(self, folder: Path, run: Run | None = None):
        os.chdir(folder)
        self.run = run or Run.read(DEFAULT)
        with run_files.opened(Path(self.run.results), None) as own:
            self.own = own
        self.rebuilt = {path for task in rebuild.tasks(self.run)[0] for path in task.makes}
        self.scratch = Path(tempfile.mkdtemp(prefix="forgery-"))
        self._again: dict[Any, tuple[Path, rebuild.Again]] = {}

    def again(self, folder: Path, wanted: set[str], files: Mapping[str, Path], run: Run, cores: int) -> rebuild.Again:
        """Make files again, once from the same inputs, which most forged copies have."""
        inputs = {path: file for path, file in files.items() if path not in wanted}
        known = {f"{self.run.results}/{path}": file for path, file in self.own.files.items()}
        other = {
            path: dvc_lock_file.digest(file) for path, file in inputs.items() if known.get(path, Path(path)) != file
        }
        key = frozenset(wanted), frozenset(other.items())
        if key not in self._again:
            kept = Path(tempfile.mkdtemp(dir=self.scratch))
            self._again[key] = kept, rebuild.again(kept, wanted, files, run, cores)
        kept, found = self._again[key]
        for path in wanted:
            if (kept / path).exists():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).symlink_to(kept / path)
        return found

    def forged(self, files: Mapping[str, Path]) -> run_files.RunFiles:
        """Return the run with other files, or folders, by their paths below the run's folder."""
        digests = {path: dvc_lock_file.content(file) for path, file in files.items()}
        whole = {path: file for path, file in files.items() if file.is_file()}
        return run_files.RunFiles(Path("forged"), self.own.run, self.own.files | whole, self.own.digests | digests)

    def says(self, forged: run_files.RunFiles) -> compare.Comparison:
        """Compare the run with a forged copy."""
        return compare.compared(self.own, forged, self.run, self.model, self.again)

    @cache  # noqa: B019
    def model(self, name: str) -> Basis:
        """Return one of the run's models, from one comparison to the next."""
        return compare.model_here(self.run, name)

    @cached_property
    def basis(self) -> Basis:
        return Basis.read(self.run, (*rows.ROWS, "firing", "histogram"))

    @cache  # noqa: B019
    def drawn(self, model: str) -> baselines.Baseline:
        return baselines.Baseline.of(self.run, model)

    @cache  # noqa: B019
    def baseline(self, model: str) -> Basis:
        names = (*baselines.ROWS, *baselines.LABELS)
        frames = {name: tables.read(baselines.file(self.run, model, name)) for name in names}
        known = self.drawn(model).basis(frames)
        return dataclasses.replace(known, tables=known.tables | frames)

    def baselines(self) -> list[str]:
        """Return the names of the run's baselines with a model."""
        return baselines.models(self.run)

    @cached_property
    def behind(self) -> set[str]:
        """The tables that verdicts rest on."""
        return set().union(*verify.behind(self.run, Path).values())

    def audited(self, name: str, file: Path, changed: pl.DataFrame, wrong: list[int]) -> tuple[str, float]:
        """Return how `verify` finds a forged table whose maker rehashed it, and with what probability.

        ``a near-tie``: the model itself does not tell the cells from the recorded ones, within the tolerance.
        """
        path = f"{self.run.results}/{name}.parquet"
        if path in self.rebuilt:
            return "rebuilt", 1.0
        folder, _, table = name.rpartition("/")
        at = lambda asked: file if asked == path else Path(asked)
        if (model := run_files.model_of(folder)) not in (None, "own"):
            forged = _with(self.baseline(model), table, changed)
            if baselines.contradictions(forged, self.run, model, at):
                return "all rows", 1.0
            if table in baselines.LABELS:
                said = {result.state for _, _, result in baselines.labelled(self.drawn(model), forged.tables)}
                return ("all rows", 1.0) if DIFFERS in said else (NEAR if NEAR_TIE in said else "not found", 0.0)
        elif folder == "counts":
            said = audit.contradictions(self.basis, self.run, at)
            return ("all rows", 1.0) if said else ("the tables say so", 0.0)
        elif folder == "tables":
            forged = _with(self.basis, table, changed)
            if audit.contradictions(forged, self.run, at):
                return "all rows", 1.0
        if table not in rows.ROWS:  # histograms, how often keys fire, and sensitivity/
            return "not checked: no verdict rests on it", 0.0
        tried = wrong[:: max(1, len(wrong) // LOOKED_AT)][:LOOKED_AT]
        states = _rows(forged, table, tried)
        if states and all(state == NEAR_TIE for state in states) and len(states) == len(wrong):
            return NEAR, 0.0
        share = states.count(DIFFERS) / max(1, len(states))
        found = chance(len(changed), round(share * len(wrong)))
        return ("a sample", found) if found else ("no row that was tried differs", 0.0)


def chance(population: int, wrong: int, rows_: int = Aim().rows) -> float:
    """Return the probability that a sample of a table has at least one of its wrong rows."""
    return float(1 - hypergeom.pmf(0, population, wrong, min(rows_, population))) if wrong else 0.0


def _with(known: Basis, table: str, changed: pl.DataFrame) -> Basis:
    return dataclasses.replace(known, tables=known.tables | {table: changed})


def _rows(basis: Basis, table: str, numbers: list[int]) -> list[str]:
    """Return what `verify` says of rows that it looks at."""
    frame = basis.tables[table]
    return [rows.recomputed(table, basis, frame.row(i, named=True)).state for i in numbers]


# --------------------------------------------------------------------------------------------------------- the changes


def cells(frame: pl.DataFrame, column: str, how: str, rng: np.random.Generator) -> pl.DataFrame | None:
    """Return a table with one of its columns changed; ``None`` if that changes nothing."""
    known = frame[column]
    at = int(rng.choice(np.flatnonzero(known.is_not_null().to_numpy()))) if known.null_count() < len(known) else None
    if at is None:
        return None
    values = known.to_list()
    if how == "all cells shuffled":
        values = [values[i] for i in rng.permutation(len(values))]
    elif how == "another value in all rows":
        values = [None if value is None else _other(value, known, rng) for value in values]
    elif how == "one cell":
        values[at] = _other(values[at], known, rng)
    else:
        values[at] = _next(values[at], known)
    made = frame.with_columns(pl.Series(column, values, known.dtype, strict=False))
    return None if made.equals(frame) else made


def _other(value: Any, column: pl.Series, rng: np.random.Generator) -> Any:
    """Return another value that the column might well have."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value * 1.25 + (0.05 if abs(value) < 0.2 else 0.0)
    others = [v for v in column.drop_nulls().unique(maintain_order=True).to_list() if v != value]
    if others:
        return others[int(rng.integers(len(others)))]
    return value + 1 if isinstance(value, int) else f"{value}x" if column.dtype == pl.String else value


def _next(value: Any, column: pl.Series) -> Any:
    """Return the value next to one: a float's next, a number's neighbour, or the next word of a list."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        number = np.float32(value) if column.dtype == pl.Float32 else np.float64(value)
        return float(np.nextafter(number, type(number)(np.inf)))
    if isinstance(value, int):
        return value + 1 if value < 200 else value - 1
    if isinstance(column.dtype, pl.Enum):
        words_ = column.dtype.categories.to_list()
        return words_[(words_.index(value) + 1) % len(words_)]
    return f"{value}x" if isinstance(value, str) else value


def whole_rows(frame: pl.DataFrame, key: list[str], how: str, rng: np.random.Generator) -> pl.DataFrame | None:
    """Return a table with a row less, a row more, or two rows in each other's place."""
    if len(frame) < 3:
        return None
    at = int(rng.integers(len(frame) - 1))
    if how == "a row left out":
        return pl.concat([frame[:at], frame[at + 1 :]])
    if how == "two rows swapped":
        order = list(range(len(frame)))
        order[at], order[at + 1] = at + 1, at
        return frame[order]
    for name in reversed(key):  # a row that might well be there: another place of the key
        if not frame.schema[name].is_integer():
            continue
        new = frame[at].with_columns((pl.col(name).max() + 0).alias(name))
        for value in range(int(frame[name].cast(pl.Int64).to_numpy().max()) + 2):
            new = new.with_columns(pl.lit(value).cast(frame.schema[name]).alias(name))
            if len(new.join(frame, on=key, how="anti")):
                return pl.concat([frame, new]).sort(key, maintain_order=True)
    return None


def written(frame: pl.DataFrame, file: Path, like: Path, more: Mapping[str, str] | None = None) -> None:
    """Write a table as its step does, but in the order that it has, and without a check; ``more``: metadata."""
    meta = {k: v for k, v in pl.read_parquet_metadata(like).items() if not k.startswith("ARROW")} | dict(more or {})
    file.parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(file, compression="zstd", metadata=meta or None)


def trials(project: Project, rng: np.random.Generator) -> Iterator[tuple[str, str, str, pl.DataFrame, list[int]]]:
    """Yield (table, column, how, the changed table as it is written, which of its rows are wrong)."""
    for name, file in project.own.tables().items():
        if name.startswith("models/") and name.split("/")[1] != "untrained-1":
            continue  # all four models have the same tables
        frame, table = pl.read_parquet(file), run_files.table_of(f"{name}.parquet") or ""
        key = [c for n in TABLES[table].key for c in ((n, "sign") if n == "key" and "sign" in frame.columns else (n,))]
        for column in frame.columns:
            for how in CELLS:
                changed = cells(frame, column, how, rng) if frame.schema[column] != pl.List(pl.UInt16) else None
                if changed is not None:
                    differ = changed[column].ne_missing(frame[column])
                    if column in key:  # steps write tables in order
                        order = changed.with_row_index("row").sort(key, maintain_order=True)["row"]
                        changed, differ = changed[order], differ.gather(order)
                    yield name, column, how, changed, differ.arg_true().to_list()
        for how in ROWS:
            if (changed := whole_rows(frame, key, how, rng)) is not None:
                yield name, "", how, changed, [0]


def _wrong(forged: pl.DataFrame, own: pl.DataFrame) -> list[int]:
    """Return the numbers of the rows that the original table lacks."""
    rows_ = forged.with_row_index("forged row").join(own, on=own.columns, how="anti", nulls_equal=True)
    return rows_["forged row"].to_list()


def _lacking(forged: pl.DataFrame, own: pl.DataFrame) -> list[int]:
    """Return the numbers of the rows whose key has lost a row."""
    if not {"layer", "key"} <= set(own.columns):
        return []
    lost = own.join(forged, on=own.columns, how="anti", nulls_equal=True)
    return forged.with_row_index("forged row").join(lost, on=["layer", "key"], how="semi")["forged row"].to_list()


def tolerated(table: str, column: str, how: str) -> bool:
    """Return whether a change is below the column's tolerance, so that `compare` may call it equal."""
    dtype = (TABLES[table].columns | TABLES[table].optional).get(column)
    rule = TABLES[table].rules.get(column, EXACT)
    small = dtype is not None and (dtype.is_float() or rule == COUNT)
    return how == "the last bit" and small and rule != EXACT


def forge_cells(kind: str, made: Path, seed: int, only: Callable[[int], bool] = lambda _: True) -> list[dict]:
    """Try every change on a small run; ``only``: which of them, by number. Return what was said of each."""
    project, rng, found = Project(made), np.random.default_rng(seed), []
    todo = [trial for number, trial in enumerate(trials(project, rng)) if only(number)]
    with Progress(len(todo), "changes", kind) as progress:
        for name, column, how, changed, wrong in todo:
            file = project.scratch / "forged" / f"{name}.parquet"
            written(changed, file, project.own.tables()[name])
            table = run_files.table_of(f"{name}.parquet") or ""
            try:
                said = project.says(project.forged({f"{name}.parquet": file})).answer
            except (UserError, pl.exceptions.PolarsError) as error:
                said = f"refused: {str(error).splitlines()[0]}"
            try:
                read = reading.read(file, table)
                if read.equals(tables.read(project.own.tables()[name], table)):
                    continue  # a shuffle that gave back every row
                wrong = (
                    _wrong(read, tables.read(project.own.tables()[name], table))
                    or wrong
                    or _lacking(read, tables.read(project.own.tables()[name], table))
                )
                means, chance_ = project.audited(name, file, read, wrong)
            except UserError:
                means, chance_ = "refused", 1.0
            found.append({
                "run": kind, "table": name, "column": column, "how": how, "compare": said.partition(":")[0],
                "verify": means, "chance": round(chance_, 4), "wrong": len(wrong),
                "tolerated": tolerated(table, column, how) or means == NEAR,
                "rests": table in project.behind,
            })  # fmt: skip
            progress.step(1)
    shutil.rmtree(project.scratch)
    return found


# ----------------------------------------------------------------------------------------------------------- the files

LAST_BIT = "tables/triggers.parquet"  # a coefficient in it is changed by its last bit


def forge_files(kind: str, made: Path, seed: int) -> list[dict]:
    """Forge whole files of a small run; return what was said of each."""
    project, found = Project(made), []
    todo = list(file_trials(project, np.random.default_rng(seed)))
    with Progress(len(todo), "files", kind) as progress:
        for path, what, files in todo:
            try:
                said = project.says(project.forged(files)).answer
            except UserError:
                said = "refused"
            found.append({"run": kind, "file": path, "what": what, "compare": said,
                          "verify": _of_file(project, path, files[path])})  # fmt: skip
            progress.step(1)
    shutil.rmtree(project.scratch)
    return found


def _of_file(project: Project, path: str, file: Path) -> str:
    """Return how `verify` finds a forged file whose maker rehashed it."""
    if f"{project.run.results}/{path}" in project.rebuilt:
        return "rebuilt"
    try:
        name = path.removesuffix(".parquet")
        return project.audited(name, file, reading.read(file, run_files.table_of(path)), [0])[0]
    except UserError:
        return "refused"


def file_trials(project: Project, rng: np.random.Generator) -> Iterator[tuple[str, str, dict[str, Path]]]:
    """Yield (the forged file, what was done to it, all forged files by their paths below the run's folder)."""
    scratch, results = project.scratch / "files", Path(project.run.results)
    held = project.own.files[LAST_BIT]
    cell = scratch / "triggers.parquet"
    changed = cells(pl.read_parquet(held), "coefficient", "the last bit", rng)
    if changed is None:
        raise ValueError("the run has no triggers")
    written(changed, cell, held)
    figure = next(path for path in project.own.files if path.startswith("figures/") and path.endswith(".csv"))
    for path in ("claims.json", "claims", "report/claims.tex", figure):
        to = scratch / path
        to.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (results / path).is_dir() else shutil.copy)(results / path, to)
        _turn(sorted(to.glob("*.json"))[0] if to.is_dir() else to)
        yield path, "another verdict or number", {path: to}
        yield path, "the same, beside a coefficient that differs in its last bit", {path: to, LAST_BIT: cell}
    frame = pl.read_parquet(held)
    for number in (math.inf, -math.inf, math.nan):
        odd = frame.with_columns(pl.when(pl.int_range(pl.len()) == 0).then(number).otherwise("coefficient")
                                 .cast(pl.Float32).alias("coefficient"))  # fmt: skip
        written(odd, file := scratch / f"{number}.parquet", held)
        yield LAST_BIT, f"one coefficient is {number}", {LAST_BIT: file}
    every = {}
    for name in (name for name, schema in TABLES.items() if schema.measured):
        if (path := f"tables/{name}.parquet") in project.own.files:
            file = every[path] = scratch / "rounded" / f"{name}.parquet"
            like = project.own.files[path]
            written(pl.read_parquet(like), file, like, {tables.PRECISION: "bfloat16"})
    yield LAST_BIT, "all tables state bfloat16, so tolerances are wide", every


def _turn(file: Path) -> None:
    """Change the first verdict, or else the first number, of a text file."""
    text = file.read_text(encoding="utf-8")
    turned = re.sub(r"holds|too_small|smaller than stated|undecided|fails|does not hold", "measured", text, count=1)
    file.write_text(turned if turned != text else re.sub(r"\d(?=\D*$)", lambda m: str((int(m[0]) + 1) % 10), text))


# -------------------------------------------------------------------------------------------------------- the verdicts

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
    project, rng, found = Project(Path.cwd(), run), np.random.default_rng(seed), []
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
    shutil.rmtree(project.scratch)
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


# ------------------------------------------------------------------------------------------------------------ the page

HEAD = """\
# Forgeries

Can [`compare`](equality.md) or [`verify`](verify.md) be fooled? We changed columns of the recorded tables of small
runs, and turned verdicts by editing as few rows as we could. This page is made from what the commands said. The
commands below name the runs; with `--every 3`, every third of the changes described here was tried.

{cells}
    python -m campaigns.forgery files --seed {seed}
    python -m campaigns.forgery verdicts --seed {seed}
    python -m campaigns.forgery page
"""
ABOUT_CELLS = """
## Changed cells

In each column, one cell got a plausible other value; one cell changed by its last bit (a whole number or a choice, by
one); all cells were shuffled; or all got another plausible value. In each table, a row was left out or added, or two
neighbours changed places. Every forged file was compared with the original, and audited as if its maker had rehashed it
and rebuilt what follows.

The last bit of a number, and one count of `fired`, are below the tolerance that [equality](equality.md) states, so
`compare` may call them equal; so is a rank or a count that hangs on two numbers which are equal to that tolerance.
"By sample" is the probability that `verify` finds the forgery, for the rows that were wrong; other forgeries are always
found.
"""
ABOUT_FILES = """
## Files

Verdicts and figures that the tables don't give, alone and beside a table that differs within its tolerance; numbers
that aren't finite; metadata that ask for wide tolerances. The columns of the runs have the answer of `compare`, the
last one how `verify` finds the file if its maker rehashed it.

"""
ABOUT_VERDICTS = """
## Turned verdicts

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
    from campaigns.page import table

    held = json.loads(OUT.read_text(encoding="utf-8"))
    each = [f"    python -m campaigns.forgery cells --runs {kind} --every {n} --seed {held['seed']}"
            for kind, n in held["every"].items()]  # fmt: skip
    out = [HEAD.format(seed=held["seed"], cells="\n".join(each)), ABOUT_CELLS]
    cells_ = held["cells"]
    wrong = [row for row in cells_ if row["compare"] in ("equal", "identical") and not row["tolerated"]]
    fine = sum(row["tolerated"] for row in cells_)
    columns = len({(row["table"], row["column"]) for row in cells_ if row["column"]})
    out.append(
        f"\n{len(cells_):,} changes of {columns} columns; {fine:,} of them below a tolerance. Wrong cells that "
        f"`compare` called equal: **{len(wrong)}**.\n\n"
    )
    rows_ = []
    for kind in held["every"]:
        for how in (*CELLS, *ROWS):
            own = [row for row in cells_ if row["run"] == kind and row["how"] == how]
            said = [sum(row["compare"] == answer for row in own) for answer in ("different", "refused", "equal")]
            judged = [row for row in own if not row["tolerated"]]
            sure = sum(row["chance"] == 1 for row in judged)
            sample = [row["chance"] for row in judged if 0 < row["chance"] < 1]
            never = [row for row in judged if not row["chance"]]
            rows_.append([
                kind, how, *said, sure, f"{len(sample)} ({min(sample):.2f} and more)" if sample else 0, len(never)
            ])  # fmt: skip
    heads = [
        "run",
        "change",
        "`compare`: different",
        "refused",
        "equal",
        "`verify`: always found",
        "by sample",
        "not found",
    ]
    out.append(table(heads, rows_))
    near = sum(row["verify"] == NEAR for row in cells_)
    hang = "hangs" if near == 1 else "hang"
    out.append(f"\nOf those below a tolerance, {near} {hang} on a near-tie that the model shows.\n")
    never = [row for row in cells_ if not row["chance"] and not row["tolerated"]]
    for rests_, says in ((False, "no verdict rests"), (True, "verdicts rest")):
        listed = sorted({(run_files.table_of(f"{row['table']}.parquet"), row["column"] or "rows", row["verify"])
                         for row in never if row["rests"] == rests_})  # fmt: skip
        if listed:
            out.append(f"\n`verify` does not find changes of these cells, on which {says}:\n\n")
            out.append(table(["table", "column", "why"], [list(map(str, row)) for row in listed]))
    if wrong:
        out.append("\n`compare` calls these wrong cells equal:\n\n")
        out.append(
            table(["run", "table", "column", "change"], [[w["run"], w["table"], w["column"], w["how"]] for w in wrong])
        )
    files = held.get("files", [])
    if files:
        out.append(ABOUT_FILES)
        out.append(table(["file", "change", *held["every"], "`verify`"], _of_files(files, list(held["every"]))))
    out.append(ABOUT_VERDICTS.format(edits=sum(map(len, EDITS.values())), shares=len(SHARES), times=TIMES,
                                     few=FEWER.rows, rows=Aim().rows, enough=ENOUGH,
                                     runs=", ".join(f"`{name}`" for name in NAMES)) + "\n")  # fmt: skip
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


def _of_files(rows_: list[dict], kinds: list[str]) -> list[list[str]]:
    """Return a row for each forged file: what `compare` says of it in each run, and what `verify` says."""
    found = []
    plain = lambda row: (re.sub(r"figure\d+", "figure", row["file"]), row["what"])
    for file, what in dict.fromkeys(map(plain, rows_)):
        own = {row["run"]: row for row in rows_ if plain(row) == (file, what)}
        said = [own[kind]["compare"] if kind in own else "" for kind in kinds]
        found.append([f"`{file}`", what, *said, ", ".join(dict.fromkeys(row["verify"] for row in own.values()))])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cells", "files", "verdicts", "page"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--of", type=Path, help="a project with such a run, instead of a new one")
    parser.add_argument("--every", type=int, default=1, help="try only every n-th change of a cell")
    parser.add_argument("--runs", nargs="+", choices=KINDS, default=list(KINDS))
    arguments = parser.parse_args()
    out = OUT.resolve()
    if arguments.what == "page":
        (ROOT / "docs" / "forgeries.md").write_text(page(), encoding="utf-8")
        return
    for kind in arguments.runs:
        with tempfile.TemporaryDirectory(prefix="forgery-") as folder:
            if arguments.what == "cells":
                made = arguments.of or make(kind, Path(folder))
                found = forge_cells(kind, made, arguments.seed, lambda n: n % arguments.every == 0)
            elif arguments.what == "files":
                found = forge_files(kind, arguments.of or make(kind, Path(folder)), arguments.seed)
            else:
                found = forge_verdicts(kind, Run.read(RECORDED[kind]), arguments.seed)
        held = json.loads(out.read_text(encoding="utf-8")) if out.is_file() else {"cells": [], "verdicts": []}
        held[arguments.what] = [row for row in held.get(arguments.what, []) if row["run"] != kind] + found
        held["seed"] = arguments.seed
        if arguments.what == "cells":
            held.setdefault("every", {})[kind] = arguments.every
        out.write_text(json.dumps(held, indent=None, separators=(",", ":")).replace("},{", "},\n{") + "\n")


if __name__ == "__main__":
    main()

"""Compare two runs of one config, file by file and claim by claim: identical, equal, or different.

Tables are compared cell by cell: exactly, or within the tolerance of the column's class (``tables``). A row with a cell
beyond that is recomputed in both runs, by what `verify` recomputes rows with. docs/verify.md has all rules.
"""

import itertools
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import polars as pl

from ff_memories.audit import baselines, recompute
from ff_memories.audit.audit import judged
from ff_memories.audit.audit_inputs import AuditInputs, largest, read_table
from ff_memories.audit.near_equal import DIFFERS, FEW, INTERVAL, Comparer, Tolerances, tolerances
from ff_memories.audit.recompute import ROWS, place
from ff_memories.base import foreign
from ff_memories.base.arithmetic import ROUNDOFF, Precision
from ff_memories.base.errors import UserError
from ff_memories.base.progress import Progress
from ff_memories.base.text import counted
from ff_memories.paper.keys.tables import relative_change
from ff_memories.schema import Rule
from ff_memories.tables import TABLES, precision_of
from ff_memories.workflow import dvc_lock_file
from ff_memories.workflow.dvc_yaml import is_kept, is_shared
from ff_memories.workflow.opening import run_of
from ff_memories.workflow.run import Run

SHOWN = 5  # differences shown per table
FEW_COUNTED = 2  # by which counts may differ, beside the share ``Tolerances.count``
TRIGGER = list(TABLES["triggers"].key)
ON_TRIGGERS = tuple(name for name, s in TABLES.items() if s.measured and list(s.key[:3]) == TRIGGER != list(s.key))
NOT_TOLD = "different, or a near-tie: the model is needed to tell; compare where the run's model and text are"
GIVE = "give a folder such as results/demo, or a dvc.lock"
Letter = Literal["a", "b"]
SIDES: tuple[Letter, Letter] = ("a", "b")
NamedTables = Mapping[str, pl.DataFrame]
OWN = re.compile(r"^(?:\.\./)*results/([^/]+)/(.+)$")
CACHES = (Path(".dvc/cache/files/md5"), Path(".dvc/artefacts/files/md5"))
FOLDERS = ("claims",)  # outputs that are whole folders; DVC has one digest for each
WITHIN = re.compile(r"(claims|counts|figures|golden|models?|proxy|report|sensitivity|tables)/|[^/]+$")
NUMBERS = re.compile(r"models/[^/]+/perplexity\.json$|golden/\w+\.json$")
TABLE = re.compile(r"(?:models/[^/]+/)?(tables|proxy|counts|sensitivity)/(?:.+/)?(\w+)\.parquet$")


@dataclass
class RunFiles:
    """One of two runs; paths are below its folder."""

    given: Path  # what the user named
    run: str  # the run's name
    files: dict[str, Path] = field(default_factory=dict)  # by path; a dvc.lock has only those that DVC keeps
    digests: dict[str, str] = field(default_factory=dict)  # by path; a folder that is one output has one

    def tables(self) -> dict[str, Path]:
        """Return {name: file} of the tables, such as ``models/untrained-1/tables/values``."""
        return {path.removesuffix(".parquet"): self.files[path] for path in sorted(self.files) if table_of(path)}


@dataclass
class Outcome:
    """The comparison of one table."""

    name: str  # the table's file below the run's folder, without suffix: ``tables/triggers``
    rows: tuple[int, int]  # number of rows in each run
    cells: dict[str, int] = field(default_factory=dict)  # {column: number of cells that differ in any bit}
    within: dict[str, int] = field(default_factory=dict)  # {column: of these, those within the tolerance of its class}
    # {run: numbers of its rows that only a recomputation can settle}
    open: dict[Letter, list[int]] = field(default_factory=lambda: {"a": [], "b": []})
    near_ties: int = 0  # rows, of the run with more of them, that differ beyond a tolerance
    follows: bool = False  # whether the tables differ, and follow from others that may differ
    different: list[str] = field(default_factory=list)  # the differences in words

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]

    @property
    def table(self) -> str:
        return table_of(f"{self.name}.parquet") or ""

    @property
    def shown(self) -> str:
        return self.name.removeprefix("tables/")

    def differs(self, rows: pl.DataFrame, says: str) -> None:
        """Add a line for each row; ``says`` may name its cells, in braces."""
        for row in rows.iter_rows(named=True):
            self.different.append(f"{self.shown}, {place(self.table, row)}: {says.format(**row)}")


@dataclass
class Comparison:
    """The comparison of two runs, A and B."""

    identical: bool  # whether all files have the same bytes
    tables: dict[str, Outcome]  # by names such as ``triggers`` and ``models/untrained-1/tables/values``
    others: list[str] = field(default_factory=list)  # differences of no tables, and of files that only one run has
    drawn: int = 0  # number of figures and lists of verdicts that differ, as tables do
    precisions: tuple[Precision, Precision] = ("float32", "float32")  # of A and B

    @property
    def different(self) -> list[str]:
        """The differences in words."""
        return [line for outcome in self.tables.values() for line in outcome.different] + self.others

    @property
    def answer(self) -> str:
        """``identical``, ``equal`` or ``different``."""
        return "identical" if self.identical else "different" if self.different else "equal"

    @property
    def summary(self) -> str:
        """A one-line summary: numbers, and the rows that near-ties explain."""
        parts = []
        if (triggers := self.tables.get("triggers")) and triggers.cells:
            off = triggers.cells.get("coefficient", 0)
            parts.append(f"{off:,} of {triggers.rows[0]:,} coefficients differ in their last bits")
        if near := sum(outcome.near_ties for outcome in self.tables.values()):
            parts.append(counted(near, "row has a near-tie", "rows have near-ties"))
        return "; ".join(parts)


def compare(first: Path, second: Path, given: Run | None = None) -> Comparison:
    """Compare two runs. Each is a run's folder, or a ``dvc.lock`` with its tables in DVC's cache.

    Rows that only a recomputation can settle are recomputed if the model and the text are here; otherwise they count as
    different. ``given``: what both are runs of; default: what each one's name says.
    """
    a, b = opened(first), opened(second)
    for one, other in ((a, b), (b, a)):  # an archive of `share` lacks what follows from tables byte for byte
        one.digests = {p: md5 for p, md5 in one.digests.items() if p in other.digests or is_kept(f"results/run/{p}")}
    runs = [given or run_of(side.run) for side in (a, b)]
    run, precisions = runs[0] or runs[1], (_precision(a), _precision(b))
    limits = tolerances(max(precisions, key=ROUNDOFF.__getitem__))  # of the one that rounds more
    of_sides = [{n: read_table(f, table_of(f"{n}.parquet")) for n, f in side.tables().items()} for side in (a, b)]
    frames: dict[Letter, NamedTables] = {"a": of_sides[0], "b": of_sides[1]}
    outcomes = compare_tables(frames["a"], frames["b"], limits)
    short = {outcome.shown: outcome for outcome in outcomes.values()}
    out = Comparison(a.digests == b.digests != {}, short, precisions=precisions)
    if out.identical:
        return out
    for side, says, its in zip((a, b), precisions, runs, strict=True):  # the limits follow from what tables state
        right = own.config.extraction.precision if (own := its or run) else precisions[0]
        if says != right:
            out.others.append(f"{side.given}: its tables state that they were measured in {says}, not in {right}")
    out.drawn = _others(out, a, b)
    open_ = [outcome for outcome in outcomes.values() if outcome.open["a"] or outcome.open["b"]]
    if open_ and not out.different:  # else the answer is known, without the model
        if run is None or (why := lacking(run, (a, b))):
            for outcome in open_:
                outcome.different.append(f"{outcome.shown}: {why if run else NOT_TOLD}")
        else:
            mine, drawn = partial(AuditInputs.read, run, ()), partial(baselines.Baseline, run)
            _recompute(outcomes, frames, limits, lambda name: mine() if name == "own" else drawn(name).inputs({}))
    return out


def lacking(run: Run, both: Sequence[RunFiles]) -> str | None:
    """Return why rows cannot be recomputed; ``None`` if the model that both runs measured and the text are here."""
    model, *others = run.inputs.model_files
    made = [run.path("model", "model.safetensors"), run.path("model", "model.json"), run.table("sentences")]
    files = (model, *others, run.dictionary, run.path("corpus", "corpus.safetensors"), *made)
    if not all(map(os.path.exists, (*files, *run.inputs.pinned))):
        return NOT_TOLD
    for path, wanted in run.inputs.pinned.items():
        if dvc_lock_file.digest(path, "sha256") != wanted:
            return f"{NOT_TOLD}; {path} is not the one that the config names"
    for lock in (lock for lock in {run.dvc_lock, *(side.given for side in both)} if lock.is_file()):
        recorded = _files_of(lock, "deps", "outs")
        if other := [path for path in files if path in recorded and recorded[path] != dvc_lock_file.digest(path)]:
            return f"{NOT_TOLD}; {other[0]} is not the one that {lock} records"
    for side, file in ((side, side.files.get("model/info.json")) for side in both):
        info = foreign.read_json(file, dict[str, Any]) if file else {}
        if info.get("checkpoint_sha256") not in (None, dvc_lock_file.digest(model, "sha256")):
            return f"{NOT_TOLD}; {model} is not the one that {side.given} was measured with"
    return None


def table_of(path: str) -> str | None:
    """Return the table that a file below a run's folder holds; ``None`` for other files."""
    if (match := TABLE.match(path)) is None:
        return None
    name = "counts" if match[1] == "counts" else match[2]
    return name if name in TABLES else None


def model_of(folder: str) -> str | None:
    """Return the model whose tables a folder holds: ``own``, or a baseline; ``None`` for tables of no model."""
    match = re.fullmatch(r"models/([^/]+)/(tables|proxy)", folder)
    return "own" if folder == "tables" else match and match[1]


def measured(folder: Path) -> list[str]:
    """Return the paths of all tables of models that lie in a run's folder."""
    paths = (file.relative_to(folder).as_posix() for file in sorted(folder.rglob("*.parquet")))
    shared = (path for path in paths if is_shared(f"results/run/{path}") and table_of(path))
    return [f"{folder}/{path}" for path in shared if model_of(str(Path(path).parent))]


def opened(given: Path) -> RunFiles:
    """Return the files of a folder or a dvc.lock. Raises ``UserError`` for others, and if DVC's cache lacks tables."""
    return _folder(given) if given.is_dir() else _recorded(given)


def _folder(given: Path) -> RunFiles:
    side = RunFiles(given, given.resolve().name)
    for file in sorted(file for file in given.rglob("*") if file.is_file()):
        path = file.relative_to(given).as_posix()
        if not (WITHIN.match(path) and is_shared(f"results/run/{path}")) or file.name == ".snakemake_timestamp":
            continue  # logs, text, and what can be made again
        side.files[path], side.digests[path] = file, dvc_lock_file.digest(file)
    side.digests |= {name: dvc_lock_file.content(given / name) for name in FOLDERS if (given / name).is_dir()}
    if not side.tables():
        raise UserError(f"{given}: has no tables of a run", GIVE)
    return side


def _files_of(lock: Path, *kinds: str) -> dict[str, str]:
    """Return {file: MD5} of a ``dvc.lock``. Raises ``UserError`` for any other file."""
    try:
        stages = dvc_lock_file.stages_of(lock).values()
    except UserError as error:
        reason = str(error).partition("\n")[0].removeprefix(f"{lock}: ")
        raise UserError(f"{lock}: neither a run's folder nor a dvc.lock ({reason})", GIVE) from None
    return {file["path"]: file["md5"] for kind in kinds for stage in stages for file in stage.get(kind, [])}


def _recorded(given: Path) -> RunFiles:
    side = RunFiles(given, "")
    for path, md5 in _files_of(given, "outs").items():
        if (match := OWN.match(path)) and is_shared(path):
            side.run, side.digests[match[2]] = match[1], md5
    if not side.digests:
        raise UserError(f"{given}: has no tables of a run", GIVE)
    for path, md5 in side.digests.items():
        copies = (cache / md5[:2] / md5[2:] for cache in CACHES)
        if whole := next((file for file in copies if file.is_file() and dvc_lock_file.digest(file) == md5), None):
            side.files[path] = whole
        elif table_of(path):
            raise UserError(f"{given}: its {path} is not in DVC's cache, or damaged there", "run dvc fetch")
    return side


def compare_tables(a: NamedTables, b: NamedTables, limits: Tolerances) -> dict[str, Outcome]:
    """Compare two runs' tables, by their files' names; one that a run lacks counts as different."""
    out: dict[str, Outcome] = {}
    moved: dict[str, pl.DataFrame] = {}
    number = {name: list(TABLES).index(table_of(f"{name}.parquet") or "") for name in a.keys() | b.keys()}
    for name in sorted(number, key=lambda name: (number[name], name)):  # triggers before what is measured on them
        out[name] = outcome = Outcome(name, (len(a.get(name, ())), len(b.get(name, ()))))
        if name not in a or name not in b:
            outcome.different.append(f"{outcome.shown}: only one of the runs has this table")
            continue
        on_moved = moved.get(outcome.folder) if outcome.table in ON_TRIGGERS else None
        if a[name].equals(b[name]) and on_moved is None:
            continue
        other = _compare_rows(outcome, a[name], b[name], limits, on_moved)
        if outcome.table == "triggers":
            moved[outcome.folder] = other
    return out


def _compare_rows(
    out: Outcome, a: pl.DataFrame, b: pl.DataFrame, limits: Tolerances, moved: pl.DataFrame | None
) -> pl.DataFrame:
    """Compare two tables, open rows that differ or are of ``moved`` triggers to a recomputation; return their keys."""
    schema = TABLES[out.table]
    key, rules, score = list(schema.key), schema.rules, schema.score
    for column in sorted(set(a.columns) ^ set(b.columns)):
        out.different.append(f"{out.shown}: only one of the runs has the column {column}")
    a, b = (frame.with_row_index("row") for frame in (a, b))
    for frame in (a, b):
        out.differs(frame.filter(frame.select(key).is_duplicated()), "several rows of this key")
    only = [one.join(other, on=key, how="anti", nulls_equal=True) for one, other in ((a, b), (b, a))]
    noise = pl.lit(0.0)
    if "coefficient" in rules.values() and all({"layer", "coefficient"} <= set(frame.columns) for frame in (a, b)):
        one, other = largest(a), largest(b)
        most = one | other | {layer: min(one[layer], other[layer]) for layer in one.keys() & other.keys()}
        noise = limits.noise * pl.col("layer").replace_strict(most, return_dtype=pl.Float64, default=0.0)
    size = next((name for name, rule in rules.items() if name == score or rule == "count"), None)
    for frame in only:
        out.cells["rows"] = out.cells.get("rows", 0) + len(frame)
        if schema.open_rows and size is not None:  # what one run lacks may be no more than noise
            frame = frame.filter(pl.col(size) > (noise if size == score else FEW_COUNTED))
        if not schema.open_rows or size is not None:
            out.differs(frame, "only one of the runs has this row")
    both = a.join(b, on=key, suffix="_b", nulls_equal=True)
    columns = [name for name in rules if f"{name}_b" in both.columns]
    differs = [pl.col(name).ne_missing(pl.col(f"{name}_b")).alias(f"{name}_differs") for name in columns]
    near = [_near(name, rules[name], limits, noise, both.columns).alias(f"{name}_near") for name in columns]
    judged = both.with_columns(*differs, *near)
    for name in columns:
        out.cells[name] = int(judged[f"{name}_differs"].sum())
        if rules[name] not in ("exact", "follows"):
            out.within[name] = int((judged[f"{name}_differs"] & judged[f"{name}_near"]).sum())
    out.follows = schema.compared == "follows" and any(out.cells.values())
    of_model = schema.measured and model_of(out.folder) is not None
    for name in columns if not of_model else [score] if score else []:
        out.differs(judged.filter(~pl.col(f"{name}_near")), f"{name} is {{{name}}} and {{{name}_b}}")
    if not of_model:
        return a.clear()
    beyond = judged.filter(~pl.all_horizontal(f"{name}_near" for name in columns if name != score))
    on_moved = judged.join(moved, on=TRIGGER, how="semi") if moved is not None else judged.clear()
    excused = max(limits.excused, schema.tied) * max(out.rows) + FEW
    counted_ = [*only, beyond] if moved is None else [f.join(moved, on=TRIGGER, how="anti") for f in (*only, beyond)]
    out.near_ties = max(map(len, counted_[:2])) + len(counted_[2])
    opened = pl.concat([beyond, on_moved]).unique("row", maintain_order=True)
    if out.near_ties > excused:
        beyond_it = f"{out.near_ties:,} of {max(out.rows):,} rows differ beyond a tolerance"
        out.different.append(f"{out.shown}: {beyond_it}, and rounding explains at most {excused:,.0f}")
    elif out.table in ROWS:
        out.open = {"a": [*opened["row"], *only[0]["row"]], "b": [*opened["row_b"], *only[1]["row"]]}
    return pl.concat([opened.select(key), *(frame.select(key) for frame in only)]).unique()


def _near(name: str, rule: Rule, limits: Tolerances, noise: pl.Expr, columns: list[str]) -> pl.Expr:
    """Return whether a column's cells agree within its class; ``columns``: of both runs, B's with the suffix ``_b``."""
    one, other = pl.col(name), pl.col(f"{name}_b")
    if rule == "exact":
        return one.eq_missing(other)
    if rule == "follows":  # from its own row, or from other tables
        return _changes("") & _changes("_b") if name == "change" else pl.lit(True)
    missing = one.eq_missing(other)
    one, other = one.cast(pl.Float64), other.cast(pl.Float64)
    size, width = pl.max_horizontal(one.abs(), other.abs()), pl.lit(0.0)
    if rule == "coefficient" and "coefficient" in columns:  # a changed coefficient is as exact as the one it was
        size = pl.max_horizontal(size, pl.col("coefficient").cast(pl.Float64).abs())
    if rule == "statistic" and "low_b" in columns:
        each = [(pl.col(f"high{s}") - pl.col(f"low{s}")).abs().fill_null(0.0) for s in ("", "_b")]
        width = pl.min_horizontal(each)
    may = {
        "coefficient": limits.coefficient * size + noise,
        "probability": limits.probability * size,
        "logit": pl.lit(limits.probability),
        "count": limits.count * size + FEW_COUNTED,
        "statistic": limits.probability * size + INTERVAL * width,
    }[rule]
    finite = one.is_finite() & other.is_finite()
    return (finite & ((one - other).abs() <= may)).fill_null(missing)


def _changes(side: str) -> pl.Expr:
    """Return whether a mutation's change follows from the coefficients of its row."""
    change = relative_change(*(pl.col(f"{name}{side}").cast(pl.Float64) for name in ("mutated", "coefficient")))
    return (change - pl.col(f"change{side}")).abs() <= 1e-5 * (1 + (1 + change).abs())


def _recompute(
    found: dict[str, Outcome],
    frames: Mapping[Letter, NamedTables],
    limits: Tolerances,
    models: Callable[[str], AuditInputs],
) -> None:
    """Recompute the open rows of both runs by their ``models``; those that these do not confirm are differences."""
    todo = [outcome for outcome in found.values() if outcome.open["a"] or outcome.open["b"]]
    with Progress(sum(len(o.open[side]) for o in todo for side in SIDES), "rows", "compare") as progress:
        for folder, side in itertools.product(sorted({outcome.folder for outcome in todo}), SIDES):
            model = models(model_of(folder) or "")
            recorded = {name: frame for name in ROWS if (frame := frames[side].get(f"{folder}/{name}")) is not None}
            inputs = replace(model, tables=model.tables | recorded)
            inputs.near = Comparer(limits)
            faults, here = recompute.faults(inputs), (one for one in todo if one.folder == folder)
            for _, (_, where, result) in judged(inputs, [(one.table, row) for one in here for row in one.open[side]]):
                faults += [f"{where}: {result.says}"] if result.state == DIFFERS else []
                progress.step(1)
            for fault in faults:  # each begins with its table
                outcome = found.get(f"{folder}/{re.split('[,:]', fault)[0]}", todo[0])
                outcome.different.append(f"{outcome.shown.removesuffix(outcome.table)}{fault} ({side.upper()})")


def _others(found: Comparison, a: RunFiles, b: RunFiles) -> int:
    """Compare what is not measured; return how many files differ that may follow from tables that differ."""
    moved = any(any(o.cells.values()) and not o.follows for o in found.tables.values())
    tables_ = [outcome.shown for outcome in found.tables.values() if outcome.follows]
    files, every = list[str](), (path for path in a.digests.keys() | b.digests.keys() if not table_of(path))
    for path in sorted(path for path in every if a.digests.get(path) != b.digests.get(path)):
        if path not in a.digests or path not in b.digests:
            found.others.append(f"{path}: only one of the runs has this file")
        elif NUMBERS.match(path) and path in a.files and path in b.files:
            if not _alike(*(foreign.read_json(side.files[path], dict[str, Any]) for side in (a, b))):
                found.others.append(f"{path}: differs")
        elif path.startswith(("model/", "counts/")) or NUMBERS.match(path):
            found.others.append(f"{path}: differs")
        else:
            files.append(path)
    if not moved:
        but = "differs, but the tables that it follows from are the same"
        found.others += [f"{name}: {but}" for name in tables_ + files]
    return len(files)


def _alike(one: Any, other: Any) -> bool:
    """Return whether two values of JSON have the same keys and texts, and numbers that agree to 1e-4."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-4)
    return bool(one == other)


def _precision(side: RunFiles) -> Precision:
    """Return the precision that a run's tables were measured in. Raises ``UserError`` if they differ in it."""
    measured = [f"tables/{name}" for name, schema in TABLES.items() if schema.measured]
    stated = {precision_of(file): name for name, file in side.tables().items() if name in measured}
    if len(stated) > 1:
        names = " and ".join(f"{name} in {precision}" for precision, name in stated.items())
        raise UserError(f"{side.given}: tables measured in different precisions: {names}", "run the workflow again")
    return next(iter(stated), "float32")


def page(found: Comparison) -> Iterator[str]:
    """Yield the comparison in lines: tables, columns that differ, the answer."""
    if found.precisions != ("float32", "float32"):
        a, b = found.precisions
        yield f"A was measured in {a}, B in {b}; the limits are those of the one that rounds more"
    for name, outcome in found.tables.items():
        rows = " and ".join(f"{n:,}" for n in dict.fromkeys(outcome.rows)) + " rows"
        state = "different" if outcome.different else "equal" if any(outcome.cells.values()) else "the same"
        if outcome.follows and not outcome.different:
            state += "; it follows from tables that differ"
        if outcome.near_ties and not outcome.different:
            unchecked = TABLES[outcome.table].measured and outcome.table not in ROWS
            how = "not recomputed: no verdict rests on them" if unchecked else "by recomputation in float64"
            state += f"; {counted(outcome.near_ties, 'near-tie', 'near-ties')}, {how}"
        yield f"{name:18} {rows}: {state}"
        for column, differ in outcome.cells.items():
            if differ:
                near = f", {outcome.within[column]:,} within tolerance" if column in outcome.within else ""
                yield f"    {column:18} {differ:,} of {outcome.rows[0]:,} cells differ{near}"
        yield from first(outcome.different)
    yield from first(found.others)
    if found.drawn:
        yield f"{counted(found.drawn, 'other file differs', 'other files differ')}, because tables do"
    yield f"{found.answer}" + (f": {found.summary}" if found.answer == "equal" else "")


def first(lines: list[str], most: int = SHOWN, indent: int = 2) -> Iterator[str]:
    """Yield the first faults or differences, and how many more there are."""
    yield from (f"{'':{indent}}! {line}" for line in lines[:most])
    if len(lines) > most:
        yield f"{'':{indent}}! and {len(lines) - most:,} more"


def data(found: Comparison) -> dict[str, Any]:
    """Return the comparison as plain data."""
    return asdict(found) | {"answer": found.answer, "summary": found.summary}

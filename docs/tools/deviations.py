"""Write docs/deviations.md: where paper and released code differ or leave a choice, and the effect of each choice.

With --tables, the effects come from a run's table `sensitivity`, which is also saved in docs/data as CSV; without it,
from the saved CSV. Ranks under random projections come from docs/data/projection_seeds.csv, which
`python -m contrib.released_code seeds` writes. No number on the page is typed by hand.
"""

import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from pages import ROOT, options, renew

from ff_memories import tables
from ff_memories.base.files import write_whole
from ff_memories.config import FIDELITY, RELEASED_ONLY
from ff_memories.judge.numbers import measured, number
from ff_memories.judge.register import register as claims
from ff_memories.judge.sensitivity import changes

PAGE, ENTRIES = ROOT / "docs" / "deviations.md", ROOT / "docs" / "tools" / "deviations.toml"
DIGITS = 6
UNMEASURED = "not measured"
REFUSED = "a run with this choice is refused"
SHOWN = 2  # claims named per choice
INTRODUCTION = """\
# Differences between paper and code

Every choice that the paper's text leaves open, and every place where the authors' released code differs from the text:
what each says, what this package does, the config key that decides, and what the alternatives change. C1 to C8 follow
the released code file by file; D1 to D36 are open questions by subject. Where a line *Paper* or *Released code* is
missing, the text or the code says nothing of it. `fidelity: released` selects the values marked *released* together;
[matching the released code](exports.md#match-the-released-code) compares with it cell by cell.
"""
MEASURED = """\
The effects come from one run, and each row changes one key. A claim *moves* if it leaves the 95 % interval of the run's
own value, or without an interval, if it changes at all. {whose} `snakemake --cores all sensitivity` measures them, then
`python docs/tools/deviations.py --tables results/demo/tables` writes them here; `python -m contrib.released_code seeds`
measures random projections (C5).
"""
SURROGATE = "**All numbers come from a surrogate model, not the paper's.**"


NOT_JUDGED = ("measured", "not_applicable", "not_attempted")


@dataclass(frozen=True)
class Key:
    """One config key that decides an open question.

    Attributes:
        key: its path.
        default: the paper's value.
        alternatives: the other values on the page.
        share: whether the alternatives are shares of the training sentences, as in ``sensitivity``.
        only: ``transformers`` if only its models have the alternatives.
    """

    key: str
    default: str
    alternatives: tuple[str, ...]
    share: bool = False
    only: str = ""

    @property
    def released(self) -> str | None:
        """The released code's value, from the config's own table; ``None`` if it has none."""
        released = FIDELITY["released"] | RELEASED_ONLY | {"fidelity": "released"}
        return released.get(self.key)


@dataclass(frozen=True)
class Entry:
    """One deviation or open question; ``deviations.toml`` explains the attributes."""

    id: str
    title: str
    here: str
    paper: str = ""
    released: str = ""
    where: str = ""
    reported: str = ""
    keys: tuple[Key, ...] = ()


@cache
def register() -> tuple[Entry, ...]:
    """Return all entries, in the file's order."""
    text = ENTRIES.read_text(encoding="utf-8")
    return tuple(
        Entry(**raw | {"keys": tuple(Key(**k | {"alternatives": tuple(k["alternatives"])}) for k in raw["keys"])})
        for raw in ({"keys": []} | entry for entry in tomllib.loads(text)["entry"])
    )


def page(sensitivity: pl.DataFrame | None, seeds: pl.DataFrame | None) -> str:
    """Return the page as Markdown.

    Args:
        sensitivity: the table ``sensitivity``; without it, effects appear as "not measured".
        seeds: what ``contrib.released_code.seeds`` writes, likewise.
    """
    frame = None if sensitivity is None else changes(sensitivity)
    surrogate = sensitivity is not None and not sensitivity["verdict"].is_in(["reproduced", "not_reproduced"]).any()
    whose = SURROGATE if surrogate else "The run uses the paper's own model."
    lines = [INTRODUCTION, MEASURED.format(whose=whose) if frame is not None else ""]
    for entry in register():
        lines += [_entry(entry, frame, seeds)]
    return "\n".join(filter(None, lines)).rstrip() + "\n"


def _entry(entry: Entry, frame: pl.DataFrame | None, seeds: pl.DataFrame | None) -> str:
    where = f" ({entry.where})" if entry.where else ""
    lines = [f"## {entry.id}: {entry.title}", ""]
    lines += [f"- Paper: {entry.paper}"] if entry.paper else []
    lines += [f"- Released code{where}: {entry.released}"] if entry.released else []
    lines += [f"- Here: {entry.here}"]
    lines += [f"- Reported: {entry.reported}."] if entry.reported else []
    lines += [line for key in entry.keys for line in _choices(key, frame)]
    if entry.id == "C5":
        lines += ["", seeds_line(seeds)]
    return "\n".join(lines) + "\n"


def _choices(key: Key, frame: pl.DataFrame | None) -> list[str]:
    """Return a line for each alternative of a key whose effect was measured, and one for all others."""
    mark = lambda value: " *(released)*" if value == key.released else ""
    shown = lambda value: f"{number(100 * float(value))} % of the sentences" if key.share else f"`{value}`"
    default = f"`{key.key}: {key.default}`{mark(key.default)}"
    effects = {value: effect(frame, key.key, value) for value in key.alternatives}
    lines = [
        f"- `{key.key}: {value}`{mark(value)} instead of `{key.default}`{mark(key.default)}: {found}"
        for value, found in effects.items()
        if found != UNMEASURED
    ]
    others = [f"{shown(value)}{mark(value)}" for value, found in effects.items() if found == UNMEASURED]
    if others and _measured(frame, key.key, key.default):
        found = effect(frame, key.key, key.default)
        lines.append(f"- {default}; the run uses {' or '.join(others)}, and `{key.default}` changes: {found}")
    elif others:
        only = f", in models of `{key.only}` alone" if key.only else ""
        lines.append(f"- {default}; {UNMEASURED}: {', '.join(others)}{only}")
    return lines


def _measured(frame: pl.DataFrame | None, path: str, value: str) -> list[dict[str, Any]]:
    return [] if frame is None else list(frame.filter(choice=path, value=value).iter_rows(named=True))


def effect(frame: pl.DataFrame | None, path: str, value: str) -> str:
    """Return a choice's effect: how many claims moved, those that moved most, and the verdicts that changed.

    Args:
        frame: from ``sensitivity.table.changes``.
        path, value: the choice.
    """
    rows = _measured(frame, path, value)
    known = [row for row in rows if row["measured"] is not None and row["baseline"] is not None]
    if not known:
        return REFUSED if rows else UNMEASURED
    moved = [row for row in known if row["beyond"]]
    farthest = sorted(moved, key=lambda row: -abs(row["change"] or 0))[:SHOWN]
    units = {claim.id: claim.unit for claim in claims()}
    parts = [f"{len(moved)} of {len(known)} claims move" if moved else f"none of {len(known)} claims moves"]
    if farthest:
        shown = (
            f"{r['claim']} {measured(r['baseline'], units[r['claim']])} → {measured(r['measured'], units[r['claim']])}"
            for r in farthest
        )
        parts.append(("most: " if len(moved) > len(farthest) else "") + ", ".join(shown))
    changed = [
        f"{r['claim']} {r['was'].replace('_', ' ')} → {r['verdict'].replace('_', ' ')}" for r in rows if r["changed"]
    ]
    if any(row["was"] not in NOT_JUDGED for row in rows):
        parts.append("verdicts: " + ", ".join(changed) if changed else "no verdict changes")
    return "; ".join(parts)


def seeds_line(seeds: pl.DataFrame | None) -> str:
    """Describe how random projections change ranks: how many move, and the layer where seeds differ most."""
    if seeds is None:
        return f"Ranks over seeds of the random projections: {UNMEASURED}."
    drawn, trained = (seeds.filter(projection=name) for name in ("random", "adaptive"))
    medians = (
        drawn.drop_nulls("median")
        .group_by("layer")
        .agg(low=pl.col("median").min(), high=pl.col("median").max())
        .join(trained.select("layer", trained="median"), on="layer")
        .sort((pl.col("high") - pl.col("low")), "layer", descending=[True, False])
    )
    moved = drawn.select((pl.col("moved") * pl.col("n")).sum() / pl.col("n").sum()).item()
    tail = trained.select(pl.col("n_tail").sum() / pl.col("n").sum()).item()
    text = (
        f"With {drawn['seed'].n_unique()} seeds of the random projections and the dropout, {number(100 * moved)} % of "
        "the target tokens change their rank compared with the trained softmax; "
        f"{number(100 * tail)} % are outside its head."
    )
    if medians.is_empty():
        return text
    row, outside = medians.row(0, named=True), medians.filter(~pl.col("trained").is_between("low", "high")).height
    return (
        f"{text} Their median rank varies most in layer {row['layer']}: from {number(row['low'], 4)} to "
        f"{number(row['high'], 4)} between seeds, compared with {number(row['trained'], 4)} for the trained softmax. "
        f"In {outside} of {medians.height} layers, the trained softmax's median is outside the range of the seeds."
    )


def taken(folder: Path) -> str:
    """Return a run's table ``sensitivity`` as CSV."""
    if not (path := folder / "sensitivity.parquet").exists():
        sys.exit(f"{folder}: no sensitivity.parquet; run snakemake --cores all sensitivity to make it")
    return csv(tables.read(path))


def csv(frame: pl.DataFrame) -> str:
    """Return a table as CSV, with floats to six significant digits."""
    return frame.with_columns(pl.col(pl.Float64).round_sig_figs(DIGITS)).write_csv()


def table(text: str) -> pl.DataFrame:
    """Return the kept table ``sensitivity``."""
    schema = tables.TABLES["sensitivity"]
    frame = pl.read_csv(text.encode(), schema_overrides={c: pl.String for c in schema.columns})
    return tables.conform(frame.with_columns(pl.col("value").fill_null("")), schema)


def main(argv: list[str] | None = None) -> None:
    parser = options(__doc__, PAGE)
    parser.add_argument("--tables", type=Path, help="folder of a run's tables; without it, what docs/data holds")
    args = parser.parse_args(argv)
    kept, drawn = (args.out.parent / "data" / f"{name}.csv" for name in ("sensitivity", "projection_seeds"))
    sensitivity = taken(args.tables) if args.tables is not None else kept.read_text("utf-8") if kept.exists() else ""
    seeds = pl.read_csv(drawn) if drawn.exists() else None
    new = page(table(sensitivity) if sensitivity else None, seeds)
    if args.tables is not None and not args.check:
        write_whole(kept, sensitivity)
    renew(args.out, new, args.check)


if __name__ == "__main__":
    main()

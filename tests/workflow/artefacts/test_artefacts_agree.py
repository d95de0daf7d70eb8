"""The whole matrix: after every kind of change, Snakemake and DVC run what follows from it and leave the same lock.

Where a step's output comes out unchanged, DVC stops, and Snakemake goes on.
"""

import os
import shutil
import time

import polars as pl
import pytest
from projects import INPUTS, RESULTS, configure, run, steps

from contrib.annotation_study import pattern_csv
from ff_memories import tables
from ff_memories.annotate.annotation_files import Pattern

pytestmark = pytest.mark.long

LATE = {"claims", "report"}
FIGURES = {"figures_3", "figures_4", "figures_5"}


def edit(folder, name, old, new):
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    os.chmod(path, 0o644)
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def append(folder, name, text):
    with (folder / name).open("a", encoding="utf-8") as file:
        file.write(text)


def backdate(folder, name):
    os.utime(folder / name, (10**9, 10**9))


def touch(folder):
    now = time.time()
    files = [*(folder / name for name in INPUTS), *(folder / RESULTS / "tables").iterdir()]
    for path in (*files, *(folder / "src").rglob("*.py")):
        os.utime(path, (now, now), follow_symlinks=False)


def source(folder):
    edit(folder, "src/ff_memories/steps/claims.py", ":.6g}", ":.5g}")
    backdate(folder, "src/ff_memories/steps/claims.py")


def annotate(folder):
    """Let Ann say in the browser's form of every second item that its first three prefixes are alike."""
    plan = tables.read(folder / RESULTS / "tables/annotation_plan.parquet").filter(pl.col("prefixes") >= 3)
    said = [Pattern("", "", "Ann", item, "1", "semantic", "alike", (1, 2, 3)) for item in plan["item"].gather_every(2)]
    (folder / "annotations/planted/Ann.csv").write_text(pattern_csv("planted", said), encoding="utf-8")


# change -> (what it does, some of the steps that must run, some that must not, whether `restore` is called first)
CHANGES = {
    "a comment": (lambda f: append(f, "src/ff_memories/schema.py", "\n# edited\n"), set(), FIGURES | LATE, 0),
    "an experiment's parameter": (
        lambda f: configure(f, "mutations.random", "inner"),
        {"mutations", "figures_3", "baselines"} | LATE, {"values", "triggers", "composition"}, 0,
    ),
    "a source of one step, backdated": (source, LATE, FIGURES, 0),
    "time stamps alone": (touch, set(), FIGURES | LATE, 0),
    "an output deleted": (lambda f: (f / RESULTS / "claims.json").unlink(), LATE, FIGURES, 1),
    "the number of shards": (lambda f: configure(f, "execution.shards", 3), set(), FIGURES | LATE, 0),
    "a shared source": (
        lambda f: edit(f, "src/ff_memories/tables/__init__.py", "compression_level=19", "compression_level=1"),
        {"corpus", "values"} | LATE, set(), 0,
    ),
    "a text of the same length, backdated, before restore": (
        lambda f: (edit(f, "train.txt", "red", "odd"), backdate(f, "train.txt")), {"corpus"} | LATE, {"model"}, 1,
    ),
}  # fmt: skip


def agree(pair, change, must, must_not, restore):
    """Change two checkouts and let the tools run on them, each first on one; hold what runs against what must."""
    snakemake, repro = ["snakemake", "-q", "all"], ["dvc", "repro", "-q"]
    ran, locks = [], []
    for folder, first, second in zip(pair, (snakemake, repro), (repro, snakemake), strict=True):
        change(folder)
        if restore and first is snakemake:
            assert ("to be rerun" in run(folder, "ff-memories", "restore").stdout) == bool(must)
        own = [name for name in steps(folder, *first) if not name.startswith("models/")]  # others' triggers are gone
        ran.append({name.rpartition("/")[2].removesuffix("_joined") for name in own})
        run(folder, "ff-memories", "adopt")  # refuses while anything is due
        locks.append((folder / "dvc.lock").read_bytes())
        assert steps(folder, *second) == set()
        assert (folder / "dvc.lock").read_bytes() == locks[-1]
    assert ran[1] <= ran[0] and bool(ran[1]) == bool(must)
    assert must <= ran[0]
    assert not must_not & ran[0]
    assert locks[0] == locks[1]


@pytest.fixture
def pair(fresh, tmp_path):
    """Two checkouts in the same state."""
    return [shutil.copytree(fresh, tmp_path / str(n), symlinks=True) for n in range(2)]


@pytest.mark.parametrize("name", CHANGES)
def test_both_tools_agree_in_both_orders(pair, name):
    agree(pair, *CHANGES[name])


def test_both_tools_notice_a_file_of_annotations_and_that_it_is_gone(pair):
    before = (pair[0] / "dvc.lock").read_bytes()
    for change in (annotate, lambda folder: (folder / "annotations/planted/Ann.csv").unlink()):
        agree(pair, change, {"patterns", "figures_3"} | LATE, {"proxy", "triggers"}, False)
    assert (pair[0] / "dvc.lock").read_bytes() == before

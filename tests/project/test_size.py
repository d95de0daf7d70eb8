"""The size of the house: who needs more lines, files or pages says what goes (CONTRIBUTING.md, "Budget")."""

import re
import subprocess
from collections.abc import Callable
from pathlib import PurePosixPath

import pytest
from running import ROOT

PAGE = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
LIMITS = {name: int(number.replace(",", "")) for name, number in re.findall(r"^\| (.+?) \| ([\d,]+) \|", PAGE, re.M)}


def in_git() -> list[PurePosixPath]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True, capture_output=True, check=True).stdout
    return [path for path in map(PurePosixPath, listed.splitlines()) if (ROOT / path).is_file()]


def python(*rooms: str) -> list[PurePosixPath]:
    return [path for path in in_git() if path.suffix == ".py" and path.as_posix().startswith(rooms)]


def lines(*rooms: str) -> int:
    return sum((ROOT / path).read_bytes().count(b"\n") for path in python(*rooms))


SIZES: dict[str, Callable[[], int]] = {
    "lines of Python in `src`": lambda: lines("src/"),
    "files of Python in `src`": lambda: len(python("src/")),
    "lines of Python in `tests`": lambda: lines("tests/"),
    "lines of Python in `tools/qa` and `tools/benchmarks`": lambda: lines("tools/qa/", "tools/benchmarks/"),
    "pages in `docs`": lambda: len([p for p in in_git() if p.suffix == ".md" and p.parent.name == "docs"]),
    "entries at the top of the tree": lambda: len({path.parts[0] for path in in_git()}),
}


def test_the_page_limits_all_that_is_counted():
    assert set(LIMITS) == set(SIZES)


@pytest.mark.parametrize("what", SIZES)
def test_the_house_grows_no_more(what):
    size = SIZES[what]()
    assert 0 < size <= LIMITS[what], f"{size:,} {what}: take something out first"


def test_every_test_that_is_stored_as_slow_is_there():
    for line in (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines():
        file, _, name = line.partition("[")[0].partition("::")
        content = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""
        assert f"def {name}(" in content or (content and not name), f"{line}: run make slow"

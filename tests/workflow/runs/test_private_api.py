"""What is used of Snakemake and DVC beyond their public interfaces is in one file, and is there."""

import importlib
import inspect
import re
from importlib.metadata import version

import pytest
from running import ROOT

from ff_memories.workflow.private_api import USED

PINNED = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
ROWS = [(*engine, place, name) for engine, places in USED.items() for place in places for name in places[place]]


def test_the_versions_are_those_that_are_pinned():
    for engine, number in USED:
        assert f'"{engine}=={number}"' in PINNED and version(engine) == number


@pytest.mark.parametrize("engine, number, place, name", ROWS, ids=[".".join(row[2:]) for row in ROWS])
def test_what_is_used_is_there(engine, number, place, name):
    module, _, last = place.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), last) if last[0].isupper() else importlib.import_module(place)
    except (ImportError, AttributeError):
        pytest.fail(f"{engine} {number} has no {place}")
    sets = re.findall(r"self\.(\w+)\b.*=", inspect.getsource(found))
    assert hasattr(found, name) or name in sets, f"{engine} {number} has no {name} in {place}"


def test_no_other_file_uses_what_begins_with_an_underscore():
    files = [*(ROOT / "workflow/rules").glob("*.smk"), *(ROOT / "src/ff_memories/workflow").rglob("*.py")]
    found = {
        path.name
        for path in files
        if re.search(r"(?<!self)(?<!cls)\._(?!fields\b)[a-z]\w*\b", path.read_text(encoding="utf-8"))
    }
    assert found == {"private_api.py"}

"""What is used of Snakemake beyond its public interface is in one file, and is there; other releases are named."""

import importlib
import inspect
import re
from importlib.metadata import version

import pytest
from running import ROOT

from ff_memories.workflow import constraints
from ff_memories.workflow.private_api import USED


def test_a_release_that_is_not_allowed_is_named_with_those_that_are(monkeypatch):
    needs = ["snakemake<10,>=11", "dvc>=3", "no-such", "other; extra == 'x'"]
    monkeypatch.setattr(constraints, "requires", lambda _: needs)
    here = version("snakemake")
    assert constraints.unmet() == f"snakemake<10,>=11 ({here} is installed), no-such (none is installed)"


@pytest.mark.parametrize("place, name", [(place, name) for place, names in USED.items() for name in names.split()])
def test_what_is_used_is_there(place, name):
    importlib.import_module("snakemake.api")  # first: Snakemake's modules import each other
    module, _, last = place.rpartition(".")
    found = getattr(importlib.import_module(module), last)
    sets = re.findall(r"^ +(?:self\.)?(\w+)\b.*[:=]", inspect.getsource(found), re.MULTILINE)
    assert hasattr(found, name) or name in sets, f"snakemake {version('snakemake')} has no {name} in {place}"


def test_no_other_file_uses_what_begins_with_an_underscore():
    files = [*(ROOT / "workflow/rules").glob("*.smk"), *(ROOT / "src/ff_memories/workflow").rglob("*.py")]
    hidden = re.compile(r"(?<!self)(?<!cls)\._(?!fields\b|exit\b)[a-z]\w*\b")
    assert {path.name for path in files if hidden.search(path.read_text(encoding="utf-8"))} == {"private_api.py"}

"""What is used of Snakemake beyond its public interface is in one file."""

import re

from running import ROOT


def test_no_other_file_uses_what_begins_with_an_underscore():
    files = [*(ROOT / "workflow/rules").glob("*.smk"), *(ROOT / "src/ff_memories/workflow").rglob("*.py")]
    hidden = re.compile(r"(?<!self)(?<!cls)\._(?!fields\b)[a-z]\w*\b")
    assert {path.name for path in files if hidden.search(path.read_text(encoding="utf-8"))} == {"private_api.py"}

"""What the last line of `verify` and its certificate say of the sample that they rest on."""

import pytest
from pipeline import config

from ff_memories.audit import verify
from ff_memories.audit.sampling import Aim
from ff_memories.audit.verify import NEEDED, CheckedPart
from ff_memories.workflow import dvc_lock_file
from ff_memories.workflow.run import Run

FEW = " with a smaller sample than usual ({} of a table, not {})"


def parts(**tables):
    """A check without a fault; ``tables``: the rows of each table, and how many of them were recomputed."""
    data = {
        name: {"rows": rows, "recomputed": looked_at, "asked": min(rows, 398)}
        for name, (rows, looked_at) in tables.items()
    }
    return [CheckedPart(name, "fine", data={"tables": data} if name == "audit" else {}) for name in NEEDED]


@pytest.mark.parametrize("tables, says", [
    ({"triggers": (400_000, 398), "examples": (40, 40)}, ""),
    ({"triggers": (400_000, 59), "examples": (40, 40)}, FEW.format("59 rows", 398)),
    ({"triggers": (400_000, 398), "values": (90, 1)}, FEW.format("1 row", 90)),
])  # fmt: skip
def test_a_smaller_sample_is_told_beside_the_verdict(tables, says, monkeypatch):
    assert verify.verdict(parts(**tables), 10) == f"VERIFIED{says} in 10.0 s"
    monkeypatch.setattr(dvc_lock_file, "digest", lambda *_: "")
    made = verify.certificate(parts(**tables), 10, Run(config()), "surrogate")
    assert made["verdict"] == f"verified{says}" and made["last_line"].startswith(f"VERIFIED{says} in ")


def test_a_check_of_some_parts_says_the_sample_and_what_it_lacks():
    some = [part for part in parts(triggers=(400_000, 4)) if part.name in ("record", "files", "audit")]
    says, lacks = FEW.format("4 rows", 398), "; not checked: rebuilt, verdicts"
    assert verify.verdict(some, 10) == f"NO FAULT FOUND in 10.0 s{says}, but not all was checked{lacks}"


def test_a_damaged_log_excuses_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dvc_lock_file, "differing", lambda _: {"table": "stage"})
    check = verify.Check(Run(config()), Aim(), 1, verify.RebuiltFirst(tmp_path), 0)
    log = tmp_path / check.run.path("logs", "values.log")
    log.parent.mkdir(parents=True)
    (tmp_path / "table").write_text("edited")
    log.write_text("made: 5\n")
    assert check.own == frozenset()

"""What the last line of `verify` and its certificate say of the sample that they rest on."""

import pytest
from pipeline import config

from ff_memories.audit import verify
from ff_memories.audit.verify import NEEDED, CheckedPart
from ff_memories.workflow import dvc_lock_file
from ff_memories.workflow.run import Run

FEW = " with a smaller sample than usual ({} of a table, not 398)"


def parts(rows):
    """A check without a fault, of so many rows of each table."""
    return [CheckedPart(name, "fine", data={"rows": rows} if name == "audit" else {}) for name in NEEDED]


@pytest.mark.parametrize("rows, says", [(398, ""), (59, FEW.format("59 rows")), (1, FEW.format("1 row"))])
def test_a_smaller_sample_is_told_beside_the_verdict(rows, says, monkeypatch):
    assert verify.verdict(parts(rows), 10) == f"VERIFIED{says} in 10.0 s"
    monkeypatch.setattr(dvc_lock_file, "digest", lambda *_: "")
    made = verify.certificate(parts(rows), 10, Run(config()), "surrogate")
    assert made["verdict"] == "verified" and made["last_line"].startswith(f"VERIFIED{says} in ")


def test_a_check_of_some_parts_says_the_sample_and_what_it_lacks():
    some = [part for part in parts(4) if part.name in ("record", "files", "audit")]
    says, lacks = FEW.format("4 rows"), "; not checked: rebuilt, verdicts"
    assert verify.verdict(some, 10) == f"NO FAULT FOUND in 10.0 s{says}, but not all was checked{lacks}"

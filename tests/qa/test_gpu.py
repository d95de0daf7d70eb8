"""The GPU campaign stops parts that take too long, and its page follows from what it found."""

import json
import subprocess

from tools.qa import gpu

PART = "compare-bfloat16"
HOST = {"processor": "a processor", "cores": 2, "memory": "8 GiB"}
ROW = {
    "measure": "pass alone",
    "tokens": 10**8,
    "reached": 161.4,
    "unit": "s",
    "sign": "≤",
    "target": 150,
    "met": False,
}


def record(**parts):
    return {"machine": {"device": "a device", "host": HOST, "torch": "2"}, "parts": parts}


def test_the_page_shows_what_was_found():
    found = {"pass-100M-tf32": {"ok": True, "seconds": 200.0, "rows": [ROW]},
             "rehearsal": {"ok": False, "seconds": 540.0, "said": "not done within 9 minutes"}}  # fmt: skip
    page = gpu.page(record(**found))
    assert "Run on a device, a processor" in page and "| pass alone | 100,000,000 | ≤ 150 | **161.4 s** |" in page
    assert "| **no**: not done within 9 minutes | 9 min 00 s |" in page
    assert page.count("not yet") == len(gpu.PARTS) - 2


def test_the_page_of_the_docs_follows_from_what_was_found():
    assert gpu.PAGE.read_text(encoding="utf-8") == gpu.page(json.loads(gpu.DATA.read_text(encoding="utf-8")))


def test_a_part_that_does_not_end_is_stopped_and_said(tmp_path, monkeypatch):
    started = subprocess.Popen
    monkeypatch.setattr(gpu, "LIMIT", 0.2)
    monkeypatch.setattr(subprocess, "Popen", lambda _, **more: started(["sleep", "60"], **more))
    found = gpu.run_part(PART, tmp_path / PART)
    assert not found["ok"] and found["said"].startswith("not done within") and found["seconds"] < 30

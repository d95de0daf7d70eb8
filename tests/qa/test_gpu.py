"""The GPU campaign runs to its end without a GPU, goes on where it was stopped, and its page says what it ran on."""

import json
import subprocess
import sys

import pytest

from qa import gpu

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


def record(real, **parts):
    return {"machine": {"gpu": real, "device": "a device", "host": HOST, "torch": "2"}, "parts": parts}


def test_the_page_shows_numbers_of_a_gpu_alone():
    found = {"pass-100M-tf32": {"ok": True, "seconds": 200.0, "rows": [ROW]},
             "rehearsal": {"ok": False, "seconds": 540.0, "said": "not done within 9 minutes"}}  # fmt: skip
    real, other = gpu.page(record(True, **found)), gpu.page(record(False, **found))
    assert "Run on a device, a processor" in real and "| pass alone | 100,000,000 | ≤ 150 | **161.4 s** |" in real
    assert "Not run on a GPU yet" in other and "161.4" not in other
    for page in (real, other):
        assert (
            "| **no**: not done within 9 minutes | 9 min 00 s |" in page and page.count("not yet") == len(gpu.PARTS) - 2
        )


def test_the_page_of_the_docs_follows_from_what_was_found():
    assert gpu.PAGE.read_text(encoding="utf-8") == gpu.page(json.loads(gpu.DATA.read_text(encoding="utf-8")))


@pytest.mark.more
def test_a_part_runs_without_a_gpu_and_is_not_run_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "DATA", tmp_path / "data.json")
    monkeypatch.setattr(gpu, "PAGE", tmp_path / "page.md")
    for said in (f"{PART}: done", ""):
        monkeypatch.setattr(sys, "argv", ["gpu", "--folder", str(tmp_path), "--parts", PART])
        assert gpu.main() == 0
        assert said in capsys.readouterr().out
    found = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    assert found.keys() == {PART} and found[PART]["tables"]["triggers"]["different"] == 0
    assert found[PART]["tables"]["triggers"]["off"] > 0, "nothing was rounded"


def test_a_part_that_does_not_end_is_stopped_and_said(tmp_path, monkeypatch):
    started = subprocess.Popen
    monkeypatch.setattr(gpu, "LIMIT", 0.2)
    monkeypatch.setattr(subprocess, "Popen", lambda _, **more: started(["sleep", "60"], **more))
    found = gpu.run_part(PART, tmp_path / PART)
    assert not found["ok"] and found["said"].startswith("not done within") and found["seconds"] < 30

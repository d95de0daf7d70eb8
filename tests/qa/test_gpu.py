"""The GPU campaign stops parts that take too long."""

import subprocess

from tools.qa import gpu

PART = "compare-bfloat16"


def test_a_part_that_does_not_end_is_stopped_and_said(tmp_path, monkeypatch):
    started = subprocess.Popen
    monkeypatch.setattr(gpu, "LIMIT", 0.2)
    monkeypatch.setattr(subprocess, "Popen", lambda _, **more: started(["sleep", "60"], **more))
    found = gpu.run_part(PART, tmp_path / PART)
    assert not found["ok"] and found["said"].startswith("not done within") and found["seconds"] < 30

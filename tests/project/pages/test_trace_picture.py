"""The picture of a trace is of the recorded model."""

import json

import pytest
import trace_picture
import yaml
from running import ROOT


@pytest.mark.slow
def test_the_picture_of_a_trace_is_of_the_recorded_model():
    lock = yaml.safe_load((ROOT / "dvc.lock").read_text(encoding="utf-8"))["stages"]
    recorded = {out["path"]: out["md5"] for stage in lock.values() for out in stage.get("outs", [])}
    kept = json.loads((ROOT / trace_picture.KEPT).read_text(encoding="utf-8"))
    again = "run python docs/tools/trace_picture.py"
    assert kept == {"text": trace_picture.TEXT, "model": recorded[str(trace_picture.MODEL)]}, again

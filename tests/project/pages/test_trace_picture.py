"""The picture of a trace is of the recorded model, small, and shown."""

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


def test_the_picture_is_small_and_shown():
    assert (ROOT / trace_picture.PICTURE).stat().st_size <= 80_000
    for page, link in [("README.md", "docs/pictures/trace.webp"), ("docs/gallery.md", "pictures/trace.webp")]:
        assert f"]({link})" in (ROOT / page).read_text(encoding="utf-8")
    assert f'"{trace_picture.TEXT}"' in (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")

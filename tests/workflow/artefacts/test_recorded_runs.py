"""The recorded runs, each pulled alone into a fresh clone. The record must be of these sources."""

import subprocess

import pytest
from projects import run
from running import ROOT

RUNS = {
    "demo": ("dvc.yaml", "data/demo/model.pt.dvc", "data/demo/dict.txt.dvc"),
    "stories15m": ("runs/stories15m/dvc.yaml",),
    "stories15m-stories": ("runs/stories15m-stories/dvc.yaml",),
    "smollm2": ("runs/smollm2/dvc.yaml",),
    "qwen": ("runs/qwen/dvc.yaml",),
}


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_alone_was_pulled_is_up_to_date_and_verifies(name, tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    config = [] if name == "demo" else ["--configfile", f"config/{name}.yaml"]
    (clone / "runs" / ".dvcignore").write_text(f"!/{name}/\n")  # as make pull does
    run(clone, "dvc", "pull", "--quiet", *RUNS[name])
    run(clone, "ff-memories", "restore", *config)
    assert run(clone, "dvc", "status", RUNS[name][0]).stdout.strip() == "Data and pipelines are up to date."
    assert "Nothing to be done" in run(clone, "snakemake", "-n", *config).stdout
    assert run(clone, "ff-memories", "verify", *config).returncode == 0
    assert not any((clone / "results" / other).exists() for other in RUNS.keys() - {name})

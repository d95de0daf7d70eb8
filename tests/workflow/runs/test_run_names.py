"""Two configs with one run's name: the second does not overwrite the results of the first without a word."""

import shutil
from pathlib import Path

import pytest
import yaml
from pipeline import config
from refusing import says
from running import ROOT, command
from transformers_run import prepare

from ff_memories.base.errors import UserError
from ff_memories.workflow.opening import refuse_taken
from ff_memories.workflow.run import Run


def write(path, **changes):
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(yaml.safe_dump(config(**changes)))


def taken(file="other.yaml", **changes):
    """Return what is said of a config that wants the run; nothing if it may have it."""
    try:
        refuse_taken(Run(config(**changes), file))
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("place", ["my.yaml", "config/my.yaml"])
def test_another_config_with_other_settings_is_refused_and_its_copy_is_not(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    write(place)
    said = f"other.yaml: the run small is that of {place}, which has other settings; its results are in results/small"
    assert taken(seed=4).splitlines()[0] == said
    Path("bad.yaml").write_text("run: small\n- x")
    assert not taken() and not taken(execution__shards=7)
    assert not taken(place, seed=4) and not taken(str(tmp_path / place), seed=4)
    write(place, run="another")
    assert not taken(seed=4)


def test_init_and_snakemake_refuse_it_before_the_first_job(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    settings = prepare(tmp_path, "gpt2", run="own")
    given = ["--model", "model", "--train", "train.txt", "--validation", "validation.txt"]
    capsys.readouterr()
    said = says(capsys, "init", "own.yaml", *given)
    assert "own.yaml: the run own is that of my.yaml" in said and not Path("own.yaml").exists()
    shutil.copyfile("my.yaml", "first.yaml")
    Path("my.yaml").write_text(yaml.safe_dump(settings | {"seed": 9}))
    words = ["--snakefile", ROOT / "Snakefile", "--cores", "1", "--configfile", "my.yaml", "--dry-run"]
    done = command("snakemake", *words, cwd=tmp_path, check=False)
    said = done.stdout + done.stderr
    assert done.returncode and "my.yaml: the run own is that of first.yaml" in said and "Traceback" not in said

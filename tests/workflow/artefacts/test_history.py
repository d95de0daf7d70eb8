"""What a run's record adds to the repository's history, on a repository with a hand-made record."""

import hashlib

import pytest
import yaml
from pipeline import config
from projects import git

from ff_memories.base.errors import UserError
from ff_memories.workflow.engines.stages import SHARED, is_kept
from ff_memories.workflow.recorded import history
from ff_memories.workflow.runs.run import Run

MB = 1_000_000
THE_RUN = Run(config(), "config/config.yaml")  # whose folder is the working one


def write(path, **content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))


def out(path, name, size):
    return {"path": path, "md5": md5(name), "size": size}


def md5(name):
    """Return a digest that begins with a name's first two characters."""
    end = ".dir" if name.endswith(".dir") else ""
    return name[:2] + hashlib.md5(name.encode()).hexdigest()[2:] + end


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A run with one new table of 2 MB, and all else in the history: a table, a model, another run."""
    monkeypatch.chdir(tmp_path)
    outs = [
        out("results/demo/tables/old.parquet", "aa01", 3 * MB),
        out("results/demo/tables/new.parquet", "bb02", 2 * MB),
        out("results/demo/figures/figure2.svg", "cc03", 90 * MB),
        out("results/demo/report/table1.csv", "dd04", 90 * MB),
    ]
    deps = [{"path": "data/demo/model.pt", "md5": md5("ab07")}]
    write(tmp_path / "dvc.lock", stages={"made": {"cmd": "make", "deps": deps, "outs": outs}})
    write(tmp_path / "data/demo.dvc", outs=[out("demo", "ee05.dir", 4 * MB)])
    other = [out("results/other/tables/values.parquet", "ff06", 50 * MB)]
    write(tmp_path / "runs/other/dvc.lock", stages={"made": {"cmd": "make", "outs": other}})
    for name in map(md5, ("aa01", "ee05.dir", "ff06")):
        path = tmp_path / history.STORE / name[:2] / name[2:]
        path.parent.mkdir(parents=True)
        path.touch()
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "recorded")
    return tmp_path


def test_only_what_no_commit_has_is_new_and_neither_figures_nor_text_count(project):
    assert history.record(THE_RUN) == history.RecordSize(own=9 * MB, added=2 * MB, every=59 * MB)
    git(project, "rm", "-q", "--cached", f"artefacts/files/md5/aa/{md5('aa01')[2:]}")
    git(project, "commit", "-qm", "removed again")
    assert history.record(THE_RUN).added == 2 * MB, "what a later commit removed is still in the history"


@pytest.mark.parametrize("size, says", [(21, "21.0 MB are new .*a run may add 20 MB"), (4, "61.0 MB; 60 MB at most")])
def test_a_record_that_is_too_large_is_refused(project, size, says):
    text = (project / "dvc.lock").read_text()
    (project / "dvc.lock").write_text(text.replace(f"size: {2 * MB}", f"size: {size * MB}"))
    with pytest.raises(UserError, match=says):
        history.record(THE_RUN)


def test_figures_may_be_shared_but_no_copy_is_kept_of_them():
    figure = "results/demo/figures/figure2.svg"
    assert SHARED.search(figure) and not is_kept(figure)

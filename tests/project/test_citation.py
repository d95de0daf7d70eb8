"""What the project says of itself: CITATION.cff agrees with pyproject.toml, and what is not installed is named."""

import sys
import tomllib

import polars as pl
import pytest
import yaml
from running import ROOT

from contrib.released_code import data_frames
from ff_memories.base.errors import UserError
from ff_memories.workflow import constraints

CITED = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_licence_and_title_are_those_of_pyproject_which_alone_has_the_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert CITED["license"] == project["license"] and "version" not in CITED
    assert CITED["title"] == f"{project['name']}: {project['description']}"
    assert CITED["authors"] == project["authors"] and CITED["keywords"] == project["keywords"]


def test_the_lock_with_hashes_has_the_pinned_releases_and_names_no_place():
    text = (ROOT / "workflow/envs/requirements.lock").read_text(encoding="utf-8")
    pinned, locked = (
        constraints.pins(ROOT / "workflow/envs" / name) for name in ("constraints.txt", "requirements.lock")
    )
    assert {name: pinned.get(name, version) for name, version in locked.items()} == locked and "torch" in locked
    assert "://" not in text and text.count("--hash=sha256:") > len(locked)


def test_what_only_some_users_need_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        UserError, match=r"pandas, which writes .pkl, is not installed\n  fix: run pip .*'\.\[pickle\]'"
    ):
        data_frames.write(pl.DataFrame({"text": ["a"]}), tmp_path / "x.pkl")

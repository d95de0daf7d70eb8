"""What the project says of itself: CITATION.cff agrees with pyproject.toml, and what is not installed is named."""

import sys
import tomllib
from typing import Any, cast

import polars as pl
import pytest
import yaml
from running import ROOT

from contrib.released_code import data_frames
from contrib.ro_crate import crate
from ff_memories.base.errors import UserError
from ff_memories.workflow import constraints

LOCK = "requirements.lock"
CITED = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_licence_and_title_are_those_of_pyproject_which_alone_has_the_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert CITED["license"] == project["license"] and "version" not in CITED
    assert CITED["title"] == f"{project['name']}: {project['description']}"
    assert CITED["authors"] == project["authors"] and CITED["keywords"] == project["keywords"]


def test_the_lock_with_hashes_has_the_pinned_releases_and_names_no_place():
    text = (ROOT / f"workflow/envs/{LOCK}").read_text(encoding="utf-8")
    pinned, locked = (constraints.pins(ROOT / f"workflow/envs/{file}") for file in ("constraints.txt", LOCK))
    assert {name: pinned.get(name, version) for name, version in locked.items()} == locked and "torch" in locked
    assert "://" not in text and text.count("--hash=sha256:") > len(locked)


def test_the_paper_is_named_and_a_codecheck_has_what_it_asks_of_authors():
    (paper,) = CITED["references"]
    assert paper["title"] == "Transformer Feed-Forward Layers Are Key-Value Memories"
    assert paper["doi"] == "10.18653/v1/2021.emnlp-main.446" and paper["doi"] in paper["url"]
    families = [author["family-names"] for author in paper["authors"]]
    assert families == ["Geva", "Schuster", "Berant", "Levy"]
    check = yaml.safe_load((ROOT / "codecheck.yml").read_text(encoding="utf-8"))
    assert check["version"] == "https://codecheck.org.uk/spec/config/1.0/" and check["manifest"]
    assert check["paper"]["title"] == paper["title"] and paper["doi"] in check["paper"]["reference"]
    assert [author["name"].split()[-1] for author in check["paper"]["authors"]] == families


def test_a_crate_without_a_citation_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text, said in (
        (None, "no such file"),
        ("title: x\nauthors: []\n", "missing key"),
        ("title: [", "not readable"),
    ):
        if text is not None:
            (tmp_path / "CITATION.cff").write_text(text)
        with pytest.raises(UserError, match=said):
            crate.build(cast(Any, None), {"scope": "surrogate"})


def test_what_only_some_users_need_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        UserError, match=r"pandas, which writes .pkl, is not installed\n  fix: run pip .*'\.\[pickle\]'"
    ):
        data_frames.write(pl.DataFrame({"text": ["a"]}), tmp_path / "x.pkl")

"""How to cite the project: three files that follow from pyproject.toml."""

import json
import tomllib

import pytest
import yaml
from running import ROOT

from ff_memories.base.errors import UserError
from ff_memories.cli import main
from ff_memories.commands import citation


def test_the_files_in_the_repository_follow_from_pyproject(monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as end:
        main(["cite", "--check"])
    assert end.value.code == 0


def test_a_new_version_goes_into_all_of_them_and_the_check_names_what_is_old(tmp_path, monkeypatch, capsys):
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    version = tomllib.loads(text)["project"]["version"]
    (tmp_path / "pyproject.toml").write_text(text.replace(f'version = "{version}"', 'version = "9.8.7"', 1))
    monkeypatch.chdir(tmp_path)
    for name in ("CITATION.cff", ".zenodo.json", "codemeta.json"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    with pytest.raises(SystemExit):
        main(["cite", "--check"])
    assert "CITATION.cff does not follow from pyproject.toml" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["cite"])
    assert yaml.safe_load((tmp_path / "CITATION.cff").read_text())["version"] == "9.8.7"
    for name in (".zenodo.json", "codemeta.json"):
        assert json.loads((tmp_path / name).read_text())["version"] == "9.8.7"


def test_all_of_them_name_the_paper():
    made = citation.files(citation.source(ROOT / "pyproject.toml"))
    assert all("10.18653/v1/2021.emnlp-main.446" in text for text in made.values())
    (paper,) = yaml.safe_load(made["CITATION.cff"])["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Geva", "Schuster", "Berant", "Levy"]


def test_what_is_missing_is_named(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    with pytest.raises(UserError, match="lacks what a citation needs"):
        citation.source(tmp_path / "pyproject.toml")

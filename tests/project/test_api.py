"""The page of the public functions is true."""

import contextlib
import importlib
import io
import re

import pytest
from running import ROOT, command

import ff_memories
from ff_memories.base.errors import UserError

PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n```\n(.*?)```", PAGE, re.DOTALL)


def test_every_example_of_the_page_prints_what_it_says(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert len(EXAMPLES) == PAGE.count("```python") == 6
    names = {}
    for code, expected in EXAMPLES:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        assert printed.getvalue() == expected
    assert all(name in names for name in ff_memories.__all__)


def test_a_script_with_a_model_of_transformers_ends_without_complaint():
    run = ["python", "-c", "import ff_memories; model = ff_memories.load_model('data/demo-gpt2')"]
    assert "Traceback" not in command(*run).stderr


def test_layers_and_keys_that_are_not_there_are_refused():
    model = ff_memories.load_model(ROOT / "data/demo/model.pt", ROOT / "data/demo/dict.txt")
    with pytest.raises(UserError, match="layers 1 to 16"):
        ff_memories.memory_coefficients(model, "the", 17)
    with pytest.raises(UserError, match="keys 0 to 511"):
        ff_memories.value_predictions(model, 1, 512)
    with pytest.raises(AttributeError, match="no attribute"):
        ff_memories.no_such_thing  # noqa: B018


def test_a_package_that_went_names_its_new_place():
    with pytest.raises(ModuleNotFoundError, match=r"claims went: look in ff_memories\.judge"):
        importlib.import_module("ff_memories.claims")

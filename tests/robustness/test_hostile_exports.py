"""Foreign files that exports are made of: refused by name, and nothing is written beside or half."""

import io
import json
import math
import os
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from factories import convert, words, write_checkpoint, write_dictionary
from hostile import PROGRAMS, Touch, legacy, zipped
from pipeline import step

pytestmark = pytest.mark.more


def line_of(dim=3, **changes):
    trigger = {"rank": 0, "layer_index": 0, "token_indice": 1.0, "fc1_value": 0.5, "text": "a b c"} | changes
    return json.dumps({"dim": dim, "top_values": [[trigger]]}).encode() + b"\n"


FOREIGN = {
    "a name that leads upwards": line_of("../../OUTSIDE"),
    "a name from the root": line_of("/tmp/OUTSIDE"),
    "a negative dimension": line_of(-1),
    "a dimension that is true": line_of(True),
    "a dimension beyond all": line_of(10**300),
    "no JSON": b"dim 3\n",
    "no UTF-8": line_of(text="x").replace(b'"x"', b'"\xff"'),
    "half a character": line_of(text="\ud800"),
    "nested beyond the stack": b"[" * 100_000,
    "a list": b"[]\n",
    "no layer": b'{"dim": 3, "top_values": []}\n',
    "layers that are a mapping": b'{"dim": 3, "top_values": {"0": []}}\n',
    "a trigger that is a list": b'{"dim": 3, "top_values": [[[]]]}\n',
    "no value": line_of().replace(b"fc1_value", b"value"),
    "a value that is text": line_of(fc1_value="0.5"),
    "a value that is true": line_of(fc1_value=True),
    "a value that is no number": line_of(fc1_value=math.nan),
    "an infinite value": line_of(fc1_value=-math.inf),
    "a value that becomes infinite": line_of().replace(b"0.5", b"1e999"),
    "a negative index": line_of(token_indice=-1.0),
    "an index between two tokens": line_of(token_indice=0.5),
    "an infinite index": line_of(token_indice=math.inf),
    "an empty text": line_of(text=""),
    "a blank text": line_of(text=" \t"),
    "a text that is a list": line_of(text=["a"]),
    "a dimension twice": line_of(),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_trigger_examples_that_are_none_are_refused_and_nothing_is_written(tmp_path, capsys, what):
    path, out = tmp_path / "triggers.jsonl", tmp_path / "in" / "texts"
    path.write_bytes(line_of() + FOREIGN[what])
    with pytest.raises(AssertionError, match="ended with 2"):
        step("export", "texts", "--jsonl", path, "--out", out)
    assert f"{path}, line 2: " in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["in", "triggers.jsonl"]
    path.write_bytes(line_of(fc1_value=2, text="a\nb\tc"))  # mended, into the same folder
    step("export", "texts", "--jsonl", path, "--out", out)
    assert [(p.name, p.read_bytes()) for p in out.iterdir()] == [("3_0.txt", b"2\ta *b*\n")]


def test_an_empty_file_of_trigger_examples_is_refused(tmp_path, capsys):
    (tmp_path / "triggers.jsonl").touch()
    with pytest.raises(AssertionError, match="ended with 2"):
        step("export", "texts", "--jsonl", tmp_path / "triggers.jsonl", "--out", tmp_path / "texts")
    assert "triggers.jsonl: the file is empty" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["triggers.jsonl"]


def saved(content):
    torch.save(content, out := io.BytesIO())
    return out.getvalue()


SOFTMAX = {"class_proj": torch.ones(2, 16), "tail.0": torch.ones(8, 16), "tail.1": torch.ones(4, 16)}
PROJECTIONS = {
    "nothing": (b"", "not a checkpoint"),
    "rubbish": (b"\x80\x02K", "not a checkpoint"),
    "text": (b"projections", "not a readable checkpoint"),
    "a program": (saved(Touch()), "could run code"),
    "a program among them": (saved(SOFTMAX | {"extra": Touch()}), "could run code"),
    "a list": (saved([*SOFTMAX.values()]), "it is not a dictionary of tensors"),
    "a number": (saved(3), "it is not a dictionary of tensors"),
    "a tensor": (saved(SOFTMAX["tail.0"]), "it is not a dictionary of tensors"),
    "a list for a tensor": (saved(SOFTMAX | {"class_proj": [1.0]}), "it is not a dictionary of tensors"),
    "a number for a name": (saved(SOFTMAX | {3: torch.ones(1)}), "it is not a dictionary of tensors"),
    "another name": (saved({"classes": torch.ones(2, 16)}), "class_proj"),
    "another shape": (saved(SOFTMAX | {"tail.0": torch.ones(8)}), "tail.0 has shape (8,), the model's has "),
    "more than is stored": (saved(SOFTMAX | {"tail.0": torch.ones(1).expand(8, 16)}), "more than is stored"),
    "whole numbers": (saved(SOFTMAX | {"class_proj": torch.ones(2, 16).long()}), "class_proj has entries that"),
    "NaN": (saved(SOFTMAX | {"class_proj": torch.full((2, 16), math.nan)}), "class_proj has entries that"),
}


@pytest.fixture
def given(tmp_path, monkeypatch, capsys):
    """A model, and a function that gives its ``export-agreement`` projections to refuse and returns what it says."""
    monkeypatch.chdir(tmp_path)
    write_checkpoint("model.pt", words(44))
    convert("model.pt", "model.safetensors", "model.json")
    write_dictionary("dict.txt", words(44))

    def refused(path):
        with pytest.raises(AssertionError, match="ended with 2"):
            step("export", "agreement", "--weights", "model.safetensors", "--description", "model.json",
                 "--texts", "texts", "--dictionary", "dict.txt", "--projections-from", path,
                 "--out", "out")  # fmt: skip
        assert not os.path.exists("ran")
        said = capsys.readouterr().err
        assert f"{path}: " in said
        return said

    return refused


@pytest.mark.parametrize("what", PROJECTIONS)
def test_projections_that_are_none_are_refused_by_name(given, what):
    content, said = PROJECTIONS[what]
    Path("softmax.pt").write_bytes(content)
    assert said in given("softmax.pt")


@pytest.mark.parametrize("write", [zipped, legacy])
@pytest.mark.parametrize("program", ["GLOBAL and REDUCE", "STACK_GLOBAL", "eval"])
def test_no_program_in_projections_is_run(given, write, program):
    write("softmax.pt", PROGRAMS[program])
    given("softmax.pt")


def test_compressed_projections_are_refused_before_they_are_unpacked(given):
    zipped("softmax.pt", pickle.dumps({}, protocol=2), [("data/0", bytes(10**7))], zipfile.ZIP_DEFLATED)
    assert "compressed" in given("softmax.pt")


def test_projections_that_are_not_there_are_missed(given):
    assert "no such file" in given("softmax.pt")
    assert "no such file" in given("softmax.safetensors")

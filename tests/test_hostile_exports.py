"""Foreign files that exports are made of: refused by name, and nothing is written beside or half."""

import json
import math

import pytest
from pipeline import step


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
        step("export-texts", "--jsonl", path, "--out", out)
    assert f"{path}, line 2: " in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["in", "triggers.jsonl"]
    path.write_bytes(line_of(fc1_value=2, text="a\nb\tc"))  # mended, into the same folder
    step("export-texts", "--jsonl", path, "--out", out)
    assert [(p.name, p.read_bytes()) for p in out.iterdir()] == [("3_0.txt", b"2\ta *b*\n")]


def test_an_empty_file_of_trigger_examples_is_refused(tmp_path, capsys):
    (tmp_path / "triggers.jsonl").touch()
    with pytest.raises(AssertionError, match="ended with 2"):
        step("export-texts", "--jsonl", tmp_path / "triggers.jsonl", "--out", tmp_path / "texts")
    assert "triggers.jsonl: empty" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["triggers.jsonl"]

"""JSON and YAML of others: read as plain data within bounds, or refused in one line, whichever file it is."""

import io
import json
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from refusing import says

from ff_memories import config
from ff_memories.audit import compare
from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.base.text import SafeStream
from ff_memories.inputs import model_folder
from ff_memories.model.files import config_file, safetensors_check
from ff_memories.model.info import read_info
from ff_memories.model.loading import is_transformer
from ff_memories.workflow import dvc_lock_file, records

pytestmark = pytest.mark.more
SECONDS = 2
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: {{<<: [{', '.join([f'*a{n - 1}'] * 40)}]}}\n" for n in range(1, 9))
PLAIN: dict[str, tuple[Callable, str, str]] = {  # what reads it, the text, and what is said of it
    "merged aliases": (foreign.yaml_of, MERGES, "line 1: an anchor or alias"),
    "a tag": (foreign.yaml_of, "a: !!binary aaaa", "line 1: a tag"),
    "deep": (foreign.yaml_of, "[" * 2_000_000, "line 1: more than 64"),
    "many": (foreign.yaml_of, "- a\n" * 1_000_000, "too many values"),
    "endless": (foreign.yaml_of, "a: [.inf]", "a.1: inf is no finite number"),
    "a date": (foreign.yaml_of, "a: 2020-01-01", "a: .*put it in quotes"),
    "an escape": (foreign.yaml_of, 'a: {b: "\\e[2J"}', "a.b: .* has a control character"),
    "twice": (foreign.yaml_of, "a: 1\na: 2", "line 2: 'a' appears a second time"),
    "JSON, rather deep": (foreign.json_of, "[" * 100 + "]" * 100, "more than 64"),
    "JSON, very deep": (foreign.json_of, "[" * 100_000 + "]" * 100_000, "file: "),
    "JSON, no number": (foreign.json_of, '{"a": NaN}', "a: nan is no finite number"),
    "JSON, endless": (foreign.json_of, '{"a": {"bytes": 1e400}}', "a.bytes: inf is no finite number"),
    "JSON, twice": (foreign.json_of, '{"a": 1, "a": 2}', "'a' appears a second time"),
    "JSON, an escape": (foreign.json_of, '{"a": "\\u001b[2J"}', "a: .* has a control character"),
}


@pytest.mark.parametrize("what", PLAIN)
def test_data_are_plain_or_refused(what):
    read, text, says_ = PLAIN[what]
    begun = time.process_time()
    with pytest.raises(UserError, match=says_) as error:
        read(text, "file", Any)
    assert time.process_time() - begun < SECONDS
    assert str(error.value).startswith("file: ") and len(str(error.value)) < 400
    assert str(error.value).replace("\n  fix: ", "").isprintable()


def test_a_type_that_was_asked_for_is_held_strictly():
    with pytest.raises(UserError, match=r"file: a\.b: Input should be a valid integer"):
        foreign.json_of('{"a": {"b": "7"}}', "file", dict[str, dict[str, int]])
    assert foreign.json_of("\ufeff[1]".encode(), "file", list[int]) == [1]


READERS = {
    "config.json": lambda path: config_file.read(path.parent),
    "model.safetensors.index.json": safetensors_check.shards,
    "made_from.json": lambda path: model_folder.made_from(path.parent),
    "info.json": read_info,
    "model.json": is_transformer,
    "my.yaml": config.load,
    "dvc.lock": compare.opened,
}


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a": 1e400, "a": 2}', "{", "[1]", '{"a": ' + "9" * 5000 + "}"])
@pytest.mark.parametrize("name", READERS)
def test_every_reader_has_the_same_door(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=name.replace(".", r"\.")):
        READERS[name](tmp_path / name)


STAGE = {"cmd": "x", "outs": [{"path": "results/r/tables/values.parquet", "md5": "0" * 32}]}


@pytest.mark.parametrize(
    "change, said",
    [
        ({"outs": [{"path": "a", "md5": "../../../etc/passwd"}]}, "stages.s.outs.0.md5: String should match"),
        ({"cmd": "a\x1b[2J"}, "stages.s.cmd: .* has a control character"),
    ],
)
def test_a_lock_of_others_has_paths_and_digests(tmp_path, change, said):
    (tmp_path / "dvc.lock").write_text(json.dumps({"stages": {"s": STAGE | change}}) + "\n")
    with pytest.raises(UserError, match=f"dvc.lock: {said}"):
        dvc_lock_file.stages_of(tmp_path / "dvc.lock")


def test_a_record_names_no_file_that_would_be_read(tmp_path):
    """Its params may name any file; the values are held against the run's config alone."""
    config = {"my.yaml": {"seed": 1}}
    run: Any = SimpleNamespace(sources_yaml="runs/a/sources.yaml", files=config, by_file=lambda _: config)
    stage: Any = SimpleNamespace(cmd="c", key="s")
    params = {"my.yaml": {"seed": 2}, str(tmp_path / "secret"): {"seed": 1}, "runs/a/sources.yaml": {"s": "0"}}
    differ = list(records._otherwise({"cmd": "c", "params": params}, run, stage, {"s": "0"}))
    assert differ == [("seed", f"with a different seed than in {file}") for file in ("my.yaml", tmp_path / "secret")]


def test_no_message_steers_a_terminal(tmp_path, capsys):
    (stream := SafeStream(io.StringIO())).write("a\t\x1b[2J\r\x9b\u202e\nb é 河")
    assert stream.getvalue() == "a\t[U+001B][2J[U+000D][U+009B][U+202E]\nb é 河"
    assert "a[U+001B][2J.zip: no such archive" in says(capsys, "verify", tmp_path / "a\x1b[2J.zip")
    assert isinstance(sys.stdout, SafeStream)

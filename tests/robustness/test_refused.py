"""What cannot be read, written or counted is refused in one clear sentence, before anything is loaded."""

import json
import os
import subprocess

import pytest
from factories import convert
from pipeline import SMALL, line
from refusing import model_step, run_corpus, says
from running import BIN

from ff_memories.cli import main

pytestmark = pytest.mark.more


def loop(folder, arguments):
    (folder / "train.txt").unlink()
    (folder / "train.txt").symlink_to("train.txt")
    return [*arguments], "train.txt: Too many levels of symbolic links"


def no_card(folder, arguments):
    (folder / "info.json").unlink()
    (folder / "info.json").mkdir()
    return [*arguments], "info.json: expected a file, found a directory"


def no_folder(folder, arguments):
    (folder / "out").write_text("")
    return [*arguments], "out: File exists"


@pytest.mark.parametrize("spoil", [loop, no_card, no_folder])
def test_what_the_system_refuses_is_named(folder, capsys, spoil):
    arguments, said = spoil(folder, run_corpus(folder))
    assert f"/{said}\n" in says(capsys, *arguments)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device here")
def test_a_full_disk_behind_stdout_is_an_error_without_a_traceback():
    with open("/dev/full", "w") as full:
        done = subprocess.run([BIN / "ff-memories", "fetch", "--list"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "error: No space left on device\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_init_where_nothing_may_be_written(folder, capsys):
    (folder / "locked").mkdir(mode=0o500)
    given = ["--checkpoint", folder / "model.pt", "--dictionary", folder / "dict.txt"]
    given += ["--train", folder / "train.txt", "--validation", folder / "validation.txt"]
    assert "locked" in says(capsys, "init", folder / "locked" / "my.yaml", *given)


@pytest.mark.parametrize("name", ["pipe", "folder"])
def test_init_overwrites_no_more_than_a_file(folder, capsys, name):
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    given = ["--checkpoint", folder / "model.pt", "--dictionary", folder / "dict.txt"]
    given += ["--train", folder / "train.txt", "--validation", folder / "validation.txt"]
    assert "expected a file" in says(capsys, "init", folder / name, *given, "--force")


@pytest.mark.parametrize(
    "name, option, number",
    [
        ("values", "--threads", "1000000"),
        ("trigger-shard", "--batch-tokens", "0"),
        ("plan", "--devices", "0"),
        ("show", "--top", "0"),
        ("excerpts", "--rows", "1.5"),
        ("verify", "--seed", "-1"),
        ("verify", "--cores", "9" * 5000),
        ("projection-seeds", "--seeds", "٣"),
    ],
)
def test_a_number_that_no_step_can_use_is_refused_as_it_is_read(name, option, number, capsys):
    with pytest.raises(SystemExit) as end:
        main(line([*name.split(), option, number]))
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert f"argument {option}: {number[:60]}: expected a whole number from" in said


@pytest.mark.parametrize(
    "given, said",
    [
        ("{}", "this step reads the config section 'values', which its rule does not declare"),
        ('{"seed": 3}', "this step reads the config section 'values', which its rule does not declare"),
        ("{", "--config: not valid JSON"),
        ('{"values": ' * 5000 + "}" * 5000, "--config: not valid JSON"),
        ('{"values": 3}', "values: "),
        (json.dumps({"values": SMALL["values"] | {"projection_seed": 2**63}}), "values.projection_seed: "),
        (json.dumps({"values": SMALL["values"] | {"projection_seed": 10**30}}), "values.projection_seed: "),
    ],
)
def test_sections_on_the_command_line_that_are_none_or_too_few(folder, capsys, given, said):
    names = ("weights", "description", "corpus", "triggers", "values")
    paths = [part for name in names for part in (f"--{name}", folder / name)]
    convert(folder / "model.pt", folder / "weights", folder / "description")
    assert said in says(capsys, "values", "--config", given, "--threads", 1, *paths)


@pytest.mark.parametrize(
    "step, name",
    [*((run_corpus, name) for name in ("config.yaml", "dict.txt", "train.txt", "info.json")), (model_step, "model.pt")],
)
def test_a_pipe_is_no_file_and_is_not_waited_for(folder, capsys, step, name):
    arguments = step(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert f"{name}: expected a file, found a pipe or a device" in says(capsys, *arguments)

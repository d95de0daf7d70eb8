"""What cannot be read, written or counted is refused in one clear sentence, before anything is loaded."""

import json
import os
import subprocess

import pytest
from factories import convert
from pipeline import SMALL
from refusing import says
from running import BIN

pytestmark = pytest.mark.more


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device here")
def test_a_full_disk_behind_stdout_is_an_error_without_a_traceback():
    with open("/dev/full", "w") as full:
        done = subprocess.run([BIN / "ff-memories", "fetch", "--list"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "error: No space left on device\n")


@pytest.mark.parametrize("name", ["pipe", "folder"])
def test_init_overwrites_no_more_than_a_file(folder, capsys, name):
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    given = ["--checkpoint", folder / "model.pt", "--dictionary", folder / "dict.txt"]
    given += ["--train", folder / "train.txt", "--validation", folder / "validation.txt"]
    assert "expected a file" in says(capsys, "init", folder / name, *given, "--force")


@pytest.mark.parametrize(
    "given, said",
    [
        ("{}", "this step reads the config section 'values', which its rule does not declare"),
        ("{", "--config: not valid JSON"),
        ('{"values": 3}', "values: "),
        (json.dumps({"values": SMALL["values"] | {"projection_seed": 2**63}}), "values.projection_seed: "),
    ],
)
def test_sections_on_the_command_line_that_are_none_or_too_few(folder, capsys, given, said):
    names = ("weights", "description", "corpus", "triggers", "values")
    paths = [part for name in names for part in (f"--{name}", folder / name)]
    convert(folder / "model.pt", folder / "weights", folder / "description")
    assert said in says(capsys, "values", "--config", given, "--threads", 1, *paths)


# -- where nothing may be written --------------------------------------------------------------------------------

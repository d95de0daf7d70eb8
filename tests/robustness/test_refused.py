"""What cannot be read, written or counted is refused in one clear sentence, before anything is loaded."""

import json
import os
import subprocess

import pytest
from factories import convert
from pipeline import SMALL
from refusing import says
from running import BIN
from safetensors.torch import save_file

from ff_memories.base.files import atomic_write

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


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device here")
def test_what_a_library_says_of_the_system_is_the_systems_error(tmp_path):
    """The writer of safetensors wraps it."""
    with pytest.raises(OSError, match="No space left on device") as found, atomic_write(tmp_path / "m.safetensors"):
        raise RuntimeError('I/O error: No space left on device (os error 28) at path "x"')
    assert found.value.filename == str(tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match="something else"), atomic_write(tmp_path / "m.safetensors"):
        raise ValueError("something else")
    with pytest.raises(OSError), atomic_write(tmp_path / "m.safetensors") as partial:
        save_file({}, partial / "below")
    assert not list(tmp_path.iterdir())

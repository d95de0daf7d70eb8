"""What cannot be read, written or counted is refused in one clear sentence, before anything is loaded."""

import json
import os
import shutil
import subprocess

import pytest
import tiny
import yaml
from factories import convert
from pipeline import SMALL, line
from refusing import says
from running import BIN, ROOT
from safetensors.torch import save_file
from transformers_run import settings_of

from ff_memories.base.files import atomic_write
from ff_memories.cli import main

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
    "name, option, number",
    [
        ("values", "--threads", "1000000"),
        ("trigger-shard", "--batch-tokens", "0"),
        ("plan", "--devices", "0"),
        ("excerpts", "--rows", "1.5"),
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

ELSEWHERE = "  fix: run in a folder that you may write to\n"
ROOT_ALONE = ["setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search,-fowner"]  # minds modes


@pytest.fixture
def project(tmp_path):
    """A model, texts and a config; and a folder of results that may not be written to."""
    tiny.save(tmp_path / "model", "gpt2")
    for name in ("train.txt", "validation.txt"):
        (tmp_path / name).write_text(tiny.WORDS, encoding="utf-8")
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(settings_of()))
    (tmp_path / "results" / "small" / "model").mkdir(parents=True)
    yield tmp_path
    for folder in (tmp_path, *tmp_path.rglob("*/")):
        folder.chmod(0o755)


def run(folder, *arguments):
    """Run a command as somebody whom the modes of files stop, which root is not; return what it says."""
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root may write anywhere")
    command = [*(ROOT_ALONE if os.geteuid() == 0 else []), BIN / arguments[0], *map(str, arguments[1:])]
    env = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env)
    assert done.returncode and "Traceback" not in done.stdout + done.stderr
    return done.stderr


def snakemake(*more):
    return ["snakemake", "--snakefile", ROOT / "Snakefile", "--configfile", "my.yaml", "--cores", "1", *more,
            "--", "results/small/model/info.json"]  # fmt: skip


@pytest.mark.parametrize("where", ["results/small/model", "results"])
def test_a_folder_of_results(project, where):
    (project / where).chmod(0o555)
    said = run(project, *snakemake())
    assert (
        f"\n{where}: no permission to write to it\n  fix: run chmod -R u+w {where}, or run in another folder\n" in said
    )
    assert "localrule model" not in said, "no job began"


@pytest.mark.parametrize(
    "command",
    ["init locked/my.yaml --model model --train train.txt --validation validation.txt",
     "plan --configfile my.yaml --json locked/plan.json"],
)  # fmt: skip
def test_a_command_whose_folder_is_read_only(project, command):
    (project / "locked").mkdir(mode=0o555)
    said = run(project, "ff-memories", *command.split())
    assert "error: locked/" in said and said.endswith(": Permission denied\n" + ELSEWHERE)


def test_a_file_that_may_not_be_read(project):
    (project / "train.txt").chmod(0)
    said = run(project, "ff-memories", "run", "--model", "./model", "--text", "train.txt")
    assert said == (
        "error: train.txt: Permission denied\n  fix: get the permission for it, such as by chmod u+rw train.txt\n"
    )


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

"""Where nothing may be written, every step and command says so in one line."""

import os
import shutil
import subprocess

import pytest
import tiny
import yaml
from running import BIN, ROOT
from safetensors.torch import save_file
from transformers_run import settings_of

from ff_memories.base.files import atomic_write

pytestmark = pytest.mark.more
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


def step(place):
    """Return the model step's command."""
    outs = (("weights", "model.safetensors"), *((name, f"{name}.json") for name in ("description", "info", "types")))
    named = (part for name, file in outs for part in (f"--{name}", f"{place}/{file}"))
    return ["ff-memories", "step", "transformer-model", "--config", "my.yaml", "--files", "model/config.json", *named]


def snakemake(*more):
    return ["snakemake", "--snakefile", ROOT / "Snakefile", "--configfile", "my.yaml", "--cores", "1", *more,
            "--", "results/small/model/info.json"]  # fmt: skip


@pytest.mark.parametrize("where", ["results/small/model", "results/small", "results"])
def test_a_folder_of_results(project, where):
    (project / where).chmod(0o555)
    said = run(project, *snakemake())
    assert (
        f"\n{where}: no permission to write to it\n  fix: run chmod -R u+w {where}, or run in another folder\n" in said
    )
    assert "localrule model" not in said, "no job began"


def test_a_step_whose_folder_is_read_only(project):
    (project / "results/small/model").chmod(0o555)
    said = run(project, *step("results/small/model"))
    assert said.endswith("error: results/small/model/model.safetensors.partial: Permission denied\n" + ELSEWHERE)


def test_a_whole_folder(project):
    project.chmod(0o555)
    said = run(project, *snakemake())
    assert (
        f"{project}: no permission to write to it\n  fix: run chmod -R u+w {project}, or run in another folder\n"
        in said
    )


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

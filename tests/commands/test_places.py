"""Places that people work in: homes, terminals, folders and names other than the ones we have."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from refusing import ended, says
from running import ROOT, command
from transformers_run import prepare

from ff_memories import cli
from ff_memories.base import machine
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.model.files import config_file
from ff_memories.model.transformer import load


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("places")
    prepare(folder, "gpt2", train=40, validation=20)
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """A folder with a model, two texts and a config."""
    monkeypatch.chdir(tmp_path)
    for path in made.iterdir():
        Path(path.name).symlink_to(path)


@pytest.mark.parametrize("home", ["/dev/null", "relative"])
def test_a_home_that_cannot_be_written_is_replaced_by_the_working_folder(tmp_path, monkeypatch, home):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", home)
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, "")  # to be as before after the test
        monkeypatch.delenv(name)
    cli._cache_where_possible()
    assert os.environ["XDG_CACHE_HOME"] == str(tmp_path / ".snakemake/cache")
    assert os.environ["XDG_CONFIG_HOME"] == str(tmp_path / ".snakemake/config")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME")
    cli._cache_where_possible()
    assert "XDG_CACHE_HOME" not in os.environ and [path.name for path in tmp_path.iterdir()] == [".cache"]


def test_a_model_that_this_machine_cannot_hold_is_refused_before_it_is_loaded(here, monkeypatch, capsys):
    monkeypatch.setattr(machine, "memory", lambda: 100_000)
    words = ["run", "--name", "large", "--model", "model", "--train", "train.txt", "--validation", "validation.txt"]
    refusal = says(capsys, *words)
    assert "large: 0.0 billion parameters take 0 GB of memory, but this machine has 0 GB" in refusal
    assert "use a model of fewer than 0.0 billion parameters" in refusal and not Path("large.yaml").exists()
    with pytest.raises(UserError, match=r"model: 0\.0 billion parameters take 0 GB"):
        load.load_folder(Path("model"), config_file.read(Path("model")), "GPT2LMHeadModel")


@pytest.mark.more
@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_terminal_without_a_sign_shows_another(here, encoding):
    shown = command("ff-memories", "trace", "--model", "model", "Anna sees a", cwd=".", PYTHONIOENCODING=encoding)
    assert "?" in shown.stdout and "memories, share of the update" in shown.stdout and not shown.stderr


@pytest.mark.parametrize("words, closed, status", [("--help", 1, 0), ("nope", 2, 2)])
def test_a_closed_stream_hides_what_is_said_and_nothing_else(words, closed, status):
    ran = subprocess.run(
        f'exec "{sys.executable}" -m ff_memories.cli {words} {closed}>&-', shell=True, capture_output=True
    )
    assert (ran.returncode, ran.stdout + ran.stderr) == (status, b"")


def test_no_command_loads_torch_before_its_options_are_read():
    modules = [".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
               for path in (ROOT / "src/ff_memories/commands").rglob("*.py") if path.stem != "__init__"]  # fmt: skip
    code = f"import sys\nfor m in {modules}: __import__(m)\nprint(*{{'torch', 'scipy', 'altair'}} & {{*sys.modules}})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


@pytest.mark.parametrize("name", ["folder", "pipe", "device"])
def test_no_folder_pipe_or_device_is_replaced_by_a_file(tmp_path, name):
    path = tmp_path / name
    path.mkdir() if name == "folder" else os.mkfifo(path)
    if name == "device":
        path.unlink()
        path.symlink_to("/dev/null")
    with pytest.raises(UserError, match="expected a file, found"):
        write_whole(path, "text")
    assert not path.is_file() and [other.name for other in tmp_path.iterdir()] == [name]


TEXTS = "--train train.txt --validation validation.txt"
WRONG = {
    f"init new.yaml --model model/model.safetensors {TEXTS}": "expected a folder with a model, not a file",
    f"init new.yaml --model none.safetensors {TEXTS}": "fix: give its folder, which also needs config.json",
    f"init new.yaml --model model.pt {TEXTS}": "--checkpoint model.pt --dictionary dict.txt",
    "init new.yaml --model model --train trian.txt --validation validation.txt": "(did you mean train.txt?)\n  fix: ",
    f"init train.txt/new.yaml --model model {TEXTS}": "fix: name a config file in a folder that exists",
    "trace hi --model smollm2": "(did you mean smollm2-135m-instruct-q4_1?)\n  fix: ",
    f"init new.yaml --model model {TEXTS} --set triggers=3": "triggers is a section\n  fix: set a key of it, such as",
    "trace hi --model model --configfile my.yaml": "leave out one of them",
    "trace hi --model model --out train.txt/x": "fix: part of this path is a file, where a folder is meant",
    "plan --configfile train.txt": "fix: give a config, as ff-memories init writes one",
    "--verison": "no such command (did you mean --version?)",
}  # fmt: skip


@pytest.mark.parametrize("words, said", WRONG.items(), ids=WRONG)
def test_a_mistake_is_told_with_what_was_meant(here, capsys, words, said):
    before = sorted(Path().iterdir())
    assert ended(*words.split()) == 2
    told = capsys.readouterr().err
    assert said in told and "Traceback" not in told
    assert [path for path in sorted(Path().iterdir()) if path not in before] == []

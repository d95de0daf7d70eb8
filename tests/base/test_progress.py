"""Progress in a log: a line a minute, with what is known."""

import contextlib
import os
import platform
import pty
import subprocess
import threading
import time

import pytest
from running import BIN, ROOT

from ff_memories.base.progress import Progress, of_part


@pytest.fixture
def minute(monkeypatch):
    """Let a minute pass between any two looks at the clock, and have no terminal."""
    now = iter(range(0, 10**6, 61))
    monkeypatch.setattr("ff_memories.base.progress.time.monotonic", lambda: float(next(now)))
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)


def test_a_log_says_how_much_is_done_how_fast_and_how_long_it_will_take(minute, capsys):
    with Progress(61_000, "tokens", "triggers") as progress:
        progress.step(6_100, 300)
    assert capsys.readouterr().err == "triggers: 6,100 of 61,000 tokens in 300 sentences, 100 tokens/s, 549 s left\n"


def test_a_line_of_one_of_several_jobs_says_which(minute, capsys):
    with of_part(["untrained-1", "2-of-4"]), Progress(100, "values", "values") as progress:
        progress.step(61)
    with Progress(100, "values", "values") as progress:
        progress.step(61)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("values (untrained-1, 2-of-4): 61 of 100") and second.startswith("values: 61 of 100")


def test_a_slow_rate_keeps_its_digits_and_a_length_that_is_not_known_is_not_guessed(minute, capsys):
    with Progress(0, "bytes", "file") as progress:
        progress.step(3)
    assert capsys.readouterr().err == "file: 3 bytes, 0.05 bytes/s\n"


# -- on the terminal where Snakemake was started -----------------------------------------------------------------------


@pytest.fixture
def terminal():
    """A terminal: its name, and a function that returns what was shown on it so far."""
    ours, theirs = pty.openpty()
    held: list[bytes] = []

    def read():
        with contextlib.suppress(OSError):  # it was closed
            while part := os.read(ours, 1 << 16):
                held.append(part)

    reader = threading.Thread(target=read, daemon=True)  # or what is written would wait for it
    reader.start()

    def shown():
        time.sleep(0.2)
        return b"".join(held).decode().replace("\r\n", "\n")

    yield os.ttyname(theirs), shown, theirs
    os.close(theirs)
    reader.join(5)
    os.close(ours)


def told(monkeypatch, terminal, machine=None, **settings):
    """Return what a job of a workflow shows on a terminal in four steps, with a minute between them."""
    monkeypatch.setenv("FF_MEMORIES_TERMINAL", f"{machine or platform.node()}:{terminal[0]}")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with Progress(61_000, "tokens", "triggers") as progress:
        for _ in range(4):
            progress.step(6_100)
    return terminal[1]()


def test_a_job_shows_its_progress_where_the_workflow_was_started(minute, monkeypatch, terminal):
    found = told(monkeypatch, terminal).splitlines()
    assert found[0] == "triggers: 6,100 of 61,000 tokens, 100 tokens/s, 549 s left" and len(found) == 4


@pytest.mark.parametrize("settings", [{"machine": "elsewhere"}, {"FF_MEMORIES_PROGRESS": "0"}], ids=str)
def test_a_job_elsewhere_or_one_told_to_be_quiet_shows_nothing(minute, monkeypatch, terminal, settings):
    assert told(monkeypatch, terminal, **settings) == ""


@pytest.mark.more
@pytest.mark.workflow
def test_steps_that_snakemake_runs_are_seen_on_its_terminal(planted_copy, terminal):
    command = [str(BIN / "snakemake"), "--snakefile", str(ROOT / "Snakefile"), "--configfile", "my.yaml", "--cores",
               "1", "--forcerun", "values", "--", "results/planted/tables/values.parquet"]  # fmt: skip
    env = {**os.environ, "FF_MEMORIES_PROGRESS": "1e-9", "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    run = lambda errors: subprocess.run(command, cwd=planted_copy, stderr=errors, stdout=-1, env=env)
    assert run(terminal[2]).returncode == 0
    assert "values (1-of-2): " in terminal[1]()
    assert b"values: " not in run(subprocess.PIPE).stderr

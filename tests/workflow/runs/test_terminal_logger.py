"""What a person sees while a run is at work: steps, a bar, an error with its fix, and a folder that goes on."""

import logging
import os
import pty
import re
import signal
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
from running import BIN, command
from snakemake_interface_logger_plugins.common import LogEvent
from transformers_run import prepare

from ff_memories.workflow.terminal_logger import LogHandler, failure

WORDS = {"model": "Check a model.", "triggers": "Find triggers."}


def record(event=None, msg="", level=logging.INFO, **data):
    made = logging.LogRecord("snakemake", level, "", 0, msg, None, None)
    made.__dict__ |= {"event": event} | data
    return made


def shown(capsys, *records):
    settings: Any = SimpleNamespace()
    handler = LogHandler(settings, None)
    for each in (record(words=WORDS), *records):
        handler.emit(each)
    return capsys.readouterr().err


def jobs(rule, *numbers):
    started = [record(LogEvent.JOB_INFO, jobid=n, rule_name=rule) for n in numbers]
    return [*started, *(record(LogEvent.JOB_FINISHED, job_id=n) for n in numbers)]


def test_steps_are_said_once_in_the_words_of_their_rules_with_the_share_done(capsys):
    stats = {"model": 1, "triggers": 3, "total": 4}
    said = shown(capsys, record(LogEvent.RUN_INFO, stats=stats), *jobs("model", 1), *jobs("triggers", 2, 3))
    assert said == "[  0%] Check a model\n[ 25%] Find triggers (3 jobs)\n"


def test_our_own_messages_are_said_and_errors_without_their_place_in_the_snakefile(capsys):
    text = 'WorkflowError in file "/x/common.smk", line 4:\nmy.yaml: no such file\n  fix: give one\n  File "/x", line 4'
    given = [record(msg="Select jobs to execute..."), record(msg="ours", own=True),
             record(LogEvent.ERROR, text, logging.ERROR, exception="WorkflowError")]  # fmt: skip
    assert shown(capsys, *given) == "ours\nerror: my.yaml: no such file\n  fix: give one\n"


@pytest.mark.parametrize("last", ["error: no text\n  fix: give one\n", "Killed\n"])
def test_a_failed_step_shows_its_logs_end_and_a_fix(tmp_path, last):
    (tmp_path / "a.log").write_text("machine: []\n\nworking\n" + last)
    said = failure("model", WORDS, [str(tmp_path / "a.log")])
    assert said.startswith("failed: Check a model (model)\n") and last.splitlines()[0] in said
    assert said.count("fix: ") == 1 and "machine" not in said and "goes on where it stopped" in said


@pytest.mark.workflow
@pytest.mark.more
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_a_run_that_fails_says_why_and_one_that_is_stopped_goes_on(tmp_path, how):
    prepare(tmp_path, "gpt2", train=40, validation=20)
    run = ("run", "my.yaml", "--cores", "2", "--", "--until", "corpus")
    (tmp_path / "train.txt").rename(tmp_path / "kept.txt")
    gone = command("ff-memories", *run, cwd=tmp_path, check=False)
    assert gone.returncode == 1 and "train.txt" in gone.stderr and 'File "' not in gone.stderr, gone.stderr
    (tmp_path / "train.txt").write_bytes(b"\xff\xfe\n")
    bad = command("ff-memories", *run, cwd=tmp_path, check=False)
    assert "failed: Split the texts into sentences" in bad.stderr and "fix: " in bad.stderr, bad.stderr
    (tmp_path / "kept.txt").replace(tmp_path / "train.txt")
    seen, (ours, theirs) = b"", pty.openpty()
    work = subprocess.Popen([BIN / "ff-memories", *run], cwd=tmp_path, stderr=theirs, start_new_session=True)
    os.close(theirs)
    while b"Split the texts" not in seen or not re.search(rb"of [12] jobs", seen):  # the bar comes after the line
        seen += os.read(ours, 1000)
    os.killpg(work.pid, how)  # by Ctrl-C, as the terminal closes, or by a batch system
    status = work.wait(60)
    while status and b"stopped; the same command goes on" not in seen:
        seen += os.read(ours, 1000)
    last = command("ff-memories", *run, cwd=tmp_path)
    assert list(tmp_path.glob("results/*/corpus/corpus.safetensors"))
    assert command("ff-memories", *run, cwd=tmp_path).stderr == "Nothing to be done\n"
    ended = last.stderr == "Nothing to be done\n"  # before it was stopped
    assert status == 130 or (ended and status == 0)
    assert ended or ("Split the texts" in last.stderr and "jobs done in" in last.stderr)
    assert "profile" not in last.stderr

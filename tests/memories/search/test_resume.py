"""A shard that is killed goes on where it was, and comes out the same to the last byte."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
import yaml
from factories import words
from pipeline import config, line, step, write_inputs

TYPES = words(44)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resume")
    write_inputs(folder, TYPES, train=600)
    (folder / "config.yaml").write_text(yaml.safe_dump(config()))
    model = ["--weights", folder / "model.safetensors", "--description", folder / "model.json"]
    step("model", "--config", folder / "config.yaml", "--checkpoint", folder / "model.pt", "--dictionary",
         folder / "dict.txt", *model, "--info", folder / "info.json")  # fmt: skip
    step("corpus", "--config", folder / "config.yaml", "--train", folder / "train.txt", "--validation",
         folder / "validation.txt", "--dictionary", folder / "dict.txt", "--info", folder / "info.json", "--sentences",
         folder / "sentences.parquet", "--corpus", folder / "corpus.safetensors", "--counts",
         folder / "corpus.parquet")  # fmt: skip
    return folder


def arguments(folder, out, **changes):
    given = {"batch-tokens": 32, "checkpoint-seconds": 0, "device": "cpu", "threads": 1, "shard": "1-of-1"} | changes
    options = [str(part) for name, value in given.items() for part in (f"--{name}", value)]
    return ["trigger-shard", "--config", str(folder / "config.yaml"), "--corpus", str(folder / "corpus.safetensors"),
            "--weights", str(folder / "model.safetensors"), "--description", str(folder / "model.json"),
            "--lists", str(out), *options]  # fmt: skip


def kill_when_a_state_is_there(folder, out, writes=3):
    """Start the shard as a process of its own; kill it with SIGKILL once its state was written several times."""
    state = out.with_name(out.name + ".state")
    process = subprocess.Popen([sys.executable, "-m", "ff_memories.cli", *line(arguments(folder, out))])
    seen, end = set(), time.monotonic() + 120
    while len(seen) < writes and process.poll() is None and time.monotonic() < end:
        if state.exists():
            seen.add(state.stat().st_mtime_ns)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert state.exists(), "the shard ended before it could be killed"
    return state


def batches(state):
    from safetensors import safe_open

    with safe_open(state, framework="pt") as file:
        return json.loads(file.metadata()["told"])["batches"]


@pytest.mark.slow
def test_a_killed_shard_goes_on_and_comes_out_the_same(made, tmp_path, monkeypatch):
    from ff_memories.memories.search import triggers

    step(*arguments(made, tmp_path / "whole.safetensors"))
    state = kill_when_a_state_is_there(made, tmp_path / "killed.safetensors")
    assert not (tmp_path / "killed.safetensors").exists()
    done, runs, run = batches(state), [], triggers.run_batch

    def counted(*a):
        runs.append(1)
        return run(*a)

    assert done > 0
    monkeypatch.setattr(triggers, "run_batch", counted)
    step(*arguments(made, tmp_path / "killed.safetensors"))
    went_on = len(runs)
    step(*arguments(made, tmp_path / "again.safetensors"))
    assert went_on + done == len(runs) - went_on
    expected = (tmp_path / "whole.safetensors").read_bytes()
    assert (tmp_path / "killed.safetensors").read_bytes() == expected
    assert not state.exists()


@pytest.mark.slow
def test_a_gpu_that_fails_in_the_middle_is_said_and_the_shard_goes_on(made, tmp_path, monkeypatch, capsys):
    from ff_memories.cli import main
    from ff_memories.memories.search import triggers

    out, runs, run = tmp_path / "shard.safetensors", [], triggers.run_batch

    def counted(*a):
        runs.append(1)
        return run(*a)

    def fails(*a):
        if len(runs) == 5:
            raise RuntimeError("CUDA error: unspecified launch failure\nand advice for developers")
        return counted(*a)

    step(*arguments(made, tmp_path / "whole.safetensors"))
    monkeypatch.setattr(triggers, "run_batch", fails)
    with pytest.raises(SystemExit) as ended:
        main(line(arguments(made, out)))
    said = capsys.readouterr().err
    assert ended.value.code == 2 and not out.exists()
    assert "the GPU failed: CUDA error: unspecified launch failure\n" in said and "same command again" in said
    monkeypatch.setattr(triggers, "run_batch", counted)
    assert batches(out.with_name(out.name + ".state")) == 5
    step(*arguments(made, out))
    assert out.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()


@pytest.mark.slow
def test_a_gpu_without_memory_for_the_weights_is_said_in_one_line(made, tmp_path, monkeypatch, capsys):
    from ff_memories.cli import main
    from ff_memories.steps import trigger_shard

    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has 79.19 GiB\nand more")

    monkeypatch.setattr(trigger_shard, "load_model", full)
    with pytest.raises(SystemExit):
        main(line(arguments(made, tmp_path / "shard.safetensors")))
    said = capsys.readouterr().err
    assert "the GPU has too little free memory: CUDA out of memory" in said and "end first" in said
    assert "and more" not in said


@pytest.mark.slow
def test_a_state_made_from_anything_else_is_not_used(made, tmp_path):
    state = kill_when_a_state_is_there(made, tmp_path / "a.safetensors")
    (tmp_path / "b.safetensors.state").write_bytes(state.read_bytes())
    step(*arguments(made, tmp_path / "b.safetensors", **{"batch-tokens": 64, "checkpoint-seconds": 1000}))
    step(*arguments(made, tmp_path / "c.safetensors", **{"batch-tokens": 64}))
    assert (tmp_path / "b.safetensors").read_bytes() == (tmp_path / "c.safetensors").read_bytes()
    (tmp_path / "d.safetensors.state").write_bytes(b"half written")
    step(*arguments(made, tmp_path / "d.safetensors"))
    step(*arguments(made, tmp_path / "e.safetensors"))
    assert (tmp_path / "d.safetensors").read_bytes() == (tmp_path / "e.safetensors").read_bytes()


def test_a_state_is_written_when_it_is_time_and_taken_up_by_what_it_was_made_from(tmp_path, monkeypatch):

    from ff_memories.memories.search import checkpoints
    from ff_memories.memories.search.topk import Entries, TopTriggers

    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    kept = checkpoints.Checkpoint(tmp_path / "shard", "this", every=60)
    best = TopTriggers(2, 3, 2)
    offered = Entries(torch.tensor([0, 2]), torch.tensor([1.5, 2.5]), torch.tensor([7, 9]), torch.tensor([1, 2]))
    best.offer(1, offered)
    written = []
    for now[0] in (159.0, 160.0, 219.0, 220.5):
        kept.step(best, int(now[0]))
        written.append(batches(kept.path) if kept.path.exists() else None)
    assert written == [None, 160, 160, 220]
    for made_from, done in (("this", 220), ("that", 0)):
        again = TopTriggers(2, 3, 2)
        assert checkpoints.Checkpoint(tmp_path / "shard", made_from).resume(again) == done
        assert again.is_new(0) and again.is_new(1) == (made_from == "that")
    kept.remove()
    kept.remove()  # nothing there is nothing to remove
    assert kept.resume(TopTriggers(2, 3, 2)) == 0


def test_a_fingerprint_tells_content_and_choices_apart_and_nothing_else(tmp_path):
    from ff_memories.memories.search.checkpoints import fingerprint

    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"1")
    one = fingerprint([tmp_path / "a"], top=5, keys=None)
    assert one == fingerprint([tmp_path / "b"], keys=None, top=5)
    (tmp_path / "b").write_bytes(b"2")
    assert (
        len({one, fingerprint([tmp_path / "b"], top=5, keys=None), fingerprint([tmp_path / "a"], top=6, keys=None)})
        == 3
    )

"""SIGKILL at random instants of the commands that record, publish, pull, restore and verify a run; then the same again.

Victims are drawn as in kill.py: the command with all that it started, or it alone. The planted run is published in a
checkout of its own; every command begins from a clone in the state in which a user would give it.
"""

import contextlib
import hashlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
from projects import configure, due, publish, restored, run
from running import BIN

from campaigns.trials import Clock, options, record, undisturbed
from ff_memories.workflow import dvc_lock_file
from ff_memories.workflow.runs.run import DEFAULT, Run

TIMES = ("/logs/", "/cost.html", ".snakemake_timestamp")


def cloned(project: Path, folder: Path) -> None:
    subprocess.run(["git", "clone", "-q", project, folder], check=True)


def pulled(project: Path, folder: Path) -> None:
    cloned(project, folder)
    run(folder, "dvc", "pull", "--quiet")


def to_push(project: Path, folder: Path) -> None:
    pulled(project, folder)
    run(folder, "dvc", "remote", "add", "--local", "other", "other")


def whole(project: Path, folder: Path) -> None:
    """Pulled and restored; once, for copies of it."""
    first = project.with_name("restored")
    if not first.exists():
        restored(project, first)
    shutil.copytree(first, folder, symlinks=True)


def changed(project: Path, folder: Path) -> None:
    """A key of the config changed: a figure and the report are due."""
    whole(project, folder)
    configure(folder, "figures.figure4", {"width": 300})


def made(project: Path, folder: Path) -> None:
    """The same, and made by Snakemake, but not recorded yet."""
    changed(project, folder)
    run(folder, "snakemake", "--cores", "2")


COMMANDS: dict[tuple[str, ...], Callable[[Path, Path], object]] = {
    ("dvc", "pull"): cloned,
    ("dvc", "push", "--remote", "other"): to_push,
    ("ff-memories", "restore"): pulled,
    ("ff-memories", "verify", "--seed", "1"): whole,
    ("ff-memories", "adopt"): made,
    ("dvc", "repro"): changed,
}
REMEDIES = ("rm -f .dvc/tmp/rwlock", "git checkout dvc.lock")  # of docs/artefacts.md, where DVC was killed over one
RECORDS = ("adopt", "repro", "restore")  # after which Snakemake has nothing to do


def start(folder: Path, command: tuple[str, ...]) -> subprocess.Popen:
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(folder / "src")}
    with folder.with_suffix(".log").open("a") as log:
        return subprocess.Popen([BIN / command[0], *command[1:]], cwd=folder, env=environment, stdout=log, stderr=log,
                                start_new_session=True)  # fmt: skip


def state(folder: Path) -> dict[str, object]:
    """Return what the command is for: artefacts, lock and remotes; by content, without times."""
    files = [p for part in ("results", "other", "artefacts") for p in (folder / part).rglob("*") if p.is_file()]
    names = {p.relative_to(folder).as_posix(): p for p in files}
    found = {n: hashlib.sha256(p.read_bytes()).hexdigest() for n, p in names.items() if not any(t in n for t in TIMES)}
    with contextlib.chdir(folder):
        return found | {f"dvc.lock: {name}": stage for name, stage in dvc_lock_file.read(Run.read(DEFAULT)).items()}


def strike(process: subprocess.Popen, rng: random.Random) -> str:
    """Kill everything, or the command alone; say what."""
    alone = rng.random() < 0.5
    if alone:
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return "it alone" if alone else "everything"


def orphans(groups: list[int], seconds: float = 120) -> int:
    """Wait for what killed commands left running; kill and count what does not end."""
    end, left = time.monotonic() + seconds, groups
    while left and time.monotonic() < end:
        left = [group for group in left if any(map(living, members(group)))]
        time.sleep(0.2)
    for group in left:
        os.killpg(group, signal.SIGKILL)
    return len(left)


def members(group: int) -> list[psutil.Process]:
    out = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError):
            out += [process] if os.getpgid(process.pid) == group else []
    return out


def living(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def trial(before: Path, after: dict[str, object], seconds: float, command: tuple[str, ...], kills: int, rng) -> dict:
    """Kill the command so many times, give it once more, and compare with one that nobody disturbed."""
    folder = Path(shutil.copytree(before, before.with_name("trial"), symlinks=True))
    struck: Counter[str] = Counter()
    groups, by_hand = [], []
    for _ in range(kills):
        process = start(folder, command)
        try:
            process.wait(rng.uniform(0.2, seconds))
        except subprocess.TimeoutExpired:
            struck[strike(process, rng)] += 1
            groups.append(process.pid)
    ended = start(folder, command).wait() == 0
    for remedy in REMEDIES if not ended and broken(folder) else ():
        subprocess.run(remedy, cwd=folder, shell=True, check=True)
        if not broken(folder):
            by_hand.append(remedy)
            ended = start(folder, command).wait() == 0
            break
    left = orphans(groups)
    now = state(folder)
    differ = sorted(name for name in now.keys() | after.keys() if now.get(name) != after.get(name))
    if any(word in command for word in RECORDS) and due(folder):
        differ.append("Snakemake has something to do")
    shutil.rmtree(folder)
    return {"kills": dict(struck), "finished": ended, "differ": differ, "by_hand": by_hand, "left_running": left}


def broken(folder: Path) -> bool:
    """Whether DVC cannot read a file of its own, which it writes in place."""
    return run(folder, "dvc", "status", check=False).returncode != 0


def main() -> None:
    parser = options()
    parser.set_defaults(trials=12)
    parser.add_argument("--commands", nargs="+", help="words of those to kill, such as repro; left out: all")
    given = parser.parse_args()
    rng, clock, rows = random.Random(given.seed), Clock(given.minutes), []
    chosen = [c for c in COMMANDS if not given.commands or set(c) & set(given.commands)]
    with undisturbed(whole=given.whole) as (place, whole, _):
        (place / "project").mkdir()
        project = publish(whole, place / "project")
        for command in chosen:
            if not clock.left():
                break
            before = place / "-".join(command) / "before"
            before.parent.mkdir()
            COMMANDS[command](project, before)
            reference = Path(shutil.copytree(before, before.with_name("reference"), symlinks=True))
            began = time.monotonic()
            if start(reference, command).wait():
                raise SystemExit(reference.with_suffix(".log").read_text()[-3000:])
            seconds = time.monotonic() - began
            row = {"of": " ".join(command), "seed": given.seed}
            row |= trial(before, state(reference), seconds, command, max(1, given.trials // len(chosen)), rng)
            print(row, f"{seconds:.0f} s undisturbed", flush=True)
            if not row["finished"] or row["differ"]:
                print(before.with_name("trial.log").read_text()[-3000:])
            rows.append(row)
            record("kill", rows, "of", "seed")
            shutil.rmtree(before.parent)


if __name__ == "__main__":
    main()

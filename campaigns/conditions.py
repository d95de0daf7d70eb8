"""The planted run under conditions that should not matter, and on disks that fail; the same command mends it after.

Mounting small and read-only file systems needs root; without it those rows say so.
"""

import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from factories import words
from pipeline import config, run_steps, write_inputs

from campaigns.trials import RESULTS, copied, differing, digests, finish, fresh, options, record, start, undisturbed
from ff_memories import tables
from ff_memories.audit.recompute import tolerances
from ff_memories.audit.recompute.closeness import DIFFERS, MATCH, NEAR_TIE

Row = dict[str, object]


@contextmanager
def mounted(place: Path, *how: str) -> Iterator[bool]:
    """Mount a file system for a while; say whether it could be."""
    place.mkdir(parents=True, exist_ok=True)
    done = os.geteuid() == 0 and not subprocess.run(["mount", *how, str(place)], capture_output=True).returncode
    try:
        yield done
    finally:
        if done:
            subprocess.run(["umount", "--lazy", str(place)], check=True)


def said(folder: Path, words: str) -> bool:
    """Whether the log of the run's last start, or of its steps, says this."""
    logs = [folder.with_suffix(".log"), *(folder / RESULTS / "logs").rglob("*.log")]
    return any(words in log.read_text(encoding="utf-8", errors="replace") for log in logs)


def strangers(place: Path, whole: Path, expected: dict[str, str]) -> Row:
    """Use another hash seed, locale, time zone and home directory."""
    folder = fresh(place, "strangers", whole)
    env = dict(PYTHONHASHSEED="12345", LC_ALL="C", LANG="tr_TR.UTF-8", TZ="Pacific/Kiritimati", HOME=str(place))
    done = finish(folder, **env)
    return {"ok": done and not differing(folder, expected), "found": told(differing(folder, expected))}


def one_core(place: Path, whole: Path, expected: dict[str, str]) -> Row:
    """Use one core instead of two, and thus fewer threads: only near-ties may differ."""
    folder = fresh(place, "one", whole)
    done = finish(folder, "--cores", "1")
    return {"ok": done and not differing(folder, expected), "found": told(differing(folder, expected))}


def two_at_once(place: Path, whole: Path, expected: dict[str, str]) -> Row:
    """Start the same run twice in the same folder."""
    folder = fresh(place, "two", whole)
    both = [start(folder), start(folder)]
    ends = [process.wait() for process in both]
    again = finish(folder)
    differ = differing(folder, expected)
    return {"ok": again and not differ, "found": f"{ends.count(0)} of 2 succeeded; after another start, {told(differ)}"}


def moved(place: Path, whole: Path, expected: dict[str, str]) -> Row:
    """Rename the folder of a finished run: nothing to rerun."""
    folder = copied(place, "moved", whole)
    shutil.move(folder, place / "else where")
    idle = nothing_due(place / "else where")
    return {"ok": idle, "found": "nothing to rerun" if idle else "something to rerun"}


def clock_back(place: Path, whole: Path, expected: dict[str, str]) -> Row:
    """Date every file one day in the future, as if the clock jumped back: nothing to rerun."""
    folder = copied(place, "clock", whole)
    for path in folder.rglob("*"):
        os.utime(path, (time.time() + 86_400,) * 2, follow_symlinks=False)
    idle = nothing_due(folder)
    return {"ok": idle, "found": "nothing to rerun" if idle else "something to rerun"}


def nothing_due(folder: Path) -> bool:
    folder.with_suffix(".log").unlink(missing_ok=True)
    return finish(folder, "-n") and "Nothing to be done" in folder.with_suffix(".log").read_text(encoding="utf-8")


def read_only(place: Path, whole: Path, expected: dict[str, str]) -> Row:
    """Run on a read-only file system, then on a writable one."""
    folder = fresh(place, "read-only", whole)
    with mounted(folder / "results", "-t", "tmpfs", "-o", "ro", "tmpfs") as done:
        if not done:
            return {"ok": None, "found": "needs root"}
        failed = not finish(folder)
        named = said(folder, "Read-only file system")
    again, differ = finish(folder), differing(folder, expected)
    return {
        "ok": failed and named and again and not differ,
        "found": f"rejected with a clear message: {named}; then {told(differ)}",
    }


def full_disk(place: Path, whole: Path, expected: dict[str, str]) -> Row:
    """Run on a full disk that grows with each attempt until there is enough space."""
    folder = fresh(place, "full", whole)
    need = sum(path.stat().st_size for path in (whole / "results").rglob("*") if path.is_file()) // 1024
    with mounted(folder / "results", "-t", "tmpfs", "-o", f"size={need // 20}k", "tmpfs") as done:
        if not done:
            return {"ok": None, "found": "needs root"}
        failures, partial = 0, []
        for part in (20, 6, 3, 1.5):
            resize(folder, int(need // part))
            failures += not finish(folder)
            partial += [p.name for p in folder.rglob("*.partial")]
        resize(folder, 4 * need)
        again, differ = finish(folder), differing(folder, expected)
    found = f"failed {failures} times with {len(partial)} incomplete files; then {told(differ)}"
    return {"ok": failures > 1 and again and not differ and not partial, "found": found}


def full_at_each_step(place: Path, whole: Path, expected: dict[str, str]) -> Row:
    """Run with logs on another disk, on a disk without space for any job's output; then free some space."""
    folder, room, met, wrong = fresh(place, "each", whole), 1 << 20, set[str](), set[str]()
    log, logs = folder.with_suffix(".log"), folder.with_name("each-logs")
    with mounted(folder / "results", "-t", "tmpfs", "-o", f"size={room}k", "tmpfs") as done:
        if not done:
            return {"ok": None, "found": "needs root"}
        (folder / RESULTS).mkdir()
        logs.mkdir()
        (folder / RESULTS / "logs").symlink_to(logs)
        while True:  # the jobs that are ready meet the full disk; there is room for them; the next ones are ready
            log.unlink(missing_ok=True)
            resize(folder, max(4, shutil.disk_usage(folder / "results").used // 1024))  # 0: without limit
            ended = finish(folder, "--keep-going")
            failed = dict(FAILED.findall(log.read_text(encoding="utf-8")))
            resize(folder, room)
            if ended or not failed:
                break
            for outputs, told_ in failed.items():
                made = outputs.split(", ")
                met.add(made[0])
                there = [path for path in made if (folder / path).exists()]
                if there or "No space left" not in (folder / told_).read_text(encoding="utf-8"):
                    wrong.add(made[0])
            wrong |= {p.name for p in folder.rglob("*.partial")}
            if not finish(folder, "--", *(outputs.split(", ")[0] for outputs in failed)):
                wrong |= set(failed)
        again, differ = finish(folder), differing(folder, expected)
    found = f"{len(met)} jobs failed with a clear message and left no files; then {told(differ)}"
    if wrong:
        found = f"of {len(met)} jobs, {sorted(wrong)[:5]} went otherwise"
    return {"ok": again and not differ and not wrong and len(met) > 20, "found": found, "jobs": sorted(met)}


FAILED = re.compile(r"^Error in rule .*:\n(?:    .*\n)*?    output: (.*)\n(?:    .*\n)*?    log: (\S+)", re.MULTILINE)


def resize(folder: Path, kilobytes: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", folder / "results"], check=True)


TABLES = {  # a number of each table, and what it is small or large beside
    "triggers": ("coefficient", "coefficient"),
    "mutations": ("mutated", "coefficient"),
    "values": ("top_probability", "top_probability"),
    "refinement": ("residual_probability", "residual_probability"),
}


def threads(place: Path, whole: Path, expected: dict[str, str]) -> Row:
    """Use two and three threads instead of one, on a random model with four layers: equal up to near-ties."""
    folder = place / "threads"
    folder.mkdir()
    write_inputs(folder, words(400), train=3000, validation=300, decoder_layers=4, decoder_embed_dim=64,
                 decoder_ffn_embed_dim=256, decoder_attention_heads=4, adaptive_input_cutoff="100,200",
                 adaptive_softmax_cutoff="100,200")  # fmt: skip
    settings = config(triggers__top=25, mutations__keys_per_layer=50, mutations__top=25, execution__batch_tokens=2048)
    one = run_steps(folder, settings)
    each, states = [], Counter[str]()
    for number in (2, 3):
        other = run_steps(folder, settings, number, f"threads{number}")
        for name in TABLES:
            found = alike(name, one, other)
            states.update(found)
            each.append(f"{number} threads, {name}: {dict(found)}")
    found = f"of {states.total():,} rows, {states[NEAR_TIE]} are near-ties and {states[DIFFERS]} differ"
    return {"ok": not states[DIFFERS], "found": found, "each": each}


def alike(name: str, one: Path, other: Path) -> Counter[str]:
    """Count rows that agree, that are near-ties (another token or prefix, the same number), and that differ."""
    frames = [tables.read(folder / f"{name}.parquet") for folder in (one, other)]
    if name == "mutations":  # of triggers that did not change places
        triggers = [tables.read(folder / "triggers.parquet") for folder in (one, other)]
        same = triggers[0].join(triggers[1], on=["layer", "key", "rank", "sentence", "position"], how="semi")
        frames = [frame.join(same, on=["layer", "key", "rank"], how="semi", maintain_order="left") for frame in frames]
    if frames[0].shape != frames[1].shape:
        return Counter({DIFFERS: max(frame.height for frame in frames)})
    column, scale = TABLES[name]
    limits = tolerances.of("float32")
    numbers = [frame[column].to_numpy() for frame in frames]
    limit = (limits.tie if name == "triggers" else limits.probability) * frames[0][scale].to_numpy()
    near = np.abs(numbers[0] - numbers[1]) <= limit
    whole = [c for c, kind in frames[0].schema.items() if not kind.is_float()]
    same = np.all([frames[0][c].eq_missing(frames[1][c]).to_numpy() for c in whole], axis=0)
    return Counter({MATCH: int((near & same).sum()), NEAR_TIE: int((near & ~same).sum()), DIFFERS: int((~near).sum())})


def told(differ: list[str]) -> str:
    return "the same bytes" if not differ else f"{len(differ)} files differ: {', '.join(differ[:3])}"


CONDITIONS: list[Callable[[Path, Path, dict[str, str]], Row]] = [
    moved, clock_back, read_only, strangers, two_at_once, one_core, full_disk, full_at_each_step,
    threads,
]  # fmt: skip


def main() -> None:
    parser = options()
    parser.add_argument("--only", nargs="+", choices=[f.__name__ for f in CONDITIONS])
    given = parser.parse_args()
    rows = []
    with undisturbed(whole=given.whole) as (place, whole, expected):
        assert digests(whole) == expected
        for condition in CONDITIONS:
            if not given.only or condition.__name__ in given.only:
                rows.append({"what": condition.__doc__, **condition(place, whole, expected)})
                print(rows[-1], flush=True)
                record("conditions", rows, "what")


if __name__ == "__main__":
    main()

"""SIGKILL at random instants of a run, again and again, the same command after each; then compare all bytes.

Three kinds of victims, drawn at random: the whole process group (as when a machine is switched off), Snakemake alone,
or one of its jobs.
"""

import os
import random
import signal
import subprocess
from collections import Counter

import psutil

from campaigns.trials import Clock, differing, finish, fresh, options, record, start, undisturbed

VICTIMS = ("everything", "Snakemake", "a job")
INSTANTS = {"planted": (2.0, 30.0), "demo": (5.0, 120.0)}  # seconds after the start, from and to


def strike(process: subprocess.Popen, victim: str, rng: random.Random) -> str:
    """Kill, everything where there is no job; say what."""
    jobs = [p for p in psutil.Process(process.pid).children(recursive=True) if p.name() == "ff-memories"]
    if victim == "a job" and jobs:
        rng.choice(jobs).kill()
    elif victim == "Snakemake":
        process.kill()
    else:
        victim = "everything"
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return victim


def main() -> None:
    parser = options()
    parser.add_argument("--of", choices=INSTANTS, default="planted", help="the run to kill")
    given = parser.parse_args()
    rng, clock, rows, kills = random.Random(given.seed), Clock(given.minutes), [], 0
    with undisturbed(given.of, given.whole) as (place, whole, expected):
        while kills < given.trials and clock.left():
            folder = fresh(place, f"killed{len(rows)}", whole)
            struck: Counter[str] = Counter()
            while kills < given.trials and clock.left():
                victim, process = rng.choice(VICTIMS), start(folder)
                try:
                    process.wait(rng.uniform(*INSTANTS[given.of]))
                    break
                except subprocess.TimeoutExpired:
                    pass
                struck[strike(process, victim, rng)] += 1
                kills += 1
            went_on = finish(folder)
            differ = differing(folder, expected)
            row = {"of": given.of, "seed": given.seed, "kills": dict(struck), "finished": went_on, "differ": differ}
            rows.append(row)
            print(row, flush=True)
            record("kill", rows, "of", "seed")


if __name__ == "__main__":
    main()

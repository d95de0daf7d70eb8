"""SIGKILL at random instants of the planted run, again and again, the same command after each; then compare all bytes.

Three kinds of victims, drawn at random: the whole process group (as when a machine is switched off), Snakemake alone,
or one of its jobs.
"""

import os
import random
import signal
import subprocess
from collections import Counter

import psutil
from trials import Clock, differing, finish, fresh, options, record, start, undisturbed

VICTIMS = ("everything", "Snakemake", "a job")
SOONEST, LATEST = 2.0, 30.0  # seconds after the start


def strike(process: subprocess.Popen, victim: str, rng: random.Random) -> bool:
    """Kill; say whether there was anything to kill."""
    jobs = [p for p in psutil.Process(process.pid).children(recursive=True) if p.name() == "ff-memories"]
    if victim == "everything":
        os.killpg(process.pid, signal.SIGKILL)
    elif victim == "Snakemake":
        process.kill()
    elif jobs:
        rng.choice(jobs).kill()
    else:
        return False
    process.wait()
    return True


def main() -> None:
    given = options().parse_args()
    rng, clock, rows, kills = random.Random(given.seed), Clock(given.minutes), [], 0
    with undisturbed() as (place, whole, expected):
        while kills < given.trials and clock.left():
            folder = fresh(place, f"killed{len(rows)}", whole)
            struck: Counter[str] = Counter()
            while kills < given.trials and clock.left():
                victim, process = rng.choice(VICTIMS), start(folder)
                try:
                    process.wait(rng.uniform(SOONEST, LATEST))
                    break
                except subprocess.TimeoutExpired:
                    pass
                if strike(process, victim, rng):
                    struck[victim] += 1
                    kills += 1
                else:
                    process.wait()
            went_on = finish(folder)
            differ = differing(folder, expected)
            rows.append({"kills": dict(struck), "finished": went_on, "differ": differ})
            print(rows[-1], flush=True)
        record("kill", given, rows)


if __name__ == "__main__":
    main()

"""How the trigger pass scales over devices: the plan's estimate beside what it takes, one and two shards at once.

``python -m campaigns.scaling`` runs the demo's trigger pass in eight shards of one thread each, twice, and writes
docs/data/scaling.json, which docs/rehearsal.md shows. What cannot be run on two cores, 8 and 64 at once, follows from
the same formula.
"""

import json
import shutil
import tempfile
import time
from pathlib import Path

import yaml

from campaigns.rehearsal import PAGE, ROOT, SCALING, page, planned, snakemake
from ff_memories.base.hardware.machine import hardware

SHARDS, AT_ONCE = 8, (1, 2)
RULE = "trigger_shard"


def run(folder: Path, *arguments: str) -> float:
    """Run a part of the workflow; return its seconds."""
    begun = time.monotonic()
    done = snakemake(folder, "--set-threads", f"{RULE}=1", *arguments)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return time.monotonic() - begun


def measure(folder: Path) -> dict:
    """Return the plan of the demo run, and the seconds that its shards took."""
    config = yaml.safe_load((ROOT / "config" / "config.yaml").read_text(encoding="utf-8"))
    config["execution"] |= {"device": "cpu", "shards": SHARDS}
    (folder / "paper.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    (folder / "data" / "demo").mkdir(parents=True)
    for name in ("model.pt", "dict.txt"):
        shutil.copy(ROOT / "data" / "demo" / name, folder / "data" / "demo" / name)
    results = folder / "results" / config["run"]
    wanted = [f"results/{config['run']}/shards/{i}-of-{SHARDS}.safetensors" for i in range(1, SHARDS + 1)]
    run(folder, "--", *wanted)
    plan, took = planned(folder / "paper.yaml", folder, threads=1), {}
    begin = run(folder, "-n", "--", *wanted)  # the workflow is read, and nothing is due
    for n in AT_ONCE:
        shutil.rmtree(results / "shards")
        took[n] = run(folder, "--resources", f"gpu={n}", "--", *wanted) - begin
    step = next(step for step in plan["steps"] if step["rule"] == RULE)
    at_once = sorted({*AT_ONCE, *map(int, plan["elapsed"])})
    rounds = {n: -(-SHARDS // n) for n in at_once}
    return {
        "machine": dict(hardware()), "shards": SHARDS, "tokens": plan["tokens"]["train"],
        "estimated": {n: step["seconds"] / SHARDS * rounds[n] for n in at_once}, "measured": took,
    }  # fmt: skip


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder))
    SCALING.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()

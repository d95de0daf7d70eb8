"""Do on one GPU all that only a GPU can show, in parts that can be taken up again.

    make gpu-campaign
    python -m tools.qa.gpu --parts compare-tf32 --again --minutes 9

Each part is a process of its own and has nine minutes. What it found is kept in FOLDER/gpu.json as soon as it ends; a
part that is kept there is not run again. At the end docs/data/gpu.json has all; `make docs-pages` shows it in
docs/cluster.md.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import torch
import yaml

from ff_memories import tables
from ff_memories.audit import compare
from ff_memories.audit.near_equal import tolerances
from ff_memories.base.files import write_whole
from ff_memories.base.job_costs import costs
from ff_memories.base.machine import gpu_present, hardware
from ff_memories.base.progress import duration

ROOT = Path(__file__).parents[2]
DATA = ROOT / "docs" / "data" / "gpu.json"
BIN = Path(sys.executable).parent
LIMIT = 9 * 60  # seconds of one part
TESTS = ("tests/paper/test_second_device.py", "tests/model/test_precision.py", "tests/base/test_machine.py")

Part = Callable[[Path], dict[str, Any]]  # from a folder of its own to what it found


def tests(folder: Path) -> dict[str, Any]:
    """The tests that compare devices."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *TESTS, "-m", "not long"], cwd=ROOT, text=True, capture_output=True
    )
    last = done.stdout.strip().splitlines()[-1]
    failed = re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    return {"said": re.sub(r" in [\d.]+s.*", "", last), "failed": failed, "ok": done.returncode == 0}


def benchmark(tokens: int, precision: str = "float32", only: str = "long_pass") -> Part:
    """Return a part that measures the engine at the paper's dimensions over so many tokens."""

    def run(folder: Path) -> dict[str, Any]:
        from tools.benchmarks.__main__ import main

        out = folder / "benchmark.csv"
        main(["--size", "paper", "--tokens", str(tokens), "--device", "cuda", "--precision", precision,
              "--only", only, "--csv", str(out)])  # fmt: skip
        shown = pl.read_csv(out).select("measure", "tokens", "reached", "unit", "sign", "target", "met")
        return {"rows": shown.to_dicts(), "ok": True}

    return run


def on_the_demo(precision: str, folder: Path) -> dict[str, Any]:
    """Run the demo on the GPU, down to its claims, and compare it with the record, which a CPU made."""
    settings = yaml.safe_load((ROOT / "config" / "config.yaml").read_text(encoding="utf-8"))
    settings["run"] = name = f"demo-{precision}"
    settings["execution"]["device"], settings["extraction"]["precision"] = "cuda", precision
    settings["sensitivity"] = {"choices": "none"}
    path = folder / "gpu.yaml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    begun = time.monotonic()
    command("snakemake", "--cores", "all", "--resources", "gpu=1", "--configfile", path, "--quiet", "all",
            f"results/{name}/tables/claims.parquet")  # fmt: skip
    seconds = time.monotonic() - begun
    compared = command("ff-memories", "compare", "dvc.lock", f"results/{name}", "--json", check=False)
    return summary(json.loads(compared.stdout)) | {"seconds_of_the_run": round(seconds, 1)}


MEASURED = ("triggers", "mutations", "values", "composition", "causal", "removals")


def on_smollm2(precision: str, folder: Path) -> dict[str, Any]:
    """Measure SmolLM2's memories on the GPU, and compare the tables with the record, which a CPU made in float32."""
    found = measured_smollm2(folder, precision)
    return beside_the_record(precision) | found


def measured_smollm2(folder: Path, precision: str) -> dict[str, Any]:
    """Measure SmolLM2's own memories, not those of untrained models; return the seconds of the run and of its jobs."""
    settings = yaml.safe_load((ROOT / "config" / "smollm2.yaml").read_text(encoding="utf-8"))
    settings["run"] = name = f"smollm2-{precision}"
    settings["execution"] |= {"device": "cuda", "shards": 1, "batch_tokens": 65536}
    settings["extraction"]["precision"] = precision
    path = folder / "gpu.yaml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    begun = time.monotonic()
    command("snakemake", *of_smollm2(precision).values(), "--cores", "all", "--resources", "gpu=1", "--configfile",
            path, "--quiet", "all")  # fmt: skip
    seconds = time.monotonic() - begun
    steps = {cost.rule: cost.seconds for cost in costs(ROOT / "results" / name / "logs")}
    return {"seconds_of_the_run": round(seconds, 1), "seconds_of_jobs": steps}


def of_smollm2(precision: str) -> dict[str, str]:
    """Return {table: its file} of what the run measures."""
    return {table: f"results/smollm2-{precision}/tables/{table}.parquet" for table in MEASURED}


def beside_the_record(precision: str) -> dict[str, Any]:
    """Compare SmolLM2's tables with the record's."""
    recorded = compare.opened(ROOT / "runs" / "smollm2" / "dvc.lock")
    files = recorded.tables()
    here = {table: tables.read(files[f"tables/{table}"], table) for table in MEASURED}
    there = {table: tables.read(ROOT / file) for table, file in of_smollm2(precision).items()}
    return summary(answered(here, there, precision))


def answered(here: compare.NamedTables, there: compare.NamedTables, precision: str) -> dict[str, Any]:
    """Compare tables of the CPU with the device's, without recomputing what near-ties leave open."""
    found = compare.compare_tables(here, there, tolerances(precision))  # type: ignore[arg-type]
    return {
        "answer": "different" if any(o.different for o in found.values()) else "equal",
        "tables": {
            name.removeprefix("tables/"): {"different": o.different, "near_ties": o.near_ties, "within": o.within}
            for name, o in found.items()
        },
    }


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """Return what a comparison found, as much as is kept."""
    kept = {
        name: {
            "different": len(table["different"]),
            "first": table["different"][:1],
            "near_ties": table["near_ties"],
            "off": sum(table["within"].values()),
        }
        for name, table in found["tables"].items()
    }
    return {"answer": found["answer"], "summary": found.get("summary", ""), "tables": kept, "ok": True}


def rehearsed(folder: Path) -> dict[str, Any]:
    """Rehearse the paper's run: its architecture, formats and file names, from mirrors that fail to the report."""
    from tools.qa.rehearsal import FULL, rehearse

    refused, done, asked, seconds = rehearse(folder, FULL)
    ok = bool(refused.returncode) and not done.returncode
    return {"refused_seconds": round(seconds[0]), "seconds_of_the_run": round(seconds[1]), "requests": len(asked),
            "said": "" if ok else done.stderr[-2000:], "ok": ok}  # fmt: skip


PARTS: dict[str, tuple[Part, str]] = {  # by name: the part, and what it does
    "tests": (tests, "the tests that compare devices"),
    **{
        f"compare-{precision}": (
            partial(on_the_demo, precision), f"all experiments in {precision}, compared with float32 on the CPU"
        )
        for precision in ("float32", "tf32", "bfloat16")
    },
    **{
        f"smollm2-{precision}": (
            partial(on_smollm2, precision),
            f"SmolLM2's experiments in {precision}, compared with the record, float32 on a CPU",
        )
        for precision in ("float32", "bfloat16")
    },
    **{
        f"pass-{millions:g}M-{precision}": (
            benchmark(int(millions * 1e6), precision),
            f"the trigger pass alone, {millions:g}M tokens, {precision}: speed, memory, share of the peak",
        )
        for millions, precision in (
            (0.5, "float32"), (1, "tf32"), (2, "bfloat16"), (10, "float32"), (10, "tf32"), (10, "bfloat16"),
            (100, "tf32"), (100, "bfloat16"),
        )
    },
    "benchmark-1M": (benchmark(1_000_000, only="trigger_pass"), "the engine at the paper's dimensions, 1M"),
    "rehearsal": (rehearsed, "rehearse the paper's run"),
}  # fmt: skip


def command(*arguments: object, check: bool = True) -> "subprocess.CompletedProcess[str]":
    """Run a command of this environment in the project."""
    path = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [str(BIN / str(arguments[0])), *map(str, arguments[1:])], cwd=ROOT, text=True, capture_output=True,
        env={**os.environ, **path},
    )  # fmt: skip
    if check and done.returncode:
        raise RuntimeError(f"{arguments[0]} ended with {done.returncode}: {done.stderr[-3000:]}")
    return done


def inside(name: str, folder: Path) -> None:
    """Carry out one part in this process, and write what it found to FOLDER/found.json."""
    found, _ = PARTS[name]
    result = found(folder)
    (folder / "found.json").write_text(json.dumps(result), encoding="utf-8")


def run_part(name: str, folder: Path) -> dict[str, Any]:
    """Run one part in a process of its own; return what it found, or why it did not end."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "found.json").unlink(missing_ok=True)
    begun = time.monotonic()
    process = [sys.executable, "-m", "tools.qa.gpu", "--inside", name, "--folder", str(folder)]
    with (folder / "log").open("w", encoding="utf-8") as log:
        running = subprocess.Popen(process, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        try:
            code = running.wait(LIMIT)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)  # what it started, too
            running.wait()
    seconds = round(time.monotonic() - begun, 1)
    if (folder / "found.json").exists():
        return json.loads((folder / "found.json").read_text(encoding="utf-8")) | {"seconds": seconds}
    last = (folder / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    why = f"not done within {LIMIT // 60} minutes" if code is None else " ".join(last) or f"ended with {code}"
    return {"ok": False, "said": why, "seconds": seconds}


def machine() -> dict[str, Any]:
    """Return what the campaign runs on."""
    memory = torch.cuda.get_device_properties(0).total_memory
    device = f"{torch.cuda.get_device_name()} ({memory / 1e9:.0f} GB)"
    return {"device": device, "host": dict(hardware()), "torch": torch.__version__}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "gpu-campaign", help="where it works and keeps what it found"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--minutes", type=float, default=40, help="begin no further part after so long")
    parser.add_argument("--again", action="store_true", help="also those that are done")
    parser.add_argument("--inside", choices=PARTS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        inside(given.inside, given.folder.absolute())
        return 0
    if not gpu_present() or not torch.cuda.is_available():
        sys.exit("error: there is no GPU here")
    kept, begun = given.folder / "gpu.json", time.monotonic()
    record = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {"parts": {}}
    record["machine"] = machine()
    print(f"on {record['machine']['device']}", flush=True)
    for name in given.parts:
        if name in record["parts"] and record["parts"][name]["ok"] and not given.again:
            continue
        if time.monotonic() - begun > 60 * given.minutes:
            print(f"{name}: left for the next call")
            continue
        print(f"{name}: ", end="", flush=True)
        found = run_part(name, given.folder.absolute() / name)
        record["parts"] = {n: found if n == name else record["parts"].get(n) for n in PARTS
                           if n == name or n in record["parts"]}  # fmt: skip
        given.folder.mkdir(parents=True, exist_ok=True)
        write_whole(kept, json.dumps(record, indent=1) + "\n")
        print("done" if found["ok"] else f"failed: {found.get('said', '')}", duration(found["seconds"]), flush=True)
    write_whole(DATA, json.dumps(record, indent=1) + "\n")
    print(DATA)
    return 0 if all(found["ok"] for found in record["parts"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Do on one GPU all that only a GPU can show, in parts that can be taken up again.

    make gpu-campaign
    python -m qa.gpu --parts compare-tf32 --again --minutes 9

Each part is a process of its own and has nine minutes. What it found is kept in FOLDER/gpu.json as soon as it ends; a
part that is kept there is not run again. At the end docs/gpu.md is written. Where there is no GPU, every part runs at
small size: the model on the second device of the tests, whole workflows on the CPU; the page says so.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import torch
import yaml

from benchmarks.measures import OURS, SHARE
from ff_memories import tables
from ff_memories.audit import compare, run_files
from ff_memories.audit.recompute import tolerances
from ff_memories.base.files import write_whole
from ff_memories.base.machine import gpu_present, hardware
from ff_memories.base.progress import duration

ROOT = Path(__file__).parents[1]
DATA, PAGE = ROOT / "docs" / "data" / "gpu.json", ROOT / "docs" / "gpu.md"
PROFILE = ROOT / "docs" / "data" / "gpu-profile.md"  # where a card's time goes, read off profiles by hand
BIN = Path(sys.executable).parent
LIMIT = 9 * 60  # seconds of one part
TESTS = ("tests/memories/test_second_device.py", "tests/memories/test_precision.py", "tests/base/test_gpu_locks.py")
SECOND = "the second device of the tests, which is this machine's CPU"


@dataclass(frozen=True)
class At:
    """Where a part runs: on a GPU or not, and a folder of its own."""

    gpu: bool
    folder: Path


Part = Callable[[At], dict[str, Any]]


def tests(at: At) -> dict[str, Any]:
    """The tests that compare devices: on a real one, too, where there is one."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *TESTS, "-m", "not long"], cwd=ROOT, text=True, capture_output=True
    )
    last = done.stdout.strip().splitlines()[-1]
    failed = re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    return {"said": re.sub(r" in [\d.]+s.*", "", last), "failed": failed, "ok": done.returncode == 0}


def benchmark(tokens: int, precision: str = "float32", only: tuple[str, ...] = ()) -> Part:
    """Return a part that measures the engine at the paper's dimensions over so many tokens."""

    def run(at: At) -> dict[str, Any]:
        from benchmarks.__main__ import main

        out = at.folder / "benchmark.parquet"
        size = ["--size", "paper", "--tokens", tokens] if at.gpu else ["--size", "quick", "--tokens", 3000]
        arguments = [*size, "--device", "cuda", "--precision", precision, "--benchmark", out]
        main([*map(str, arguments), *(["--rounds", "1"] if not at.gpu else []), *(["--only", *only] if only else [])])
        rows = tables.read(out).filter(~pl.col("unit").is_in([SHARE, OURS]))
        shown = rows.select("measure", "tokens", "reached", "unit", "sign", "target", "met")
        return {"rows": shown.to_dicts(), "ok": True}

    return run


def compared(precision: str) -> Part:
    """Return a part that runs the experiments on the device and compares them with the CPU's."""

    def run(at: At) -> dict[str, Any]:
        return on_the_demo(at, precision) if at.gpu else on_a_small_model(at, precision)

    return run


def on_the_demo(at: At, precision: str) -> dict[str, Any]:
    """Run the demo on the GPU, down to its claims, and compare it with the record, which a CPU made."""
    settings = yaml.safe_load((ROOT / "config" / "config.yaml").read_text(encoding="utf-8"))
    settings["run"] = name = f"demo-{precision}"
    settings["execution"]["device"], settings["extraction"]["precision"] = "cuda", precision
    settings["sensitivity"] = {"choices": "none"}
    path = at.folder / "gpu.yaml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    begun = time.monotonic()
    command("snakemake", "--cores", "all", "--resources", "gpu=1", "--configfile", path, "--quiet", "all",
            f"results/{name}/tables/claims.parquet")  # fmt: skip
    seconds = time.monotonic() - begun
    said = command("ff-memories", "compare", "dvc.lock", f"results/{name}", "--json", check=False)
    return told(json.loads(said.stdout)) | {"seconds_of_the_run": round(seconds, 1)}


def real_model(precision: str) -> Part:
    """Return a part that runs SmolLM2's experiments on the device and compares them with the CPU's record."""

    def run(at: At) -> dict[str, Any]:
        return on_smollm2(at, precision) if at.gpu else on_a_small_model(at, precision)

    return run


MEASURED = ("triggers", "mutations", "values", "composition", "causal", "removals")


def on_smollm2(at: At, precision: str) -> dict[str, Any]:
    """Measure SmolLM2's memories on the GPU, and compare the tables with the record, which a CPU made in float32."""
    found = measured_smollm2(at.folder, precision)
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
    logs = sorted((ROOT / "results" / name / "logs").rglob("*.tsv"))
    steps = {log.relative_to(ROOT / "results" / name / "logs").as_posix().removesuffix(".tsv"):
             float(pl.read_csv(log, separator="\t")["s"][0]) for log in logs}  # fmt: skip
    return {"seconds_of_the_run": round(seconds, 1), "seconds_of_jobs": steps}


def of_smollm2(precision: str) -> dict[str, str]:
    """Return {table: its file} of what the run measures."""
    return {table: f"results/smollm2-{precision}/tables/{table}.parquet" for table in MEASURED}


def beside_the_record(precision: str) -> dict[str, Any]:
    """Compare SmolLM2's tables with the record's."""
    with run_files.opened(ROOT / "runs" / "smollm2" / "dvc.lock", None) as recorded:
        files = recorded.tables()
        here = {table: tables.read(files[f"tables/{table}"], table) for table in MEASURED}
    there = {table: tables.read(ROOT / file) for table, file in of_smollm2(precision).items()}
    return told(answered(here, there, precision))


def on_a_small_model(at: At, precision: str) -> dict[str, Any]:
    """Run all steps of a small model on the CPU in float32 and on the device, and compare the tables."""
    from factories import words
    from pipeline import config, run_steps, write_inputs

    write_inputs(at.folder, words(44))
    settings = lambda kind: config(extraction__precision=kind, execution__device="auto")
    here = run_steps(at.folder, settings("float32"), out="here", device="cpu")
    there = run_steps(at.folder, settings(precision), out="there", device="cuda")
    read = lambda out: {
        f"tables/{p.stem}": tables.read(p) for p in sorted(out.glob("*.parquet")) if p.stem in tables.TABLES
    }
    return told(answered(read(here), read(there), precision))


def answered(here: compare.NamedTables, there: compare.NamedTables, precision: str) -> dict[str, Any]:
    """Compare tables of the CPU with the device's, without recomputing what near-ties leave open."""
    found = compare.compare_tables(here, there, tolerances.of(precision))  # type: ignore[arg-type]
    return {
        "answer": "different" if any(o.different for o in found.values()) else "equal",
        "tables": {
            name.removeprefix("tables/"): {"different": o.different, "near_ties": o.near_ties, "within": o.within}
            for name, o in found.items()
        },
    }


def told(found: dict[str, Any]) -> dict[str, Any]:
    """Return what a comparison found, as much as the page shows."""
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


def rehearsed(at: At) -> dict[str, Any]:
    """Rehearse the paper's run: its architecture, formats and file names, from mirrors that fail to the report."""
    from qa.rehearsal import FULL, TINY, rehearse

    size, sentences = (FULL, 150) if at.gpu else (TINY, 40)
    targets = () if at.gpu else ("--", "results/paper/tables/triggers.parquet")
    refused, done, asked, seconds = rehearse(at.folder, size, sentences=sentences, targets=targets)
    ok = bool(refused.returncode) and not done.returncode
    return {"refused_seconds": round(seconds[0]), "seconds_of_the_run": round(seconds[1]), "requests": len(asked),
            "said": "" if ok else done.stderr[-2000:], "ok": ok}  # fmt: skip


ALONE = ("long_pass",)
PARTS: dict[str, Part] = {
    "tests": tests,
    "compare-float32": compared("float32"),
    "compare-tf32": compared("tf32"),
    "compare-bfloat16": compared("bfloat16"),
    "smollm2-float32": real_model("float32"),
    "smollm2-bfloat16": real_model("bfloat16"),
    "floors": benchmark(200_000, only=("floors",)),
    "pass-500k-float32": benchmark(500_000, only=ALONE),
    "pass-1M-tf32": benchmark(1_000_000, "tf32", ALONE),
    "pass-2M-bfloat16": benchmark(2_000_000, "bfloat16", ALONE),
    "pass-10M-tf32": benchmark(10_000_000, "tf32", ALONE),
    "pass-10M-bfloat16": benchmark(10_000_000, "bfloat16", ALONE),
    "benchmark-1M": benchmark(1_000_000),
    "benchmark-10M": benchmark(10_000_000, only=("trigger_pass",)),
    "benchmark-10M-growth": benchmark(10_000_000, only=("growth",)),
    "pass-10M-float32": benchmark(10_000_000, only=ALONE),
    "pass-100M-tf32": benchmark(100_000_000, "tf32", ALONE),
    "pass-100M-bfloat16": benchmark(100_000_000, "bfloat16", ALONE),
    "rehearsal": rehearsed,
}


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
    at = At(gpu_present() and torch.cuda.is_available(), folder)
    if at.gpu or name in ("tests", "rehearsal"):  # these bring their device along, or need none
        found = PARTS[name](at)
    else:
        from second_device import SecondDevice

        tempfile.tempdir = str(folder)  # of the locks
        with SecondDevice():
            found = PARTS[name](at)
    (folder / "found.json").write_text(json.dumps(found), encoding="utf-8")


def run_part(name: str, folder: Path) -> dict[str, Any]:
    """Run one part in a process of its own; return what it found, or why it did not end."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "found.json").unlink(missing_ok=True)
    begun = time.monotonic()
    process = [sys.executable, "-m", "qa.gpu", "--inside", name, "--folder", str(folder)]
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
    host = dict(hardware())
    if gpu_present() and torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        name = f"{torch.cuda.get_device_name()} ({properties.total_memory / 1e9:.0f} GB)"
        return {"gpu": True, "device": name, "host": host, "torch": torch.__version__}
    return {"gpu": False, "device": SECOND, "host": host, "torch": torch.__version__}


HEAD = """\
# Results on a GPU

`make gpu-campaign` runs everything that needs a GPU and writes this page. It takes at most 40 minutes on one GPU. Run
`make setup inputs` first. The campaign has parts of at most nine minutes each; run it again to resume after the last
complete part.

"""
WITHOUT = """\
**Not run on a GPU yet.** The table shows only that every part of the campaign works at small size. The model ran on
{device}, and whole workflows ran on the CPU. No GPU kernel ran, so
speed, memory use and differences from a CPU are unknown.

"""


def page(record: dict[str, Any]) -> str:
    """Return docs/gpu.md, as it follows from what was found."""
    host, parts = record["machine"]["host"], record["parts"]
    text = HEAD + (
        f"Run on {record['machine']['device']}, {host['processor']}, {host['cores']} cores, torch "
        f"{record['machine']['torch']}.\n\n"
        if record["machine"]["gpu"] else WITHOUT.format(device=record["machine"]["device"])
    )  # fmt: skip
    text += "| part | what it does | complete | time |\n|---|---|---|---|\n"
    for name, part in PARTS.items():
        found = parts.get(name)
        state = "not yet" if found is None else "yes" if found["ok"] else f"**no**: {found.get('said', '')[:200]}"
        took = duration(found["seconds"]) if found else ""
        text += f"| {name} | {says(part, name)} | {state} | {took} |\n"
    for name, found in parts.items() if record["machine"]["gpu"] else ():
        if "said" in found and found["ok"]:
            text += f"\n## {name}\n\n{found['said'] or 'It ran down to the report.'}\n"
        if "tables" in found:
            text += f"\n## {name}: {found['answer']}\n\n" + (f"{found['summary']}\n\n" if found["summary"] else "")
            text += "| table | differences | the first | near-ties |\n|---|---|---|---|\n"
            for table, told_ in found["tables"].items():
                text += f"| {table} | {told_['different']} | {' '.join(told_['first'])} | {told_['near_ties']} |\n"
        if "seconds_of_jobs" in found:
            text += f"\nThe run took {found['seconds_of_the_run']:g} s. Its jobs, with their start:\n\n"
            text += "| job | time |\n|---|---|\n"
            text += "".join(f"| {job} | {seconds:.1f} s |\n" for job, seconds in found["seconds_of_jobs"].items())
        if "rows" in found:
            text += f"\n## {name}\n\n| measure | over | target | reached |\n|---|---|---|---|\n"
            for row in found["rows"]:
                target = "–" if row["target"] is None else f"{row['sign']} {row['target']:g}"
                unit = "" if row["unit"] in ("ratio", "power") else f" {row['unit']}"
                mark = "**" if row["met"] is False else ""
                text += (
                    f"| {row['measure']} | {row['tokens']:,} | {target} | {mark}{row['reached']:.4g}{unit}{mark} |\n"
                )
    return text + "\n" + PROFILE.read_text(encoding="utf-8")


def says(part: Part, name: str) -> str:
    """Return what a part does, in words."""
    kind, _, rest = name.partition("-")
    told_ = {
        "floors": "each step of a gated model, over the products that its result needs",
        "compare": f"all experiments in {rest}, compared with float32 on the CPU",
        "smollm2": f"SmolLM2's experiments in {rest}, compared with the record, float32 on a CPU",
        "benchmark": f"the engine at the paper's dimensions, {rest.replace('-', ', ')}",
        "pass": f"the trigger pass alone, {rest.replace('-', ' tokens, ')}: speed, memory, share of the peak",
    }  # fmt: skip
    return told_.get(kind) or (part.__doc__ or "").partition(".")[0].partition(":")[0].lower()


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
    kept, begun = given.folder / "gpu.json", time.monotonic()
    record = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {"parts": {}}
    if record.get("machine", {}).get("gpu") is not machine()["gpu"]:
        record = {"parts": {}}
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
        print(
            ("done" if found["ok"] else f"failed: {found.get('said', '')}") + f", {duration(found['seconds'])}",
            flush=True,
        )
    if not record["machine"]["gpu"]:  # numbers that say nothing
        shown = ("ok", "seconds", "said")
        record["parts"] = {n: {k: v for k, v in found.items() if k in shown} for n, found in record["parts"].items()}
    write_whole(DATA, json.dumps(record, indent=1) + "\n")
    write_whole(PAGE, page(record))
    print(PAGE)
    return 0 if all(found["ok"] for found in record["parts"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Peak memory: of the demo run, of a text fifty times as long, and of ten runs in one process.

The long text is drawn with a seed from the demo's dictionary, as many words as the demo's text has, and fifty times as
many. On both, the text is cut and the demo's model runs over one shard of the same length; a model of small width runs
over all of it, so that whatever a pass might gather would show. Peaks of single steps are what the system counts
(``ru_maxrss``); those of the demo are the sum over all its processes, looked at twice a second.
"""

import gc
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import psutil
import yaml
from conftest import BIN, ROOT
from factories import write_checkpoint
from pipeline import config, step
from trials import PREPARE, options, record, start

LIMIT = 2048  # MiB
WORDS, TIMES = 800_000, 50
PER_TOKEN = {"corpus": 40, "trigger-shard": 16, "triggers": 16}  # bytes more that each more token of the text may take
RUNS, GROWTH = 10, 1.05  # what the last run may hold, relative to the second
MIB = 1 << 20


def watched(process: subprocess.Popen) -> float:
    """Wait for a run; return the most MiB that all its processes held together."""
    most, whole = 0, psutil.Process(process.pid)
    while process.poll() is None:
        held = 0
        for one in [whole, *whole.children(recursive=True)]:
            try:
                held += one.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        most = max(most, held)
        time.sleep(0.5)
    return most / MIB


def demo(folder: Path) -> list[dict]:
    """Run the demo where it was not run yet."""
    if folder.exists():
        raise SystemExit(f"{folder}: is there already; the demo's memory is measured over a whole run")
    folder.mkdir()
    PREPARE["demo"](folder)
    process = start(folder)
    together = watched(process)
    if process.returncode:
        raise SystemExit(folder.with_suffix(".log").read_text()[-3000:])
    jobs = {p.relative_to(folder / "results/demo/logs").as_posix()[:-4]: rss(p) for p in
            (folder / "results/demo/logs").rglob("*.tsv")}  # fmt: skip
    most = max(jobs, key=jobs.get)
    return [
        {"what": f"the largest of the demo's {len(jobs)} jobs: {most}", "peak_mib": round(jobs[most])},
        {"what": "the demo, all processes together", "peak_mib": round(together)},
    ]


def rss(benchmark: Path) -> float:
    names, values = (line.split("\t") for line in benchmark.read_text().splitlines()[:2])
    found = dict(zip(names, values, strict=True))["max_rss"]
    return float(found) if found not in ("-", "NA") else 0.0


def write_long(path: Path, types: list[str], words: int, rng: random.Random) -> None:
    """Write sentences of 3 to 30 words, the more frequent the earlier they stand in the dictionary."""
    weights = list(itertools.accumulate(1 / (n + 10) for n in range(len(types))))
    with path.open("w", encoding="utf-8") as file:
        while words > 0:
            drawn = iter(rng.choices(types, cum_weights=weights, k=20_000))
            while body := list(itertools.islice(drawn, rng.randint(3, 30))):
                file.write(" ".join(body) + " .\n")
            words -= 20_000


def peak(*arguments: object) -> float:
    """Run a step; return its peak in MiB."""
    process = subprocess.Popen([BIN / "ff-memories", *map(str, arguments)])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{arguments[0]} failed")
    return usage.ru_maxrss / 1024


def prepare(folder: Path, seed: int) -> None:
    """Convert the demo's model and a small one of the same words; write the texts and a config."""
    types = [line.rpartition(" ")[0] for line in (ROOT / "data/demo/dict.txt").read_text("utf-8").splitlines()]
    plain = [word for word in types if word.isalpha()]
    rng = random.Random(seed)
    for name, times in (("once", 1), ("long", TIMES)):
        write_long(folder / f"{name}.txt", plain, WORDS * times, rng)
    write_long(folder / "validation.txt", plain, 20_000, rng)
    settings = config(run="memory", corpus__segmenter="line", triggers__top=50, mutations__keys_per_layer=5)
    (folder / "my.yaml").write_text(yaml.safe_dump(settings))
    cut = f"{len(types) // 2}"
    write_checkpoint(folder / "small.pt", types, decoder_layers=1, decoder_embed_dim=8, decoder_ffn_embed_dim=16,
                     decoder_attention_heads=1, adaptive_input_cutoff=cut, adaptive_softmax_cutoff=cut)  # fmt: skip
    for name, path in (("demo", ROOT / "data/demo/model.pt"), ("small", folder / "small.pt")):
        step_model(folder, name, path)


def step_model(folder: Path, name: str, checkpoint: Path) -> None:
    peak("model", "--config", folder / "my.yaml", "--checkpoint", checkpoint, "--dictionary",
         ROOT / "data/demo/dict.txt", *model(folder, name), "--card", folder / f"{name}.card.json")  # fmt: skip


def model(folder: Path, name: str) -> list[object]:
    return ["--weights", folder / f"{name}.safetensors", "--description", folder / f"{name}.json"]


EXECUTION = ["--device", "cpu", "--threads", 2, "--batch-tokens", 4096]


def lengths(folder: Path) -> list[dict]:
    """Measure the steps that read the whole text, on the text and on the long one."""
    found: dict[str, list[float]] = {}
    for name, times in (("once", 1), ("long", TIMES)):
        for what, mib in peaks(folder, name, times):
            print(name, what, round(mib), flush=True)
            found.setdefault(what, []).append(mib)
    rows = []
    for what, (once, long) in found.items():
        more = (long - once) * MIB / (WORDS * (TIMES - 1))
        most = PER_TOKEN[what.split(",")[0]]
        limit, ok = f"{LIMIT:,}; {most} bytes more a word: {more:.1f}", long < LIMIT and more <= most
        rows.append({"what": what, "peak_mib": round(once), "long_mib": round(long), "limit": limit, "ok": ok})
    return rows


def peaks(folder: Path, name: str, times: int) -> Iterator[tuple[str, float]]:
    """Yield what was run on a text, and its peak."""
    config_, corpus = ["--config", folder / "my.yaml"], ["--corpus", folder / f"{name}.corpus.safetensors"]
    texts = ["--train", folder / f"{name}.txt", "--validation", folder / "validation.txt"]
    about = ["--dictionary", ROOT / "data/demo/dict.txt", "--card", folder / "demo.card.json"]
    made = ["--sentences", folder / name / "sentences.parquet", "--counts", folder / name / "corpus.parquet"]
    yield "corpus", peak("corpus", *config_, *texts, *about, *corpus, *made)
    passes = [
        ("demo", "the demo's model, one shard", f"1-of-{4 * times}"),
        ("small", "a small model, all the text", "1-of-1"),
    ]
    for which, says, shard in passes:
        out = folder / name / which
        lists = out / f"{shard}.safetensors"
        given = [*config_, *model(folder, which), *EXECUTION, *corpus]
        yield f"trigger-shard, {says}", peak("trigger-shard", *given, "--shard", shard, "--out", lists)
        made = ["--triggers", out / "triggers.parquet", "--counts", out / "counts.parquet"]
        yield f"triggers, {says}", peak("triggers", *config_, *corpus, "--shards", lists, *made)


def repeated(folder: Path) -> list[dict]:
    """Run trigger pass, mutations and values again and again in this process."""
    config_, corpus = ["--config", folder / "my.yaml"], ["--corpus", folder / "once.corpus.safetensors"]
    out, held = folder / "repeated", []
    common = [*config_, *model(folder, "demo"), *EXECUTION, *corpus]
    triggers = ["--triggers", out / "triggers.parquet"]
    for _ in range(RUNS):
        shutil.rmtree(out, ignore_errors=True)
        step("trigger-shard", *common, "--shard", "1-of-64", "--out", out / "shard.safetensors")
        step(
            "triggers",
            *config_,
            *corpus,
            "--shards",
            out / "shard.safetensors",
            *triggers,
            "--counts",
            out / "t.parquet",
        )
        step("mutations", *common, *triggers, "--mutations", out / "mutations.parquet", "--counts", out / "m.parquet")
        step("values", *common, *triggers, "--values", out / "values.parquet")
        gc.collect()
        held.append(round(psutil.Process().memory_info().rss / MIB))
        print(held, flush=True)
    what = f"{RUNS} times trigger pass, mutations and values in one process: after the second, and after the last"
    row = {"what": what, "peak_mib": held[1], "long_mib": held[-1], "held": held, "limit": f"{GROWTH - 1:.0%} more"}
    return [{**row, "ok": held[-1] <= GROWTH * held[1]}]


def main() -> None:
    parser = options()
    parser.add_argument("--parts", nargs="+", choices=["demo", "text"], default=["text"])
    given = parser.parse_args()
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    if "demo" in given.parts:
        rows = demo(given.whole)
        record(
            "memory",
            [{**row, "part": "demo", "limit": f"{LIMIT:,}", "ok": row["peak_mib"] < LIMIT} for row in rows],
            "part",
        )
    if "text" in given.parts:
        with tempfile.TemporaryDirectory(prefix="faults-") as place:
            prepare(Path(place), given.seed)
            record("memory", [{**row, "part": "text"} for row in lengths(Path(place))], "part")
            record("memory", [{**row, "part": "repeated"} for row in repeated(Path(place))], "part")


if __name__ == "__main__":
    main()

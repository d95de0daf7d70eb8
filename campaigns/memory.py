"""Peak memory: of the demo run, of a text fifty times as long, and of ten runs in one process.

The long text is drawn with a seed from the demo's dictionary: as many words as the demo's text has, and fifty times as
many. Both are cut, and the demo's model runs over one shard of the same length of each; a model of small width runs
over the whole short text and over ten times as much of the long one, so that whatever a pass might gather would show.
Peaks of steps are what the system counts (``ru_maxrss``); those of the demo are the recorded run's.
"""

import gc
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import yaml
from factories import write_checkpoint
from pipeline import config, step
from running import BIN, ROOT

from campaigns.trials import options, record

LIMIT = 2048  # MiB
WORDS, TIMES = 800_000, 50
PER_TOKEN = {"corpus": 20, "trigger-shard": 12, "triggers": 12}  # bytes more that each more token of the text may take
RUNS, GROWTH = 10, 1.05  # what the last run may hold, relative to the second
MIB = 1 << 20


def demo() -> list[dict]:
    """Say what the recorded demo run took, by Snakemake's benchmark files, of which machines.json keeps the largest."""
    rules = json.loads((ROOT / "machines.json").read_text(encoding="utf-8"))
    peaks = [(row["peak_mib"], name) for name, row in rules.items() if row["peak_mib"]]
    (most, name), others = max(peaks), sorted(peaks)[-2:]
    rows = [(f"the largest of the demo's {sum(row['jobs'] for row in rules.values())} jobs: {name}", most)]
    rows += [("the two largest together, should they ever run at once", sum(peak for peak, _ in others))]
    return [{"what": what, "peak_mib": round(peak), "limit": f"{LIMIT:,}", "ok": peak < LIMIT} for what, peak in rows]


def write_long(path: Path, types: list[str], words: int, rng: np.random.Generator) -> None:
    """Write sentences of 3 to 30 words, the more frequent the earlier they stand in the dictionary."""
    weights, every = 1 / (np.arange(len(types)) + 10), np.array(types, dtype=object)
    with path.open("w", encoding="utf-8") as file:
        while words > 0:
            drawn = every[rng.choice(len(types), min(words, 400_000), p=weights / weights.sum())]
            ends = np.cumsum(rng.integers(3, 31, len(drawn) // 16))
            for body in np.split(drawn, ends[ends < len(drawn)]):
                file.write(" ".join(body) + " .\n")
            words -= len(drawn)


def peak(*arguments: object) -> float:
    """Run a step; return its peak in MiB."""
    process = subprocess.Popen([BIN / "ff-memories", "step", *map(str, arguments)])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{arguments[0]} failed")
    return usage.ru_maxrss / 1024


def prepare(folder: Path, seed: int) -> None:
    """Convert the demo's model and a small one of the same words; write the texts and a config."""
    types = [line.rpartition(" ")[0] for line in (ROOT / "data/demo/dict.txt").read_text("utf-8").splitlines()]
    plain = [word for word in types if word.isalpha()]
    rng = np.random.default_rng(seed)
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
         ROOT / "data/demo/dict.txt", *model(folder, name), "--info", folder / f"{name}.info.json")  # fmt: skip


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
        limit, ok = f"{LIMIT:,} + {most} bytes per extra word (measured: {more:.1f})", long < LIMIT and more <= most
        rows.append({"what": what, "peak_mib": round(once), "long_mib": round(long), "limit": limit, "ok": ok})
    return rows


def texts(folder: Path, name: str) -> list[object]:
    files = ["--train", folder / f"{name}.txt", "--validation", folder / "validation.txt"]
    return [*files, "--dictionary", ROOT / "data/demo/dict.txt", "--info", folder / "demo.info.json"]


def counted(folder: Path, name: str) -> list[object]:
    return ["--sentences", folder / name / "sentences.parquet", "--counts", folder / name / "corpus.parquet"]


def peaks(folder: Path, name: str, times: int) -> Iterator[tuple[str, float]]:
    """Yield what was run on a text, and its peak."""
    config_, corpus = ["--config", folder / "my.yaml"], ["--corpus", folder / f"{name}.corpus.safetensors"]
    yield "corpus", peak("corpus", *config_, *texts(folder, name), *corpus, *counted(folder, name))
    passes = [
        ("demo", "the demo's model, one shard", f"1-of-{4 * times}"),
        ("small", "a small model, ten times the words in one go", "1-of-1" if times == 1 else f"1-of-{times // 10}"),
    ]
    for which, says, shard in passes:
        out = folder / name / which
        lists = out / f"{shard}.safetensors"
        given = [*config_, *model(folder, which), *EXECUTION, *corpus]
        yield f"trigger-shard, {says}", peak("trigger-shard", *given, "--shard", shard, "--lists", lists)
        made = ["--triggers", out / "triggers.parquet", "--counts", out / "counts.parquet"]
        yield f"triggers, {says}", peak("triggers", *config_, *corpus, "--shards", lists, *made)


def repeated(folder: Path) -> list[dict]:
    """Run trigger pass, mutations and values again and again in this process."""
    config_, corpus = ["--config", folder / "my.yaml"], ["--corpus", folder / "short.corpus.safetensors"]
    out, held = folder / "short", []
    shutil.copy(folder / "validation.txt", folder / "short.txt")
    step("corpus", *config_, *texts(folder, "short"), *corpus, *counted(folder, "short"))
    common = [*config_, *model(folder, "small"), *EXECUTION, *corpus]
    lists, triggers = out / "shard.safetensors", ["--triggers", out / "triggers.parquet"]
    for _ in range(RUNS):
        step("trigger-shard", *common, "--shard", "1-of-1", "--lists", lists)
        step("triggers", *config_, *corpus, "--shards", lists, *triggers, "--counts", out / "t.parquet")
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
    parser.add_argument("--parts", nargs="+", choices=["demo", "text"], default=["demo", "text"])
    given = parser.parse_args()
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    if "demo" in given.parts:
        record("memory", [{**row, "part": "demo"} for row in demo()], "part")
    if "text" in given.parts:
        with tempfile.TemporaryDirectory(prefix="faults-") as place:
            prepare(Path(place), given.seed)
            record("memory", [{**row, "part": "text"} for row in lengths(Path(place))], "part")
            record("memory", [{**row, "part": "repeated"} for row in repeated(Path(place))], "part")


if __name__ == "__main__":
    main()

"""The paper's run rehearsed: its sizes, formats and file names, with random weights and made-up text.

    python -m tools.qa.rehearsal FOLDER [--fused] [--sentences 150]

builds a checkpoint of the paper's architecture and a text in WikiText's format, packs both as they are published,
serves them from this machine with the faults that servers have, and runs config/paper.yaml on them: first with the
golden checks, which must refuse random weights, then with these switched off, down to the report. What it took goes
into docs/data/rehearsal.json, which `make docs-pages` shows in docs/cluster.md.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from contextlib import chdir
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import yaml
from factories import write_checkpoint
from mirror import serving

from ff_memories.base.job_costs import costs
from ff_memories.base.machine import hardware
from ff_memories.plan.planner import Planner
from ff_memories.workflow.run import Run

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "docs" / "data" / "rehearsal.json"
MODEL, TEXT = "adaptive_lm_wiki103.v2", "wikitext-103"


@dataclass
class Size:
    """What is built, and how much of the run is made of it."""

    vocab: int = 267_744
    options: dict = field(
        default_factory=lambda: dict(
            arch="transformer_lm_wiki103", decoder_layers=16, decoder_embed_dim=1024, decoder_ffn_embed_dim=4096,
            decoder_attention_heads=8, tokens_per_sample=3072, max_target_positions=3072, adaptive_input_factor=4,
            adaptive_input_cutoff="20000,60000", adaptive_softmax_cutoff="20000,60000", adaptive_softmax_factor=4,
        )
    )  # fmt: skip
    lines: dict[str, int] = field(default_factory=lambda: {"train": 4000, "valid": 1500, "test": 4358})
    changes: dict[str, dict] = field(  # what two cores can't do of the paper's numbers
        default_factory=lambda: {
            "execution": {"shards": 2, "batch_tokens": 4096},
            "mutations": {"keys_per_layer": 1, "top": 5},
            "composition": {"examples": 40},
        }
    )


FULL = Size()
TINY = Size(
    vocab=104,
    options=dict(tokens_per_sample=64, max_target_positions=64),
    lines={"train": 60, "valid": 30, "test": 30},
    changes={"execution": {"shards": 1, "batch_tokens": 256}, "triggers": {"top": 3}, "mutations": {"top": 3},
             "patterns": {"top": 3}},
)  # fmt: skip


def vocabulary(size: int) -> list[str]:
    """Return made-up types in order of frequency, padded as fairseq pads its dictionaries."""
    rng = random.Random(1)
    marks = [",", ".", "the", "of", "and", "to", "in", "=", '"', "@-@", "'s", "?"]
    words, letters = set(), "abcdefghiklmnoprstuvw"
    while len(words) < size - 4 - len(marks) - 2:
        words.add("".join(rng.choices(letters, k=rng.randint(3, 9))))
    made = sorted(words - set(marks))
    rng.shuffle(made)
    made = [*marks, *made]
    return [*made, *(f"madeupword{i:04d}" for i in range(size - 4 - len(made)))]


def write_texts(folder: Path, types: list[str], lines: dict[str, int]) -> list[Path]:
    """Write wiki.{train,valid,test}.tokens: blank lines of a space, headings, paragraphs of Zipf-distributed words."""
    out = []
    for seed, (split, count) in enumerate(lines.items()):
        rng = np.random.default_rng(seed)
        weights = 1 / np.arange(1, len(types) + 1)
        words = np.array(types, dtype=object)[rng.choice(len(types), size=count * 60, p=weights / weights.sum())]
        made, at = [" \n"], 0
        while len(made) < count:
            if rng.random() < 0.2:
                made += [" \n", f" = {words[at]} {words[at + 1]} = \n", " \n"]
                at += 2
            sentences = []
            for _ in range(rng.integers(1, 4)):
                n = int(rng.integers(3, 28))
                body = [w for w in words[at : at + n] if w not in (".", "?", "=")] or ["<unk>"]
                sentences.append(" ".join([*body, "."]))
                at = (at + n) % (len(words) - 60)
            made.append(f" {' '.join(sentences)} \n")
        out.append(folder / f"wiki.{split}.tokens")
        out[-1].write_text("".join(made), encoding="utf-8")
    return out


def publish(web: Path, size: Size, style: str = "legacy") -> None:
    """Write the two archives as they are published."""
    work = web.parent / "made"
    work.mkdir(exist_ok=True)
    web.mkdir(exist_ok=True)
    types = vocabulary(size.vocab)
    counts = [10**9 - rank if "madeup" not in word else 0 for rank, word in enumerate(types)]
    (work / "dict.txt").write_text("".join(f"{w} {c}\n" for w, c in zip(types, counts, strict=True)), encoding="utf-8")
    write_checkpoint(work / "model.pt", types, style=style, **size.options)
    with tarfile.open(web / f"{MODEL}.tar.bz2", "w:bz2", compresslevel=1) as archive:
        for name in ("model.pt", "dict.txt"):
            archive.add(work / name, f"{MODEL}/{name}")
    with zipfile.ZipFile(web / "wikitext-103-v1.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in write_texts(work, types, size.lines):
            archive.write(path, f"{TEXT}/{path.name}")


def registry(address: str, path: Path) -> None:
    """Write the package's sources for this paper, their addresses replaced; the made-up files' hashes aren't known."""
    own = (ROOT / "src/ff_memories/inputs/registry.toml").read_text(encoding="utf-8")
    hosts = ("https://s3.amazonaws.com", "https://wikitext.smerity.com", "https://dl.fbaipublicfiles.com")
    for number, host in enumerate(hosts):
        own = own.replace(host, f"{address}/{number}")
    sources = [part for part in re.split(r'(?m)^(?=\["[^"]+"\]$)', own) if address in part]
    keep = [line for line in "".join(sources).splitlines() if not line.startswith(("sha256 =", "bytes ="))]
    path.write_text("\n".join(keep) + "\n", encoding="utf-8")
    tomllib.loads(path.read_text(encoding="utf-8"))


def config(path: Path, size: Size, sentences: int, golden: str) -> None:
    """Write config/paper.yaml with another registry, a cap on sentences, and what ``size`` changes."""
    settings = yaml.safe_load((ROOT / "config/paper.yaml").read_text(encoding="utf-8"))
    settings["sources"] = {"registry": "registry.toml", "golden": golden}
    settings["corpus"]["train"]["max_sentences"] = sentences
    for section, keys in size.changes.items():
        settings[section] |= keys
    path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")


def faults_of_servers(faults: dict, web: Path) -> None:
    """The text's first mirror is gone and the second fails in passing and cuts; the model's cuts twice."""
    half = (web / f"{MODEL}.tar.bz2").stat().st_size // 2
    faults["/0/research.metamind.io/wikitext/wikitext-103-v1.zip"] = [404] * 99
    faults["/1/wikitext-103-v1.zip"] = [503, ("cut", 1000)]
    faults[f"/2/fairseq/models/lm/{MODEL}.tar.bz2"] = [("cut", half), ("cut", half // 2)]


def snakemake(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [Path(sys.executable).parent / "snakemake", "--snakefile", ROOT / "Snakefile", "--directory", folder,
         "--configfile", folder / "paper.yaml", "--cores", "2", "--resources", "gpu=1", *arguments],
        cwd=folder, text=True, capture_output=True, env={**os.environ, "PATH": path},
    )  # fmt: skip


def rehearse(folder: Path, size: Size = FULL, style: str = "legacy", sentences: int = 150, targets=()):
    """Build, serve, fetch and run; return (refused run, finished run, requests to the server, seconds of both)."""
    project = folder / "project"
    project.mkdir(parents=True, exist_ok=True)
    if not (folder / "web" / "wikitext-103-v1.zip").is_file():
        publish(folder / "web", size, style)
    with serving(folder / "web") as (address, faults, asked):
        faults_of_servers(faults, folder / "web")
        registry(address, project / "registry.toml")
        config(project / "paper.yaml", size, sentences, "check")
        begun = time.monotonic()
        refused = snakemake(project, *targets)
    config(project / "paper.yaml", size, sentences, "off")
    between = time.monotonic()
    done = snakemake(project, *targets)
    return refused, done, asked, (between - begun, time.monotonic() - between)


def planned(config_: Path, folder: Path) -> dict:
    """Return the plan of a run: of its steps that were made, with what they took, its time by devices, its tokens."""
    with chdir(folder):
        run = Run.read(config_)
        planner, spent = Planner.of(run), costs(Path(run.path("logs")))
        took = {c.rule: {"jobs": c.jobs, "seconds": c.seconds, "memory": c.peak_mib * 2**20} for c in spent}
        steps = [
            asdict(step) | {"seconds": step.jobs * step.seconds, "measured": took[step.rule]}
            for step in planner.steps(run.config)
            if step.rule in took
        ]
        text = planner.text.read_by(run.config)
        elapsed = {n: planner.elapsed(run.config, n) for n in (1, 8, 64)}
    return {"steps": steps, "elapsed": elapsed, "tokens": text.train + text.validation}


def record(folder: Path, style: str, sentences: int, seconds: tuple[float, float], asked: list) -> None:
    """Add what a rehearsal took to the record."""
    plan = planned(folder / "project" / "paper.yaml", folder / "project")
    (folder / "whole").mkdir(exist_ok=True)
    whole = planned(ROOT / "config" / "paper.yaml", folder / "whole")
    text, checkpoint = (sum(name in path for path, _ in asked) for name in ("wikitext", MODEL))
    found = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    found[style] = {
        "machine": dict(hardware()), "sentences": sentences, "refused_seconds": round(seconds[0]),
        "seconds": round(seconds[1]), "requests": {"text": text, "checkpoint": checkpoint},
        "steps": plan["steps"], "whole": whole["elapsed"], "whole_tokens": whole["tokens"],
    }  # fmt: skip
    RECORD.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fused", action="store_true", help="q, k and v in one matrix, as old checkpoints have them")
    parser.add_argument("--sentences", type=int, default=150)
    given = parser.parse_args()
    style = "fused" if given.fused else "legacy"
    first, second, requests, seconds = rehearse(given.folder.absolute(), style=style, sentences=given.sentences)
    print(first.stderr[-6000:], second.stdout[-3000:], second.stderr[-6000:], *requests, sep="\n")
    if second.returncode or not first.returncode:
        return 1
    record(given.folder.absolute(), style, given.sentences, seconds, requests)
    return 0


if __name__ == "__main__":
    sys.exit(main())

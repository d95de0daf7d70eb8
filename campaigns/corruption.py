"""Every class of file that a finished run reads, spoilt in four ways: refused by name, made again, or of no matter.

What is recorded is not tried again, unless ``--again``: the campaign goes on where it was.
After each, the same command runs; of a spoilt input only up to the claims. What must never happen: it succeeds and
something made from the spoilt file stands among the results. Results that were spoilt are changes by hand: they are
refused, or nothing reads them.
"""

import random
import re
import shutil
from pathlib import Path

import torch
import yaml
from factories import write_dictionary
from planted_run import TYPES, write_sentences

from campaigns.trials import RESULTS, Clock, copied, differing, finish, fresh, options, record, recorded, undisturbed
from ff_memories.corpus import text
from ff_memories.inputs.trained import fairseq_tools  # noqa: F401  (classes that a checkpoint may hold)

FILES: dict[str, str | Path] = {
    "text": "train.txt",
    "dictionary": "dict.txt",
    "checkpoint": "model.pt",
    "config": "my.yaml",
    "weights": RESULTS / "model/model.safetensors",
    "description": RESULTS / "model/model.json",
    "info": RESULTS / "model/info.json",
    "corpus": RESULTS / "corpus/corpus.safetensors",
    "shard": RESULTS / "shards/1-of-2.safetensors",
    "table of triggers": RESULTS / "tables/triggers.parquet",
    "table of values": RESULTS / "tables/values.parquet",
    "counts": RESULTS / "counts/triggers.parquet",
    "figure's specification": RESULTS / "figures/figure4.vl.json",
    "claims": RESULTS / "tables/claims.parquet",
}
UNNAMED = "Config file "  # Snakemake reads a run's one config before the Snakefile, and does not say its name
PINNED = ("train.txt", "dict.txt", "model.pt")
INPUTS = (*PINNED, "my.yaml")
WAYS = ("flipped", "truncated", "emptied", "another's")


def pin(folder: Path) -> None:
    """Write the inputs' hashes into the config, as the demo's has them."""
    settings = yaml.safe_load((folder / "my.yaml").read_text(encoding="utf-8"))
    texts = [folder / name for split in ("train", "validation") for name in settings["corpus"][split]["files"]]
    settings["corpus"]["sha256"] = text.sha256(texts)
    for name, key in (("model.pt", "sha256"), ("dict.txt", "dictionary_sha256")):
        settings["model"][key] = text.sha256([folder / name])
    (folder / "my.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")


def another(place: Path, whole: Path) -> Path:
    """Return a finished run of another model, dictionary, text and seed, whose files are all well-formed."""
    folder = fresh(place, "another", whole)
    write_sentences(folder / "train.txt", 300, 11)
    write_sentences(folder / "validation.txt", 120, 12)
    write_dictionary(folder / "dict.txt", [*TYPES[:-2], TYPES[-1], TYPES[-2]])
    content = torch.load(folder / "model.pt", weights_only=True)
    content["model"]["decoder.layers.0.fc1.weight"] *= 1.5
    torch.save(content, folder / "model.pt")
    settings = yaml.safe_load((folder / "my.yaml").read_text(encoding="utf-8"))
    settings["seed"] += 1
    (folder / "my.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    if not finish(folder):
        raise SystemExit(folder.with_suffix(".log").read_text()[-3000:])
    return folder


def spoil(path: Path, way: str, rng: random.Random, other: Path) -> None:
    content = bytearray(path.read_bytes())
    if way == "flipped":
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif way == "truncated":
        del content[len(content) // 2 :]
    elif way == "emptied":
        content.clear()
    else:
        content[:] = other.read_bytes()
    path.write_bytes(content)


def main() -> None:
    parser = options()
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--again", action="store_true", help="also what was recorded before")
    given = parser.parse_args()
    rng, clock, rows = random.Random(given.seed), Clock(given.minutes), []
    known = set() if given.again else {(row["file"], row["way"]) for row in recorded("corruption")}
    trials = [(kind, way) for kind in FILES for way in given.ways if (kind, way) not in known]
    rng.shuffle(trials)
    trials.sort(key=lambda trial: FILES[trial[0]] in INPUTS)  # these take longer
    with undisturbed(whole=given.whole) as (place, whole, expected):
        others = another(place, whole) if any(way == "another's" for _, way in trials) else whole
        for n, (kind, way) in enumerate(trials[: given.trials]):
            if not clock.left():
                break
            folder = copied(place, f"spoilt{n}", whole)
            if FILES[kind] in PINNED:
                pin(folder)
            spoil(folder / FILES[kind], way, rng, others / FILES[kind])
            is_result = FILES[kind] not in INPUTS
            done = finish(folder, *([] if is_result else ["--until", "claims"]))
            log = folder.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
            said = "\n".join(
                re.findall(r"^(?:error: |WorkflowError[^\n]*:\n).*|changed since they were made.*", log, re.MULTILINE)
            )
            named = Path(FILES[kind]).name in said
            differ = differing(folder, expected)
            own = str(Path(FILES[kind]).relative_to(RESULTS)) if is_result else None
            if done and not differ:
                found, ok = "rebuilt" if own else "no matter", True
            elif done and differ == [own]:
                found, ok = "left as it was, and read by nothing", True
            elif not done:
                unnamed = kind == "config" and UNNAMED in said
                found = "rejected by name" if named else "rejected by Snakemake" if unnamed else "rejected"
                ok = named or unnamed
            elif not is_result:
                found, ok = (
                    f"counts as another input: {len(differ)} dependent files were rebuilt, up to the claims",
                    kind == "config",
                )
            else:
                found, ok = f"read: {', '.join(differ[:4])}", False
            rows.append({"seed": given.seed, "file": kind, "way": way, "found": found, "ok": ok})
            print(rows[-1], flush=True)
            record("corruption", rows, "file", "way")
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()

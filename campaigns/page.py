"""Write docs/faults.md from what the campaigns found (docs/data/faults)."""

import ast
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import fuzzing
import test_hostile_checkpoints as checkpoints
import test_hostile_config as configs
import test_hostile_text as texts
from hostile import PROGRAMS

from campaigns import branches
from campaigns import mutation as mutation_
from ff_memories.base.text.escaping import escape_invisible
from ff_memories.patterns.scoring import share

ROOT = Path(__file__).parents[1]
DATA, PAGE = ROOT / "docs" / "data", ROOT / "docs" / "faults.md"
HEAD = """\
# Robustness tests

We damaged files, filled disks and fed the package hostile input. Each campaign below is a script with a
seed. Most run the whole workflow on a small model with known memories (*planted*), which takes about a minute. They
then compare every table, count, figure, report, gallery and shard byte by byte with an undisturbed run.

    python -m campaigns.memory
    python -m campaigns.conditions
    python -m campaigns.corruption --trials 56
    python -m campaigns.fuzz                     # ten minutes for each reader
    python -m campaigns.mutation map                    # once: which tests run which functions
    python -m campaigns.mutation claims --sample 100 --seed 1
    coverage run -m pytest && python -m campaigns.branches

Downloads, caches, remotes, locks and hostile files have [their own tests](#tests-of-faults).
[Security](../SECURITY.md) explains what the package trusts. `python -m campaigns.page` generates this page from
`docs/data/faults/`.
"""


def table(header: list[str], rows: list[list[str]]) -> str:
    plain = lambda cells: "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
    return "\n".join([plain(header), "|" + "---|" * len(header), *map(plain, rows)]) + "\n"


def holds(ok: bool | None) -> str:
    return {True: "yes", False: "**no**", None: "not tried"}[ok]


def read(name: str) -> dict:
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def memory() -> str:
    found = read("faults/memory")
    body = [
        [row["what"], row["peak_mib"], row.get("long_mib", ""), row["limit"], holds(row["ok"])] for row in found["rows"]
    ]
    return (
        "\n## Memory\n\nPeak memory in MiB. Steps that read the whole text ran on a synthetic text of the "
        "demo's length "
        "and on one fifty times as long, with shards of equal length. The later steps, which only look up sentences, "
        "didn't run on the long text.\n\n"
        + table(["step", "peak", "on the long text, or at the end", "limit", "within the limit"], body)
    )


def conditions() -> str:
    found = read("faults/conditions")
    body = [[row["what"], row["found"], holds(row["ok"])] for row in found["rows"]]
    return "\n## Unusual conditions\n\n" + table(["condition", "result", "as expected"], body)


def corruption() -> str:
    found = read("faults/corruption")
    body = [[row["file"], row["way"], row["found"], holds(row["ok"])] for row in
            sorted(found["rows"], key=lambda row: (row["file"], row["way"]))]  # fmt: skip
    return (
        f"\n## Damaged files\n\nIn {len(body)} trials we damaged a file of a finished run and ran the same "
        "command again. "
        "We flipped a bit, removed half of the file, emptied it, or replaced it by the same file of another run "
        "(different model, dictionary, text and seed). The config contained the SHA-256 of text, dictionary and "
        "checkpoint, as the demo's does. A damaged config that is still valid counts as another config.\n\n"
        "`tests/workflow/artefacts/test_artefacts_faults.py` damages DVC's files: `dvc pull` names an object of the "
        "remote that was "
        "changed, shortened or removed, and `ff-memories restore` names the stages whose cached object or entry in "
        "`dvc.lock` changed.\n\n" + table(["file", "damage", "what happens", "as expected"], body)
    )


HELD = {
    "artefacts_faults": "DVC's remote, cache and lock: damaged, missing, read-only, full, killed, used twice",
    "sources": "downloads: broken connections, failing mirrors, changed files, wrong hashes, bad archives",
    "hostile_checkpoints": "checkpoints that try to run code, fill memory or disk, or lie about their contents",
    "hostile_config": "paths, names and YAML that try to run commands, leave the folder or exhaust memory",
    "hostile_folders": "folders with a model of `transformers` that lie about sizes, are damaged or hold pipes",
    "hostile_text": "words that try to become markup, formulas, LaTeX commands or terminal codes; huge words and lines",
}


def held() -> str:
    """Return a row for each file of tests: what it tests, and how many tests run when."""
    body = []
    for name, about in HELD.items():
        path = next((ROOT / "tests").rglob(f"test_{name}.py"))
        text, count = path.read_text(encoding="utf-8"), Counter[bool]()
        for test in ast.parse(text).body:
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                marks = [text.split("\n\n\n")[0], *map(ast.unparse, test.decorator_list)]
                count[any("pytest.mark.long" in mark for mark in marks)] += 1
        link = f"[`{path.name}`](../{path.relative_to(ROOT).as_posix()})"
        body.append([about, link, str(count[False]), str(count[True])])
    return "\n## Tests of faults\n\n" + table(["faults", "tests", "in every run", "`pytest -m long`"], body)


def fuzzed() -> str:
    found = read("faults/fuzz")
    body = [[row["reader"], row["seed"], f"{row['seconds']:,}", f"{row['tried']:,}", row["found"] or "none"]
            for row in found["rows"]]  # fmt: skip
    return (
        "\n## Fuzzing\n\nAtheris generates inputs from valid files, guided by coverage. Each reader must "
        "return an object "
        "or reject the input with a one-sentence message. Any other error, more than 20 seconds or more than "
        "3 GB counts "
        "as a fault. `tests/robustness/test_fuzz.py` fuzzes each reader for 20 seconds in every test run and repeats "
        f"earlier faults ({sum(len(fuzzing.found(reader)) for reader in fuzzing.READERS)} so far).\n\n"
        + table(["reader", "seed", "seconds", "inputs", "faults"], body)
    )


def mutation() -> str:
    samples = [
        (part, json.loads(path.read_text(encoding="utf-8")))
        for part in ("memories", "claims", "patterns")
        for path in sorted((DATA / "faults").glob(f"mutation-{part}*.json"), reverse=True)
    ]
    scores, left = [], []
    for part, found in samples:
        tried, killed, survivors = found["tried"], found["killed"], found["survivors"]
        since, why = (sum(bool(row.get(name)) for row in survivors) for name in ("since", "why"))
        _, low, high, _ = share(killed, tried)
        of_all = f"{killed / tried:.0%}" if tried == found["mutants"] else f"{low:.0%} to {high:.0%}"
        scores.append([part, found["seed"], f"{found['mutants']:,}", tried, killed, of_all, since,
                       why, f"{(killed + since + why) / tried:.0%}"])  # fmt: skip
        left += [
            [f"{row['file']}:{row['line']}", f"`{row['before']}` → `{row['after']}`", row.get("why", "not examined")]
            for row in survivors if not row.get("since")
        ]  # fmt: skip
    head = ["part", "seed", "mutants", "tried", "detected", "of all mutants (95 % confidence)",
            "detected later", "explained", "of those tried"]  # fmt: skip
    return (
        "\n## Mutation testing\n\nA mutant is the source code with one random operator or number changed. "
        "For each, we ran "
        "the tests that call the changed function, fast ones first, until one failed, for at most "
        f"{mutation_.BUDGET} seconds of processor time. *Detected later* are mutants that new tests detect, "
        "or slow tests "
        "that we first left out. *Explained* mutants don't change results, or change a free choice. We interrupted and "
        "resumed the campaigns with seed 2, so you can't repeat exactly the same sample; the other seeds are "
        "repeatable.\n\n"
        + table(head, scores)
        + ("\nNo test detects these mutants. Line numbers are those at the time of the campaign.\n\n"
           + table(["where", "change", "why"], left) if left else "")
    )  # fmt: skip


def coverage() -> str:
    found = read("faults/coverage")
    packages = found["packages"]
    packages["total"] = {name: sum(row[name] for row in packages.values()) for name in branches.COUNTS}
    body = []
    for name, row in packages.items():
        statements, covered, ways, taken = (row[n] for n in branches.COUNTS)
        both = f"{(covered + taken) / (statements + ways):.1%}" if statements else "–"
        body.append([name, f"{statements:,}", f"{covered:,}", f"{ways:,}", f"{taken:,}", both])
    without = f" Without {found['without']}." if found["without"] else ""
    gaps = [[gap["file"], gap["missing"], gap["why"] or "not examined"] for gap in found["gaps"]]
    return (
        "\n## Code coverage\n\nStatements and branches that an ordinary test run executes, including other processes: "
        f"`coverage run -m pytest`, then `python -m campaigns.branches`.{without} Packages and "
        "files have the names that they had at the time of the measurement.\n\n"
        + table(["package", "statements", "executed", "branches", "executed", "coverage"], body)
        + f"\nFiles with at least {branches.GAP} statements and branches that no test executes:\n\n"
        + table(["file", "not executed", "why"], gaps)
    )


def hostile() -> str:
    """The tables of the hostile tests, which hold as long as those tests pass."""
    body: list[tuple[str, Iterable[str], str]] = [
        ("a checkpoint's pickle", PROGRAMS, "rejected by name in both of torch's formats; nothing is executed"),
        ("a pickled call in a checkpoint", checkpoints.PLACES, "rejected by name; nothing is executed"),
        ("a checkpoint's weights", checkpoints.TENSORS, "rejected by name"),
        ("a safetensors file", checkpoints.SAFETENSORS, "rejected by name"),
        ("a model's description", checkpoints.DESCRIPTIONS, "rejected by name"),
        ("an archive with", checkpoints.KINDS, "rejected by name; nothing is written"),
        ("a path in a config", map(escape_invisible, configs.PATHS), "rejected by name"),
        ("a path in a config", configs.NASTY.values(), "stays one argument of each command; nothing is executed"),
        ("a run's name", map(escape_invisible, configs.RUNS), "rejected by name"),
        (
            "a word of the text",
            map(escape_invisible, texts.HARMFUL.values()),
            "stays text in pages, cells, LaTeX and the terminal",
        ),
    ]
    shown = [[where, ", ".join(f"`` {w[:50] or chr(8709)} ``" for w in what), found] for where, what, found in body]
    return "\n## Hostile input\n\n" + table(["where", "examples", "what happens"], shown)


def page() -> str:
    return HEAD + conditions() + memory() + corruption() + hostile() + held() + fuzzed() + mutation() + coverage()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

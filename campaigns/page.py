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
from ff_memories.base.escaping import escape_invisible
from ff_memories.patterns.scoring import share

ROOT = Path(__file__).parents[1]
DATA, PAGE = ROOT / "docs" / "data", ROOT / "docs" / "faults.md"
HEAD = """\
# Faults that were tried

Follows from `docs/data/faults/`: `python -m campaigns.page`. Every campaign is a script with a seed; most run the
planted model's whole workflow, about a minute of work, and compare all that it makes, byte by byte, with an undisturbed
run: tables, counts, figures, report, gallery, shards (not logs and times).

    python -m campaigns.kill --trials 60         # an hour on two cores
    python -m campaigns.kill --of demo --trials 5
    python -m campaigns.memory
    python -m campaigns.kill_dvc --commands push restore adopt repro verify --trials 30 --seed 5
    python -m campaigns.conditions
    python -m campaigns.corruption --trials 56
    python -m campaigns.fuzz                     # ten minutes for each reader
    python -m campaigns.mutation map                    # once: which tests run which functions
    python -m campaigns.mutation claims --sample 100 --seed 1
    coverage run -m pytest && python -m campaigns.branches

Downloads, caches, remotes, locks and hostile files have tests of their own, [listed below](#held-by-tests);
[security](../SECURITY.md) says what is trusted.
"""


def table(header: list[str], rows: list[list[str]]) -> str:
    plain = lambda cells: "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
    return "\n".join([plain(header), "|" + "---|" * len(header), *map(plain, rows)]) + "\n"


def holds(ok: bool | None) -> str:
    return {True: "yes", False: "**no**", None: "not tried"}[ok]


def read(name: str) -> dict:
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def killed() -> str:
    found = read("faults/kill")
    body, total = [], Counter[str]()
    for row in found["rows"]:
        total[row["of"]] += sum(row["kills"].values())
        held = holds(row["finished"] and not row["differ"] and not row.get("by_hand"))
        body.append([row["of"], row["seed"], shared(row["kills"]), row.get("why", held) if held != "yes" else held])
    runs = ", ".join(f"{n} times {of}" for of, n in total.items())
    return (
        f"\n## Killed\n\nSIGKILL at {sum(total.values())} random instants ({runs}), the same command after each and "
        "nothing else, until it was done. `planted` and `demo` are whole runs of Snakemake; the other commands work on "
        "the planted run, published in a checkout of its own. The first kills of `ff-memories restore` and `dvc repro` "
        "found a lock that nobody took over and a file of DVC's that it cannot read; what can be mended is, with tests "
        "in `tests/workflow/test_killed.py`, and `restore` was killed again.\n\n"
        + table(["what", "seed", "kills until it was done", "the same in the end"], body)
    )


def shared(kills: dict[str, int]) -> str:
    return ", ".join(f"{k} × {v}" for v, k in sorted(kills.items())) or "none"


def memory() -> str:
    found = read("faults/memory")
    body = [
        [row["what"], row["peak_mib"], row.get("long_mib", ""), row["limit"], holds(row["ok"])] for row in found["rows"]
    ]
    return (
        "\n## Memory\n\nPeaks in MiB. The steps that go over the whole text ran on a made-up one as long as the "
        "demo's, and on one fifty times as long, on both with shards of one length; those after them, which look up "
        "sentences for their tables and pages, did not.\n\n"
        + table(["what", "peak", "on the long text, or in the end", "at most", "holds"], body)
    )


def conditions() -> str:
    found = read("faults/conditions")
    body = [[row["what"], row["found"], holds(row["ok"])] for row in found["rows"]]
    return "\n## Conditions\n\n" + table(["what", "found", "holds"], body)


def corruption() -> str:
    found = read("faults/corruption")
    body = [[row["file"], row["way"], row["found"], holds(row["ok"])] for row in
            sorted(found["rows"], key=lambda row: (row["file"], row["way"]))]  # fmt: skip
    return (
        f"\n## Corruption\n\nIn {len(body)} trials a file of a finished run was spoilt: a bit flipped, half of it cut, "
        "emptied, or replaced by the file of the same name of a run of another model, dictionary, text and seed; then "
        "the same command, of an input up to the claims. The SHA-256 of text, dictionary and checkpoint stood in the "
        "config, as they do in the demo's; a config that remains one is another config. What "
        "DVC keeps is spoilt in `tests/workflow/test_artefacts_faults.py`: `dvc pull` refuses by name an object of the "
        "remote that was altered, cut or removed; `ff-memories restore` names the stages whose object in the cache, or "
        "whose row in `dvc.lock`, is not what it was.\n\n" + table(["file", "spoilt", "what happens", "holds"], body)
    )


HELD = ("artefacts_faults", "killed", "sources", "hostile_checkpoints", "hostile_config", "hostile_text")


def held() -> str:
    """What tests say of themselves, by their names."""
    body = []
    for name in HELD:
        text = next((ROOT / "tests").glob(f"*/test_{name}.py")).read_text(encoding="utf-8")
        for test in ast.parse(text).body:
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                marks = [text.split("\n\n\n")[0], *map(ast.unparse, test.decorator_list)]
                long = any("pytest.mark.long" in mark for mark in marks)
                body.append([test.name[5:].replace("_", " "), name, "`pytest -m long`" if long else "every run"])
    return "\n## Held by tests\n\n" + table(["what", "`tests/*/test_….py`", "tried"], body)


def fuzzed() -> str:
    found = read("faults/fuzz")
    body = [[row["reader"], row["seed"], f"{row['seconds']:,}", f"{row['tried']:,}", row["found"] or "none"]
            for row in found["rows"]]  # fmt: skip
    return (
        "\n## Fuzzing\n\nInputs made by atheris, guided by coverage, from files that each reader takes. A fault is "
        "anything but an object or a refusal in one sentence: another error, 20 seconds, 3 GB. "
        "`tests/robustness/test_fuzz.py` fuzzes each reader for 20 seconds in every run of the tests, and tries all "
        "again that was once a fault "
        f"({sum(len(fuzzing.found(reader)) for reader in fuzzing.READERS)} kept).\n\n"
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
            [f"{row['file']}:{row['line']}", f"`{row['before']}` → `{row['after']}`", row.get("why", "not looked into")]
            for row in survivors if not row.get("since")
        ]  # fmt: skip
    head = ["part", "seed", "mutants in all", "tried", "noticed", "of all, with 95 % confidence",
            "noticed since", "explained", "of those tried"]  # fmt: skip
    return (
        "\n## Mutants\n\nOne operator or number changed at a time, drawn at random from all such changes; then the "
        "tests that run the changed function in their own process, quick ones first, "
        f"{mutation_.BUDGET} seconds of processor time at most, until one fails. *Noticed since*: by tests "
        f"written for them, or by slower ones that had been "
        "left out. The campaigns of seed 2 were stopped and taken up again, so that one command does not draw "
        "quite the same; those of other seeds it draws.\n\n"
        + table(head, scores)
        + ("\nNoticed by none of these tests, by the line in which each stood then:\n\n"
           + table(["where", "change", "why"], left) if left else "")
    )  # fmt: skip


def coverage() -> str:
    found = read("faults/coverage")
    packages = found["packages"]
    packages["in all"] = {name: sum(row[name] for row in packages.values()) for name in branches.COUNTS}
    body = []
    for name, row in packages.items():
        statements, covered, ways, taken = (row[n] for n in branches.COUNTS)
        both = f"{(covered + taken) / (statements + ways):.1%}" if statements else "–"
        body.append([name, f"{statements:,}", f"{covered:,}", f"{ways:,}", f"{taken:,}", both])
    without = f" Left out were {found['without']}." if found["without"] else ""
    gaps = [[gap["file"], gap["missing"], gap["why"] or "not looked into"] for gap in found["gaps"]]
    return (
        "\n## Branches\n\nWhat the tests of an ordinary run take, those in other processes included: "
        f"`coverage run -m pytest`, then `python -m campaigns.branches`.{without}\n\n"
        + table(["package", "statements", "run", "branches", "taken", "of both"], body)
        + f"\nFiles of which at least {branches.GAP} statements and branches are not taken:\n\n"
        + table(["file", "not taken", "why"], gaps)
    )


def hostile() -> str:
    """The tables of the hostile tests, which hold as long as those tests pass."""
    body: list[tuple[str, Iterable[str], str]] = [
        ("a checkpoint's pickle", PROGRAMS, "refused in both of torch's formats, nothing executed"),
        ("a pickled call in a checkpoint", checkpoints.PLACES, "refused by name, nothing executed"),
        ("a checkpoint's weights", checkpoints.TENSORS, "refused by name"),
        ("a safetensors file", checkpoints.SAFETENSORS, "refused by name"),
        ("a model's description", checkpoints.DESCRIPTIONS, "refused by name"),
        ("an archive with", checkpoints.KINDS, "refused by name, nothing written"),
        ("a path in a config", map(escape_invisible, configs.PATHS), "refused by name"),
        ("a path in a config", configs.NASTY.values(), "one word of each command, nothing executed"),
        ("a run's name", map(escape_invisible, configs.RUNS), "refused by name"),
        (
            "a word of the text",
            map(escape_invisible, texts.HARMFUL.values()),
            "text in pages, cells, LaTeX and terminal",
        ),
    ]
    shown = [[where, ", ".join(f"`` {w[:50] or chr(8709)} ``" for w in what), found] for where, what, found in body]
    return "\n## Hostile input\n\n" + table(["where", "what", "what happens"], shown)


def page() -> str:
    return (
        HEAD
        + killed()
        + conditions()
        + memory()
        + corruption()
        + hostile()
        + held()
        + fuzzed()
        + mutation()
        + coverage()
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""Write docs/faults.md from what the campaigns found (docs/data/faults)."""

import json
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import test_hostile_checkpoints as checkpoints
import test_hostile_config as configs
import test_hostile_text as texts

from ff_memories.plain import visible

ROOT = Path(__file__).parents[2]
DATA, PAGE = ROOT / "docs" / "data", ROOT / "docs" / "faults.md"
HEAD = """\
# Faults that were tried

Follows from `docs/data/faults/`: `python tests/faults/page.py`. Every campaign is a script with a seed; all run the
planted model's whole workflow, about a minute of work, and compare all that it makes, byte by byte, with an undisturbed
run: tables, counts, figures, report, gallery, shards (not logs and times).

    python tests/faults/kill.py --trials 60         # hours on two cores
    python tests/faults/conditions.py
    python tests/faults/corruption.py --trials 56
    python tests/mutation.py claims --sample 100

Downloads, caches, remotes and DVC's locks have their trials in `tests/test_artefacts_faults.py` and
`tests/test_sources.py`, hostile files in `tests/test_hostile_*.py` ([security](../SECURITY.md)), and the readers are
fuzzed by `tests/test_fuzz.py`: seconds in every run of the tests, ten minutes each with `pytest -m long`.
"""


def table(header: list[str], rows: list[list[str]]) -> str:
    plain = lambda cells: "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
    return "\n".join([plain(header), "|" + "---|" * len(header), *map(plain, rows)]) + "\n"


def holds(ok: bool | None) -> str:
    return {True: "yes", False: "**no**", None: "not tried"}[ok]


def read(name: str) -> dict | None:
    path = DATA / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def killed() -> str:
    if not (found := read("faults/kill")):
        return ""
    rows, victims = found["rows"], Counter[str]()
    for row in rows:
        victims.update(row["kills"])
    share = ", ".join(f"{n} × {victim}" for victim, n in sorted(victims.items()))
    body = [
        [row["seed"], ", ".join(f"{k} × {v}" for v, k in sorted(row["kills"].items())) or "none",
         holds(row["finished"] and not row["differ"])]
        for row in rows
    ]  # fmt: skip
    return (
        f"\n## Killed\n\nSIGKILL at {sum(victims.values())} random instants ({share}), the same command after each and "
        "nothing else, until the run was done.\n\n"
        + table(["seed", "kills until it was done", "the same bytes in the end"], body)
    )


def conditions() -> str:
    if not (found := read("faults/conditions")):
        return ""
    body = [[row["what"], row["found"], holds(row["ok"])] for row in found["rows"]]
    return "\n## Conditions\n\n" + table(["what", "found", "holds"], body)


def corruption() -> str:
    if not (found := read("faults/corruption")):
        return ""
    body = [[row["file"], row["way"], row["found"], holds(row["ok"])] for row in
            sorted(found["rows"], key=lambda row: (row["file"], row["way"]))]  # fmt: skip
    return (
        f"\n## Corruption\n\nIn {len(body)} trials a file of a finished run, drawn at random, was spoilt; then the "
        "same command.\n\n" + table(["file", "spoilt", "what happens", "holds"], body)
    )


def mutation() -> str:
    parts = {part: found for part in ("memories", "claims", "patterns") if (found := read(f"faults/mutation-{part}"))}
    if not parts:
        return ""
    scores = [
        [
            part,
            f"{found['mutants']:,}",
            found["tried"],
            found["killed"],
            sum(r.get("since", False) for r in found["survivors"]),
        ]
        for part, found in parts.items()
    ]
    left = [
        [f"{row['file']}:{row['line']}", f"`{row['before']}` → `{row['after']}`", row.get("why", "not looked into")]
        for found in parts.values() for row in found["survivors"] if not row.get("since")
    ]  # fmt: skip
    return (
        "\n## Mutants\n\nOne operator or number changed at a time, drawn at random from all such changes; the part's "
        "tests run until one fails.\n\n"
        + table(["part", "mutants in all", "tried", "noticed", "noticed since, by tests written for them"], scores)
        + ("\nNoticed by no test of their part:\n\n" + table(["where", "change", "why"], left) if left else "")
    )


def hostile() -> str:
    """The tables of the hostile tests, which hold as long as those tests pass."""
    body = [
        ["a checkpoint's pickle", checkpoints.PROGRAMS, "refused in both of torch's formats, nothing executed"],
        ["a pickled call in a checkpoint", checkpoints.PLACES, "refused by name, nothing executed"],
        ["a checkpoint's weights", checkpoints.TENSORS, "refused by name"],
        ["a safetensors file", checkpoints.SAFETENSORS, "refused by name"],
        ["a model's description", checkpoints.DESCRIPTIONS, "refused by name"],
        ["an archive with", checkpoints.KINDS, "refused by name, nothing written"],
        ["a path in a config", map(visible, configs.PATHS), "refused by name"],
        ["a path in a config", configs.NASTY.values(), "one word of each command, nothing executed"],
        ["a run's name", map(visible, configs.RUNS), "refused by name"],
        ["a word of the text", map(visible, texts.HARMFUL.values()), "text in pages, cells, LaTeX and terminal"],
    ]
    shown = [[where, ", ".join(f"`` {w[:50] or chr(8709)} ``" for w in what), found] for where, what, found in body]
    return "\n## Hostile input\n\n" + table(["where", "what", "what happens"], shown)


def page() -> str:
    return HEAD + killed() + conditions() + corruption() + hostile() + mutation()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""Say claims, groups and verdicts in words, which ``wording.toml`` holds."""

import re
import tomllib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from typing import Any

import polars as pl

from ff_memories.base.text import listed
from ff_memories.judge.numbers import joined
from ff_memories.model.info import MARKS
from ff_memories.tables import SAMPLED, SHOWS
from ff_memories.tables.annotation import ANNOTATOR

PAPERS = "K"  # the first letter of the paper's claims
PROXY = "labelled by an automatic proxy"
OWN_TEXT = "on text sampled from the model"
SAMPLED_TEXT = (
    "the text was sampled from the model, so next tokens are its own draws: agreement is higher than on text that "
    "people wrote"
)
ClaimRow = Mapping[str, Any]  # of a claim
SIGNED = re.compile(r"\{size\} \{([^{}|]*)\|([^{}]*)\}")
TYPES = {"all": "among all types", "trained": "without the types that are never trained"}
OF_TYPES = tuple(TYPES.values())
BULLET = "- "


CONTENTS: Mapping[str, Any] = tomllib.loads(files(__package__).joinpath("wording.toml").read_text("utf-8"))
GROUPS: Mapping[str, Mapping[str, str]] = CONTENTS["group"]
VERDICTS: Mapping[str, Mapping[str, str]] = CONTENTS["verdict"]
WORDS: Mapping[str, Mapping[str, str]] = {**GROUPS, **VERDICTS}
LIMITS: Mapping[str, str] = CONTENTS["limit_source"]
BASELINES: Mapping[str, str] = CONTENTS["baseline"]


def natural(claim: str) -> tuple[bool, str, int]:
    """Return a sort key that puts K2 before K10, and the paper's claims before others."""
    letters = claim.rstrip("0123456789")
    return beyond(claim), letters, int(claim[len(letters) :] or 0)


def beyond(claim: str) -> bool:
    """Return whether a claim is not the paper's, but goes beyond it."""
    return not claim.startswith(PAPERS)


def self_sampled(counts: pl.DataFrame) -> bool:
    """Return whether a run's text was sampled from its model, by the table `counts`."""
    return bool(counts.filter(pl.col("reason") == SAMPLED)["n"].sum())


def notes(reason: str | None) -> list[str]:
    """Return what must stand beside a claim's number, by the reason in the table `claims`."""
    return [note for note, mark in ((PROXY, ANNOTATOR), (OWN_TEXT, SAMPLED_TEXT)) if mark in (reason or "")]


def sentence(rows: Sequence[ClaimRow]) -> str:
    """Return the sentence of a claim that has a number, with that of one run or those of several.

    ``rows``: of ``report.outline.rows``, of one claim.
    """
    return _filled(rows[0]["sentence"], [row["measured"] for row in rows], rows[0]["unit"])


def control(rows: Sequence[ClaimRow]) -> str:
    """Return what stands beside a claim's sentence: what chance, random networks and the paper's model give."""
    first = rows[0]
    signed = SIGNED.search(first["sentence"])
    parts = []
    for name, column in (("chance", "expected"), ("random networks", "baseline")):
        values = [row[column] for row in rows]
        values = values[:1] if len(set(values)) == 1 else values
        if any(value is not None for value in values):
            parts.append(f"{name}: {_filled(signed[0] if signed else '{value}', values, first['unit'])}")
    if not first["beyond"]:
        parts.append(f"paper: {first['paper_value'].replace(';', ',')}")
    for row in rows:
        whose = f"{row['run']}: " if "run" in row else ""
        parts += [whose + part for part in (row["reason"] or "").split("; ") if part.endswith(OF_TYPES)]
    return "; ".join([*parts, *dict.fromkeys(note for row in rows for note in row["notes"])])


def _filled(text: str, values: Sequence[float | None], unit: str) -> str:
    """Return text with one run's value or those of several; of signed ones, each with its own word if signs differ."""
    sizes = [None if value is None else abs(value) for value in values]
    above = [value is not None and value > 0 for value in values]

    def signed(found: re.Match[str]) -> str:
        if len({up for up, size in zip(above, sizes, strict=True) if size is not None}) == 1:
            return f"{joined(sizes, unit)} {found[1 if any(above) else 2]}"
        each = [f"{joined([size], unit)} {found[1 if up else 2]}" for up, size in zip(above, sizes, strict=True)]
        return listed(each)

    return SIGNED.sub(signed, text).replace("{value}", joined(values, unit))


def counts(claims: Mapping[str, ClaimRow]) -> dict[str, int]:
    """Return how many of the paper's claims are in each group, and how many are reproduced and not.

    ``claims``: the content of a run's ``claims.json``, or other rows by claim.
    """
    papers = [row for claim, row in claims.items() if not beyond(claim)]
    groups = Counter(row["group"] for row in papers if row.get("group"))
    return dict(groups + Counter(row["verdict"] for row in papers if "many" in VERDICTS[row["verdict"]]))


def line(run: str, scope: str, counted: Mapping[str, int]) -> str:
    """Return ``demo (surrogate): 3 here and not in random networks, 9 also in random networks, 15 not here``."""
    whose = MARKS["model"] if scope == "model" else scope
    return f"{run} ({whose}): {told(counted)}"


def told(counted: Mapping[str, int]) -> str:
    """Return what ``counts`` found, in words."""
    return ", ".join(f"{counted[name]} {WORDS[name]['many']}" for name in WORDS if name in counted) or "nothing judged"


def word(standing: str) -> str:
    """Return a group or a verdict in words."""
    return WORDS[standing]["word"]


def standing(row: ClaimRow) -> str:
    """Return what is said of a claim: its group, or ``check`` if it holds by construction, or else its verdict.

    A claim that has a number but cannot be judged by it counts as measured.
    """
    if row["group"]:
        return str(row["group"])
    if row["by_construction"] and row["verdict"] in SHOWS["yes"]:
        return "check"
    unjudged = row["verdict"] == "not_applicable" and row["measured"] is not None
    return "measured" if unjudged else str(row["verdict"])


def against(row: ClaimRow) -> str:
    """Return where the judged number lies, by the limit that the claim needs: ``within the paper's range``."""
    if row["shows"] in (None, "undecided"):
        return word("open" if row["shows"] else standing(row))
    side = "within" if row["shows"] == "yes" else "above" if row["judged"] > row["limit"] else "below"
    return side + (" the limit" if row["limit_source"] == "ours" else " the paper's range")


def first_lines(markdown: str, heading: str) -> list[str] | None:
    """Return a run's first lines, the bullets of its ``summary.md``, as text for a terminal.

    Return ``None`` if the file is stale: its heading is not ``line`` of the run's current claims.
    """
    text = re.sub(r"\\(.)", r"\1", markdown)
    if not text.startswith(f"# {heading}\n"):
        return None
    return [line.removeprefix(BULLET) for line in text.splitlines() if line.startswith(BULLET)]


def definition(rests_on: Collection[str], info: Mapping[str, Any], memories: str = "active") -> str:
    """Return in one sentence how the definition of a claim that rests on some parts differs from the paper's."""
    if info["scope"] != "model":
        return ""
    facts = {
        "gated": info.get("gated"),
        "both signs": info.get("signs", 1) > 1,
        "inactive memories": info.get("inactive_memories"),
        "norm after": info.get("norm_after"),
        "largest share": memories == "share:0.9",
        "by activity": memories == "active",
        "final norm": info.get("final_norm"),
        "parallel": info.get("wiring") == "parallel",
        "readout bias": info.get("readout_bias", True),
    }
    differences = [
        said["text"].format(function=info.get("activation", "its activation function"))
        for said in CONTENTS["difference"]
        if said["of"] in rests_on and all(map(facts.get, said["if"])) and not any(map(facts.get, said["unless"]))
    ]
    return f"On this model, {'; '.join(differences)}." if differences else ""

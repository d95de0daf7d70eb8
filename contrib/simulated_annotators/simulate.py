"""Simulate annotators who err at known rates, to try out a study and check its scoring before people annotate."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from ff_memories.annotate.annotation_files import Judgement, Pattern
from ff_memories.annotate.study import FEWEST
from ff_memories.base.draws import generator
from ff_memories.tables.annotation import SIMULATED, TYPES


@dataclass(frozen=True)
class Errors:
    """An annotator's error rates: on true patterns, on seen patterns' types, on foils and on judgements."""

    miss: float
    mistype: float
    foil: float
    misjudge: float


def annotate(number: int, errors: Errors, plan: pl.DataFrame, truth: pl.DataFrame, seed: int) -> list[Pattern]:
    """Return the records of simulated annotator ``number``, who sees the patterns of ``truth`` except for errors."""
    rng = generator(seed, f"simulated annotator {number}")
    patterns: dict[tuple[int, int], list[tuple[str, str, list[int]]]] = {}
    for layer, key, description, kind, ranks in truth.select(
        "layer", "key", "description", "type", "ranks"
    ).iter_rows():
        patterns.setdefault((layer, key), []).append((description, kind, ranks))
    out, name = [], f"{SIMULATED}-{number}"
    for row in plan.sort("order").iter_rows(named=True):
        seen = []
        if row["kind"] == "foil":
            if rng.random() < errors.foil and row["prefixes"] >= FEWEST:
                drawn = rng.choice(row["prefixes"], FEWEST, replace=False) + 1
                seen.append(("seen in noise", TYPES[rng.integers(2)], sorted(drawn.tolist())))
        else:
            for description, kind, ranks in patterns.get((row["layer"], row["key"]), []):
                if rng.random() >= errors.miss:
                    wrong = rng.random() < errors.mistype
                    seen.append((description, TYPES[1 - TYPES.index(kind)] if wrong else kind, ranks))
        place = (f"simulated annotator {number}", "", name, row["item"])
        out += [Pattern(*place, str(n), kind, text, tuple(r)) for n, (text, kind, r) in enumerate(seen, 1)]
        if not seen:
            out.append(Pattern(*place))
    return out


def judge(number: int, errors: Errors, truth: dict[str, str], seed: int) -> list[Judgement]:
    """Return simulated judgements of E14: those of ``truth`` by item, except for errors."""
    rng = generator(seed, f"simulated judge {number}")
    other = {"distant": "related", "related": "distant"}
    wrong = np.atleast_1d(rng.random(len(truth)) < errors.misjudge).tolist()
    place = f"simulated annotator {number}"
    return [
        Judgement(place, "", f"{SIMULATED}-{number}", item, other[label] if err else label)
        for (item, label), err in zip(sorted(truth.items()), wrong, strict=True)
    ]

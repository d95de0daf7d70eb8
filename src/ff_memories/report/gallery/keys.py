"""Write the parts of keys: each key's triggers with all their data, and its value's top tokens."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from ff_memories.claims.measures import MUTATIONS
from ff_memories.report.gallery.material import Material
from ff_memories.report.gallery.text import number
from ff_memories.report.passages import LONGEST

# levels of shading, from 0 to the key's highest coefficient
LEVELS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def key_parts(material: Material) -> Iterator[list[dict[str, Any]]]:
    """Yield the records of every part's keys.

    A record's fields, with one entry per trigger unless noted: ``c`` coefficients, ``t`` prefixes as text,
    ``x`` number of tokens cut off before them, ``n`` next tokens (null: the sentence ends), ``l`` lines and ``f``
    files of the corpus, ``h`` shading of the first triggers, one per token, ``g`` a 1 for each token that begins a word
    (left out where all do). ``v``: the value's [token, probability];
    ``m``: by rank [change without the first, last, random token, that token's place]; ``b``: by annotator [[rank,
    label]]; ``p``: patterns, [annotator, type, description, ranks].
    """
    triggers = material.triggers
    plain = {name: triggers[name].to_list() for name in ("rank", "coefficient", "next_token", "position")}
    place = material.sentences[triggers["sentence"].to_numpy()]
    files = {name: i for i, name in enumerate(sorted(set(material.sentences["file"])))}
    plain["line"] = place["line"].to_list()
    plain["file"] = place["file"].replace_strict(files, return_dtype=pl.Int64).to_list() if len(place) else []
    extra = _by_key(material)
    shade = _Shades(material)
    for part in material.parts():
        records = []
        for ordinal in material.keys_of(part):
            rows = range(*material.bounds[ordinal : ordinal + 2])
            records.append(_record(material, plain, rows, shade) | _value(material, ordinal) | extra.get(ordinal, {}))
        yield records


def _record(material: Material, plain: dict[str, list[Any]], rows: range, shade: "_Shades") -> dict[str, Any]:
    words, tokens, (first, end) = material.words, material.corpus.tokens, material.windows
    cut = [max(0, plain["position"][i] - LONGEST) for i in rows]
    record = {
        "c": [number(plain["coefficient"][i]) for i in rows],
        "t": [" ".join(words[t] for t in tokens[first[i] : end[i]].tolist()) for i in rows],
        "n": [None if plain["next_token"][i] is None else words[plain["next_token"][i]] for i in rows],
        "l": [plain["line"][i] for i in rows],
    }
    files = [plain["file"][i] for i in rows]
    if (begins := material.corpus.begins) is not None:  # a token that begins a word has a blank before it
        record["g"] = ["".join("01"[int(begun)] for begun in begins[first[i] : end[i]]) for i in rows]
    if any(cut):
        record["x"] = cut
    if any(files):
        record["f"] = files
    if levels := shade.of(rows, plain):
        record["h"] = levels
    return record


class _Shades:
    """Shading of each key's first triggers; the others have none."""

    def __init__(self, material: Material):
        self.flat, self.starts = material.shades
        shaded = (material.triggers["rank"] <= material.shaded).to_numpy()
        self.place = np.cumsum(shaded) - 1  # of each row among the shaded ones
        self.most = material.shaded

    def of(self, rows: range, plain: dict[str, list[Any]]) -> list[str]:
        out = []
        for i in rows:
            if plain["rank"][i] > self.most:
                break
            begin, end = self.starts[self.place[i] : self.place[i] + 2]
            share = self.flat[begin:end][-LONGEST:] / plain["coefficient"][rows[0]]
            level = np.clip(np.rint(share * (len(LEVELS) - 1)), 0, len(LEVELS) - 1).astype(int)
            out.append("".join(LEVELS[j] for j in level))
        return out


def _value(material: Material, ordinal: int) -> dict[str, Any]:
    ids, probabilities = material.tops
    pairs = zip(ids[ordinal].tolist(), probabilities[ordinal].tolist(), strict=True)
    return {"v": [[material.words[token], number(p, 4)] for token, p in pairs]}


def _by_key(material: Material) -> dict[int, dict[str, Any]]:
    """Return the mutations, labels and patterns of keys that have any, by ordinal."""
    out: dict[int, dict[str, Any]] = {}
    rows = zip(material.ordinals(material.mutations).tolist(), material.mutations.iter_rows(named=True), strict=True)
    for ordinal, row in rows:
        changes = out.setdefault(ordinal, {}).setdefault("m", {}).setdefault(row["rank"], [None, None, None, None])
        changes[MUTATIONS.index(row["mutation"])] = number(row["change"], 4)
        if row["mutation"] == "random":
            last = row["removed"] + row.get("removed_tokens", 1) - 1
            changes[3] = row["removed"] if last == row["removed"] else f"{row['removed']}–{last}"
    labels = zip(material.ordinals(material.labels).tolist(), material.labels.iter_rows(named=True), strict=True)
    for ordinal, row in labels:
        out.setdefault(ordinal, {}).setdefault("b", {}).setdefault(row["annotator"], []).append(
            [row["rank"], row["label"]]
        )
    found = zip(
        material.ordinals(material.annotations).tolist(), material.annotations.iter_rows(named=True), strict=True
    )
    for ordinal, row in found:
        entry = [row["annotator"], row["type"], row["description"], row["ranks"]]
        out.setdefault(ordinal, {}).setdefault("p", []).append(entry)
    return out

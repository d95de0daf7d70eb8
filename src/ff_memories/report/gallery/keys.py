"""Write the parts of keys: each key's triggers and weaker examples, how it fires, and what its value does."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from ff_memories.paper.keys.measures import MUTATIONS
from ff_memories.report.gallery.material import Material
from ff_memories.report.gallery.parts import number
from ff_memories.report.passages import LONGEST
from ff_memories.tables.gallery import TOP_LEVEL

KEYS_OF_A_PART = 64
# levels of shading, from 0 to the key's highest coefficient
LEVELS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
assert len(LEVELS) == TOP_LEVEL + 1
# what stands for a memory that is gone, the first that the run has, and how the gallery says it
WITHOUT = {"zero": "set to zero", "mean": "set to its mean", "resample": "taken from another prefix"}


def key_parts(material: Material) -> Iterator[list[dict[str, Any]]]:
    """Yield the records of every part's keys.

    A record's fields, with one entry per trigger unless noted: ``c`` coefficients, ``t`` prefixes as text,
    ``x`` number of tokens cut off before them, ``n`` next tokens (null: the sentence ends), ``l`` lines and ``f``
    files of the corpus, ``h`` shading, one level per token, ``g`` a 1 for each token that begins a word (left out where
    all do), ``e`` the rank of the key's best trigger with the same prefix, 0 where that is the trigger itself (left out
    where all are 0). ``v``: the tokens that the value promotes, [token, probability, logit].
    ``d``: those that it demotes, [token, logit]. ``q``: the histogram of the key's coefficients, by bin.
    ``s``: weaker examples, with the fields of triggers and ``q``, their percentiles. ``k`` and ``w``: the memories with
    the most similar keys and values, [layer, memory, cosine]. ``m``: by rank [change without the first, last, random
    token, that token's place]; ``b``: by annotator [[rank, label]]; ``p``: patterns, [annotator, type, description,
    ranks]. ``r``: what changes without the memory at validation prefixes, with the fields of triggers and ``i``, what
    became of the coefficient, ``u`` and ``o``, the change of the promoted tokens' mean logit by the value itself and
    in the end, ``a``, that of the log-probability of the model's own top token, and ``z``, whether it has another top.
    """
    triggers = _Prefixes(material, material["triggers"])
    samples = _Prefixes(material, material["samples"])
    of_samples, percentiles = material.starts(material["samples"]), material["samples"]["percentile"].to_list()
    extra, shades, fires, similar = _by_key(material), _shades(material), _histograms(material), _Similar(material)
    values, same = _Values(material), material.same_text()
    # where each trigger's rows of `levels` begin
    levels = [0, *material["triggers"]["position"].cast(pl.Int64).cum_sum()]
    without = _Without(material)
    for start in range(0, material.size, KEYS_OF_A_PART):
        records = []
        for ordinal in range(material.size)[start : start + KEYS_OF_A_PART]:
            first, end = material.bounds[ordinal : ordinal + 2].tolist()
            record = triggers.record(range(first, end))
            if shades is not None:
                record["h"] = [shades[a:b][-LONGEST:] for a, b in pairwise(levels[first : end + 1])]
            if (better := same[first:end] - first).tolist() != list(range(end - first)):
                record["e"] = [0 if i == j else j + 1 for i, j in enumerate(better.tolist())]
            weaker = range(*of_samples[ordinal : ordinal + 2].tolist())[::-1]
            if len(weaker):
                record["s"] = {"q": [percentiles[i] for i in weaker]} | samples.record(weaker)
            if ordinal in fires:
                record["q"] = fires[ordinal]
            records.append(record | values(ordinal) | similar(ordinal) | without(ordinal) | extra.get(ordinal, {}))
        yield records


class _Prefixes:
    """The texts of prefixes that a table names by sentence and position, and the tokens that follow them."""

    def __init__(self, material: Material, frame: pl.DataFrame):
        corpus = material.corpus
        self.words, self.tokens, self.begins = material.words, corpus.tokens, corpus.begins
        self.first, self.end = (ends.tolist() for ends in material.window(frame))
        sentence, position = (frame[name].to_numpy().astype(np.int64) for name in ("sentence", "position"))
        self.cut = np.maximum(0, position - LONGEST).tolist()
        self.coefficient, self.next = frame["coefficient"].to_list(), corpus.following(sentence, position).tolist()
        files = {name: i for i, name in enumerate(sorted(set(material["sentences"]["file"])))}
        lines = material["sentences"][sentence]
        self.line = lines["line"].to_list()
        self.file = lines["file"].replace_strict(files, return_dtype=pl.Int64).to_list() if len(lines) else []

    def record(self, rows: range) -> dict[str, Any]:
        words, tokens, spans = self.words, self.tokens, [slice(self.first[i], self.end[i]) for i in rows]
        record: dict[str, Any] = {
            "c": [number(self.coefficient[i]) for i in rows],
            "t": [" ".join(words[t] for t in tokens[span].tolist()) for span in spans],
            "n": [None if self.next[i] < 0 else words[self.next[i]] for i in rows],
            "l": [self.line[i] for i in rows],
        }
        if self.begins is not None:  # a token that begins a word has a blank before it
            record["g"] = ["".join("01"[int(begun)] for begun in self.begins[span]) for span in spans]
        if any(cut := [self.cut[i] for i in rows]):
            record["x"] = cut
        if any(files := [self.file[i] for i in rows]):
            record["f"] = files
        return record


def _shades(material: Material) -> str | None:
    """Return the levels of all triggers' tokens, one character each; ``None`` if the gallery shows no shading."""
    if material["levels"].is_empty():
        return None
    levels = np.minimum(material["levels"]["level"].to_numpy(), TOP_LEVEL)
    return np.frombuffer(LEVELS.encode(), dtype=np.uint8)[levels].tobytes().decode()


def _histograms(material: Material) -> dict[int, list[int]]:
    """Return by ordinal how many sampled coefficients lie in each bin, up to the last bin that has any."""
    out: dict[int, list[int]] = defaultdict(list)
    for ordinal, row in material.rows(material["histogram"]):
        out[ordinal] += [0] * (row["bin"] - len(out[ordinal]))
        out[ordinal].append(row["n"])
    return out


class _Values:
    """What each value promotes and demotes."""

    def __init__(self, material: Material):
        self.words = material.words
        self.up, self.down = (
            [material[table][name].to_numpy().reshape(material.size, -1) for name in columns]
            for table, columns in (("promoted", ("token", "probability", "logit")), ("demoted", ("token", "logit")))
        )

    def __call__(self, ordinal: int) -> dict[str, Any]:
        up, down = (
            [[self.words[t], *(number(x, 4) for x in rest)] for t, *rest in zip(*columns, strict=True)]
            for columns in ([column[ordinal].tolist() for column in own] for own in (self.up, self.down))
        )
        return {"v": up, "d": down} if down else {"v": up}


class _Without:
    """What becomes of the model's predictions at validation prefixes without the memory."""

    def __init__(self, material: Material):
        offsets, table = material.corpus.offsets, material["causal"].filter(pl.col("control") == "none")
        measured = set(table["intervention"])
        self.intervention = next((name for name in WITHOUT if name in measured), "")
        table = table.filter(pl.col("intervention").cast(pl.String) == self.intervention)
        ends = table["prefix"].to_numpy().astype(np.int64)
        sentence = np.searchsorted(offsets, ends, side="right") - 1
        table = table.with_columns(sentence=pl.Series(sentence), position=pl.Series(ends - offsets[sentence] + 1))
        self.table = table.sort("layer", "key", "coefficient", "prefix", descending=[False, False, True, False])
        self.prefixes = _Prefixes(material, self.table)
        self.bounds = material.starts(self.table).tolist()

    def __call__(self, ordinal: int) -> dict[str, Any]:
        rows = range(*self.bounds[ordinal : ordinal + 2])
        if not rows:
            return {}
        of_key = self.table[rows.start : rows.stop]
        numbers = {
            short: [number(x, 4) for x in of_key[name]]
            for short, name in (("u", "direct"), ("o", "total"), ("a", "top_log_probability"))
        }
        outcome = {"i": WITHOUT[self.intervention], "z": [int(x) for x in of_key["top_changed"]]}
        return {"r": self.prefixes.record(rows) | numbers | outcome}


class _Similar:
    """The memories with the most similar keys and values.

    With both signs, the table says so of key i without a sign. A negative cosine then means the neighbour with its
    sign changed: memory i of sign s is similar to memory j of sign s·sgn(cosine).
    """

    def __init__(self, material: Material):
        self.material, table, self.rows = material, material["similar"], defaultdict[int, list[Any]](list)
        rows = zip(table["of"], table["other_layer"], table["other_key"], table["cosine"], strict=True)
        for memory, row in zip(material.numbers(table).tolist(), rows, strict=True):
            self.rows[memory].append(row)

    def __call__(self, ordinal: int) -> dict[str, Any]:
        record: dict[str, Any] = {}
        place, keys, neurons = int(self.material.places[ordinal]), self.material.keys, self.material.neurons
        negative = neurons is not None and place % keys >= neurons
        for of, layer, key, cosine in self.rows.get(place - negative * (neurons or 0), ()):
            if neurons is not None:
                key += neurons * (negative != (cosine < 0))
                cosine = abs(cosine)
            record.setdefault("k" if of == "key" else "w", []).append([layer, key, number(cosine, 3)])
        return record


def _by_key(material: Material) -> dict[int, dict[str, Any]]:
    """Return the mutations, labels and patterns of keys that have any, by ordinal."""
    out: dict[int, dict[str, Any]] = defaultdict(dict)
    for ordinal, row in material.rows(material["mutations"]):
        changes = out[ordinal].setdefault("m", {}).setdefault(row["rank"], [None, None, None, None])
        changes[MUTATIONS.index(row["mutation"])] = number(row["change"], 4)
        if row["mutation"] == "random":
            last = row["removed"] + row.get("removed_tokens", 1) - 1
            changes[3] = row["removed"] if last == row["removed"] else f"{row['removed']}–{last}"
    for ordinal, row in material.rows(material["pattern_labels"]):
        out[ordinal].setdefault("b", {}).setdefault(row["annotator"], []).append([row["rank"], row["label"]])
    for ordinal, row in material.rows(material["annotations"]):
        entry = [row["annotator"], row["type"], row["description"], row["ranks"]]
        out[ordinal].setdefault("p", []).append(entry)
    return out

"""Write keys as Neuronpedia's features, and triggers as its activations: JSON lines, compressed with gzip.

The fields are columns of Neuronpedia's tables `Neuron` and `Activation`; docs/exports.md lists those that a run has.
Neuronpedia's importer takes its columns from the first line of a file, so every line has the same fields; a column that
no line has gets the database's default.
"""

import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ff_memories.base.text import key_and_sign
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.tokenizer import BLANK
from ff_memories.corpus.types import Types
from ff_memories.tables import HISTOGRAM_BINS

BATCH = 1024  # features in a file, as in Neuronpedia's own exports
NEGATIVE = "-neg"  # ends the name of the source of a layer's memories with sign -1
Row = dict[str, Any]


@dataclass(frozen=True)
class Names:
    """What an instance of Neuronpedia calls things.

    Attributes:
        model: the model's id.
        source_set: the set of sources, one source per layer.
        creator: the id of a user of that instance.
        data: what the activations' text is called.
    """

    model: str
    source_set: str
    creator: str
    data: str

    def source(self, layer: int, sign: int = 1) -> str:
        """Return the id of a layer's source; Neuronpedia counts layers from 0."""
        return f"{layer - 1}-{self.set_of(sign)}"

    def set_of(self, sign: int) -> str:
        return self.source_set + (NEGATIVE if sign < 0 else "")


def identifier(name: str) -> str:
    """Return a name as a model's id: letters, digits, ``_`` and ``-``."""
    return re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")[:128] or "model"


def token_texts(types: Types) -> list[str]:
    """Return each type's text with its leading blank, for tokens that are put together without blanks between them.

    A type of a fairseq dictionary is a word, and gets a leading blank.
    """
    every = (types[token] for token in range(len(types)))
    if isinstance(types, Dictionary):
        return [f" {word}" for word in every]
    return [" " + text[1:] if text.startswith(BLANK) and len(text) > 1 else text for text in every]


SHOWN = ("promoted", "demoted", "firing", "histogram", "triggers")  # tables that features are made of


def features(
    values: pl.DataFrame, shown: Mapping[str, pl.DataFrame], neurons: int | None, texts: list[str], names: Names
) -> Iterator[Row]:
    """Yield the features of one layer and sign, by key.

    Args:
        values: rows of the table `values` of that layer and sign, sorted by key.
        shown: rows of the tables ``SHOWN`` of the layer.
        neurons: d_m where both signs are memories of their own, else ``None``.
        texts: from ``token_texts``.
    """
    most = dict(shown["triggers"].filter(pl.col("rank") == 1).select("key", "coefficient").iter_rows())
    rates = dict(shown["firing"].select("key", pl.col("fired") / pl.col("prefixes")).iter_rows())
    high, low = (_lists(shown[name], "token_rank", "token", "logit") for name in ("promoted", "demoted"))
    bars = _lists(shown["histogram"], "bin", "bin", "n")
    for row in values.iter_rows(named=True):
        key, sign = key_and_sign(row["key"], neurons)
        own = row["key"]
        (up, up_logits), (down, down_logits), (bins, counts) = (of.get(own, ([], [])) for of in (high, low, bars))
        yield {
            "modelId": names.model,
            "layer": names.source(row["layer"], sign),
            "index": str(key),
            "sourceSetName": names.set_of(sign),
            "creatorId": names.creator,
            "maxActApprox": most.get(own, 0.0),
            "hasVector": False,
            "frac_nonzero": rates[own],
            "pos_str": [texts[token] for token in up],
            "pos_values": up_logits,
            "neg_str": [texts[token] for token in down],
            "neg_values": down_logits,
            "freq_hist_data_bar_heights": counts,
            "freq_hist_data_bar_values": [(at + 0.5) * most[own] / HISTOGRAM_BINS for at in bins],
        }


def _lists(frame: pl.DataFrame, by: str, *columns: str) -> dict[int, tuple[list[Any], ...]]:
    """Return the columns of a table as lists in the order of one of them, by key."""
    parts = frame.sort("key", by).group_by("key", maintain_order=True).agg(pl.col(c).alias(f"{c}s") for c in columns)
    return {key: tuple(lists) for key, *lists in parts.iter_rows()}


def activations(
    triggers: pl.DataFrame, shading: pl.DataFrame, corpus: Corpus, neurons: int | None, texts: list[str], names: Names
) -> Iterator[Row]:
    """Yield the activations of one layer and sign, by key and rank: prefixes with the coefficient after each token.

    Args:
        triggers: rows of the table `triggers` of that layer and sign; the empty prefix is left out.
        shading: rows of the table `shading` for these triggers.
        others: as of ``features``.
    """
    along = shading.sort("key", "rank", "position").group_by("key", "rank", maintain_order=True).agg("coefficient")
    rows = triggers.join(along.rename({"coefficient": "along"}), on=["key", "rank"], how="inner").sort("key", "rank")
    for row in rows.iter_rows(named=True):
        key, sign = key_and_sign(row["key"], neurons)
        values, source = row["along"], names.source(row["layer"], sign)
        tokens = [texts[token] for token in corpus.sentence(row["sentence"])[: row["position"]].tolist()]
        if len(tokens) != len(values):
            raise ValueError(f"{len(values)} coefficients along a prefix of {len(tokens)} tokens")
        most = max(values)
        name = f"{names.model} {source} {key} {row['rank']}"
        yield {
            "id": "c" + hashlib.sha256(name.encode()).hexdigest()[:24],
            "modelId": names.model,
            "layer": source,
            "index": str(key),
            "creatorId": names.creator,
            "dataIndex": str(row["sentence"]),
            "dataSource": names.data,
            "tokens": tokens,
            "maxValue": most,
            "maxValueTokenIndex": values.index(most),
            "minValue": min(values),
            "values": values,
        }


def write_lines(path: Path, rows: Iterable[Row]) -> int:
    """Write rows as compressed JSON lines, the same bytes each time; return how many. No row, no file."""
    written = 0
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    for line in lines:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as raw, gzip.GzipFile("", "wb", 5, raw, mtime=0) as file:
            file.write(line.encode())
            written += 1
            for other in lines:
                file.write(other.encode())
                written += 1
    return written


def write_batches(folder: Path, rows: Iterable[Row]) -> int:
    """Write rows to batch-N.jsonl.gz, where N is their ``index`` over ``BATCH``; they come in the order of keys."""
    held: dict[int, list[Row]] = {}
    written = 0
    for row in rows:
        batch = int(row["index"]) // BATCH
        if batch not in held:
            written += _flush(folder, held)
            held = {batch: []}
        held[batch].append(row)
    return written + _flush(folder, held)


def _flush(folder: Path, held: dict[int, list[Row]]) -> int:
    return sum(write_lines(folder / f"batch-{batch}.jsonl.gz", rows) for batch, rows in held.items())


def write_source(
    folder: Path, names: Names, layer: int, sign: int, sizes: tuple[int, int], run: str, weights: str | None = None
) -> None:
    """Write what a feature refers to: model.jsonl, release.jsonl, sourceset.jsonl and source.jsonl of one source.

    Args:
        sizes: the model's layers and keys per layer.
        weights: what quantised weights are.
    """
    whose = {"creatorId": names.creator}
    release = f"{names.model}-{names.source_set}"
    which = "memories with negative coefficients, signs changed" if sign < 0 else "memories"
    about = f"Feed-forward {which} of the run {run}: keys by their triggers, values by the tokens they promote"
    about += f"; {weights}" if weights else ""
    files = {
        "model": {
            "id": names.model,
            "displayName": names.model,
            "displayNameShort": names.model,
            "layers": sizes[0],
            "neuronsPerLayer": sizes[1],
            "owner": "",
            **whose,
        },
        "release": {
            "name": release,
            "description": f"Feed-forward memories of the run {run}",
            "urls": [],
            "creatorName": "ff-memories",
            **whose,
        },
        "sourceset": {
            "modelId": names.model,
            "name": names.set_of(sign),
            "description": about,
            "urls": [],
            "creatorName": "ff-memories",
            "releaseName": release,
            "visibility": "PUBLIC",
            **whose,
        },
        "source": {
            "modelId": names.model,
            "id": names.source(layer, sign),
            "setName": names.set_of(sign),
            "dataset": names.data,
            "visibility": "PUBLIC",
            **whose,
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, row in files.items():
        (folder / f"{name}.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")

"""Export keys and triggers as Neuronpedia's features and activations, to import into an instance of your own.

Writes OUT/MODEL/SOURCE/ for every layer: features/batch-N.jsonl.gz and activations/batch-N.jsonl.gz with 1,024 keys
each, and the rows that they refer to. The activations quote the run's text.

The fields are columns of Neuronpedia's tables `Neuron` and `Activation`; docs/exports.md lists those that a run has.
Neuronpedia's importer takes its columns from the first line of a file, so every line has the same fields; a column that
no line has gets the database's default.
"""

import argparse
import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_folder, require_new
from ff_memories.base.text import key_and_sign
from ff_memories.corpus import store
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.tokenizer import BLANK, Types, read_types
from ff_memories.model.info import neurons, quantised, read_info
from ff_memories.tables.gallery import HISTOGRAM_BINS
from ff_memories.workflow import opening
from ff_memories.workflow.run import corpus_of, refuse_unfinished

BATCH = 1024  # features in a file, as in Neuronpedia's own exports
NEGATIVE = "-neg"  # ends the name of the source of a layer's memories with sign -1
SHOWN = ("promoted", "demoted", "firing", "histogram", "triggers")  # tables that features are made of
Row = dict[str, Any]


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument("--out", required=True, type=Path, help="new folder to write to")
    parser.add_argument("--model-id", help="the instance's id of the model: gpt2-small; default: from the model's name")
    parser.add_argument("--source-set", default="ff-memories", help="name of the set of sources, one per layer")
    parser.add_argument("--creator", default="clkht01d40000jv08hvalcvly", help="id of a user of your instance")


def run(args: argparse.Namespace) -> None:
    require_new(args.out)
    refuse_unfinished(run_ := opening.opened(args.configfile))
    corpus, types = store.read(corpus_of(run_, "activations")), read_types(run_.dictionary)
    info = read_info(run_.path("model", "info.json"))
    shown = {name: tables.read(run_.table(name)) for name in (*SHOWN, "values", "shading")}
    if shown["shading"].is_empty():
        raise UserError(f"{run_.table('shading')}: has no rows", "set gallery.shaded to 1 or more, and run again")
    name = args.model_id or identifier(Path(run_.config.model.called or run_.config.run).name)
    for option, given in (("--model-id", name), ("--source-set", args.source_set)):
        if given != identifier(given):
            raise UserError(f"{option} {given}: not an id", f"such as {identifier(given)}")
    names = Names(name, args.source_set, args.creator, run_.config.corpus.source or run_.config.run)
    half, texts = neurons(info), token_texts(types)
    sizes = info["layers"], half or info["keys"]
    with atomic_folder(args.out) as folder:
        made = [0, 0]
        for layer in range(1, info["layers"] + 1):
            of_layer = {name: frame.filter(pl.col("layer") == layer) for name, frame in shown.items()}
            for sign in (1,) if half is None else (1, -1):
                here = pl.lit(True) if half is None else (pl.col("key") >= half) == (sign < 0)
                if not len(rows := of_layer["values"].filter(here).sort("key")):
                    continue
                source = folder / name / names.source(layer, sign)
                write_source(source, names, layer, sign, sizes, run_.config.run, quantised(info))
                made[0] += write_batches(source / "features", features(rows, of_layer, half, texts, names))
                triggers, shading = of_layer["triggers"].filter(here), of_layer["shading"].filter(here)
                rows_of_source = activations(triggers, shading, corpus, half, texts, names)
                made[1] += write_batches(source / "activations", rows_of_source)
    print(f"wrote {made[0]:,} features and {made[1]:,} activations to {args.out}")


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
        memory = row["key"]
        (up, up_logits), (down, down_logits), (bins, counts) = (of.get(memory, ([], [])) for of in (high, low, bars))
        yield {
            "modelId": names.model,
            "layer": names.source(row["layer"], sign),
            "index": str(key),
            "sourceSetName": names.set_of(sign),
            "creatorId": names.creator,
            "maxActApprox": most.get(memory, 0.0),
            "hasVector": False,
            "frac_nonzero": rates[memory],
            "pos_str": [texts[token] for token in up],
            "pos_values": up_logits,
            "neg_str": [texts[token] for token in down],
            "neg_values": down_logits,
            "freq_hist_data_bar_heights": counts,
            "freq_hist_data_bar_values": [(at + 0.5) * most[memory] / HISTOGRAM_BINS for at in bins],
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


def write_batches(folder: Path, rows: Iterable[Row]) -> int:
    """Write rows as compressed JSON lines, the same bytes each time; return how many.

    They come in the order of keys. Row ``index`` is in the file batch-N.jsonl.gz with N = ``index`` // ``BATCH``.
    """
    written = 0
    for batch, of_batch in groupby(rows, key=lambda row: int(row["index"]) // BATCH):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"batch-{batch}.jsonl.gz").open("wb") as raw, gzip.GzipFile("", "wb", 5, raw, mtime=0) as file:
            for row in of_batch:
                file.write((json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode())
                written += 1
    return written


def write_source(
    folder: Path, names: Names, layer: int, sign: int, sizes: tuple[int, int], run: str, weights: str | None = None
) -> None:
    """Write what a feature refers to: model.jsonl, release.jsonl, sourceset.jsonl and source.jsonl of one source.

    Args:
        sizes: the model's layers and keys per layer.
        weights: what quantised weights are.
    """
    release = f"{names.model}-{names.source_set}"
    which = "memories with negative coefficients, signs changed" if sign < 0 else "memories"
    about = f"Feed-forward {which} of the run {run}: keys by their triggers, values by the tokens they promote"
    about += f"; {weights}" if weights else ""
    layers, keys = sizes
    by_us: Row = {"urls": [], "creatorName": "ff-memories"}
    rows: dict[str, Row] = {
        "model": {"id": names.model, "displayName": names.model, "displayNameShort": names.model}
        | {"layers": layers, "neuronsPerLayer": keys, "owner": ""},
        "release": {"name": release, "description": f"Feed-forward memories of the run {run}"} | by_us,
        "sourceset": {"modelId": names.model, "name": names.set_of(sign), "releaseName": release}
        | {"description": about}
        | by_us,
        "source": {"modelId": names.model, "id": names.source(layer, sign), "setName": names.set_of(sign)}
        | {"dataset": names.data},
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, row in rows.items():
        row |= {"creatorId": names.creator, "visibility": "PUBLIC"}  # by default, a row is hidden from visitors
        (folder / f"{name}.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")

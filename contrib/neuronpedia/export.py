"""Export keys and triggers as Neuronpedia's features and activations, to import into an instance of your own.

Writes OUT/MODEL/SOURCE/ for every layer: features/batch-N.jsonl.gz and activations/batch-N.jsonl.gz with 1,024 keys
each, and the rows that they refer to. The activations quote the run's text.

The fields are columns of Neuronpedia's tables `Neuron` and `Activation`; README.md lists those that a run has.
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
from itertools import groupby, product
from pathlib import Path
from typing import Any

import polars as pl

from contrib.corpus import corpus_of
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
from ff_memories.workflow.run import refuse_unfinished

BATCH = 1024  # features in a file, as in Neuronpedia's own exports
SET = "ff-memories"  # of the sources, one per layer
NEGATIVE = "-neg"  # ends the name of the set of the memories with sign -1
SHOWN = ("values", "promoted", "demoted", "firing", "histogram", "triggers", "shading")  # tables
Row = dict[str, Any]


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument("--out", required=True, type=Path, help="new folder to write to")
    parser.add_argument("--model-id", help="the instance's id of the model: gpt2-small; default: from the model's name")
    parser.add_argument("--creator", default="clkht01d40000jv08hvalcvly", help="id of a user of your instance")


def run(args: argparse.Namespace) -> None:
    require_new(args.out)
    refuse_unfinished(run_ := opening.opened(args.configfile))
    corpus, types = store.read(corpus_of(run_, "activations")), read_types(run_.dictionary)
    info = read_info(run_.path("model", "info.json"))
    shown = {name: tables.read(run_.table(name)) for name in SHOWN}
    if shown["shading"].is_empty():
        raise UserError(f"{run_.table('shading')}: has no rows", "set gallery.shaded to 1 or more, and run again")
    model = args.model_id or identifier(Path(run_.config.model.called or run_.config.run).name)
    if model != identifier(model):
        raise UserError(f"--model-id {model}: not an id", f"such as {identifier(model)}")
    half, texts, data = neurons(info), token_texts(types), run_.config.corpus.source or run_.config.run
    n_features = n_activations = 0
    with atomic_folder(args.out) as folder:
        for layer, sign in product(range(1, info["layers"] + 1), (1,) if half is None else (1, -1)):
            source = Source(model, layer, sign, args.creator, data, texts, half)
            own = {name: source.rows(frame) for name, frame in shown.items()}
            if own["values"].is_empty():
                continue
            to = folder / model / source.id
            sizes = {"layers": info["layers"], "neuronsPerLayer": half or info["keys"]}
            write_source(to, source, sizes, run_.config.run, quantised(info))
            n_features += write_batches(to / "features", features(source, own))
            rows = activations(source, own["triggers"], own["shading"], corpus)
            n_activations += write_batches(to / "activations", rows)
    print(f"wrote {n_features:,} features and {n_activations:,} activations to {args.out}")


@dataclass(frozen=True)
class Source:
    """A source of Neuronpedia: a layer's memories of one sign."""

    model: str  # the model's id there
    layer: int  # from 1
    sign: int  # 1 or -1
    creator: str  # the id of a user of the instance
    data: str  # what the activations' text is called
    texts: list[str]  # of the tokens, from ``token_texts``
    neurons: int | None  # d_m where both signs are memories of their own

    @property
    def set(self) -> str:
        return SET + (NEGATIVE if self.sign < 0 else "")

    @property
    def id(self) -> str:
        return f"{self.layer - 1}-{self.set}"  # Neuronpedia counts layers from 0

    def rows(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of a table that are about the source's memories."""
        of_layer = table.filter(layer=self.layer)
        return of_layer if self.neurons is None else of_layer.filter((pl.col("key") >= self.neurons) == (self.sign < 0))

    def index(self, memory: int) -> str:
        return str(key_and_sign(memory, self.neurons)[0])


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


def features(source: Source, own: Mapping[str, pl.DataFrame]) -> Iterator[Row]:
    """Yield the features of a source by key; ``own``: its rows of the tables ``SHOWN``."""
    lists = lambda name, by, *columns: own[name].sort("key", by).group_by("key", maintain_order=True).agg(columns)
    rows = own["values"].select("key").sort("key")
    for more in (
        own["triggers"].filter(rank=1).select("key", most="coefficient"),
        own["firing"].select("key", rate=pl.col("fired") / pl.col("prefixes")),
        lists("promoted", "token_rank", "token", "logit"),
        lists("demoted", "token_rank", "token", "logit"),
        lists("histogram", "bin", "bin", "n"),
    ):
        rows = rows.join(more, on="key", how="left", maintain_order="left", suffix="_low")
    for row in rows.iter_rows(named=True):
        yield {
            "modelId": source.model,
            "layer": source.id,
            "index": source.index(row["key"]),
            "sourceSetName": source.set,
            "creatorId": source.creator,
            "maxActApprox": row["most"] or 0.0,
            "hasVector": False,
            "frac_nonzero": row["rate"],
            "pos_str": [source.texts[token] for token in row["token"] or []],
            "pos_values": row["logit"] or [],
            "neg_str": [source.texts[token] for token in row["token_low"] or []],
            "neg_values": row["logit_low"] or [],
            "freq_hist_data_bar_heights": row["n"] or [],
            "freq_hist_data_bar_values": [(at + 0.5) * row["most"] / HISTOGRAM_BINS for at in row["bin"] or []],
        }


def activations(source: Source, triggers: pl.DataFrame, shading: pl.DataFrame, corpus: Corpus) -> Iterator[Row]:
    """Yield the activations of a source, by key and rank: prefixes with the coefficient after each token.

    ``triggers`` and ``shading``: its rows of these tables. The empty prefix is left out.
    """
    along = shading.sort("key", "rank", "position").group_by("key", "rank", maintain_order=True).agg("coefficient")
    rows = triggers.join(along.rename({"coefficient": "along"}), on=["key", "rank"], how="inner").sort("key", "rank")
    for row in rows.iter_rows(named=True):
        key, values = source.index(row["key"]), row["along"]
        tokens = [source.texts[token] for token in corpus.sentence(row["sentence"])[: row["position"]].tolist()]
        if len(tokens) != len(values):
            raise ValueError(f"{len(values)} coefficients along a prefix of {len(tokens)} tokens")
        most = max(values)
        name = f"{source.model} {source.id} {key} {row['rank']}"
        yield {
            "id": "c" + hashlib.sha256(name.encode()).hexdigest()[:24],
            "modelId": source.model,
            "layer": source.id,
            "index": key,
            "creatorId": source.creator,
            "dataIndex": str(row["sentence"]),
            "dataSource": source.data,
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


def write_source(folder: Path, source: Source, sizes: Mapping[str, int], run: str, weights: str | None) -> None:
    """Write what a feature refers to: model.jsonl, release.jsonl, sourceset.jsonl and source.jsonl of one source.

    ``sizes``: the model's ``layers`` and ``neuronsPerLayer``. ``weights``: what quantised weights are.
    """
    model, release = source.model, f"{source.model}-{SET}"
    which = "memories with negative coefficients, signs changed" if source.sign < 0 else "memories"
    about = f"Feed-forward {which} of the run {run}: keys by their triggers, values by the tokens they promote"
    about += f"; {weights}" if weights else ""
    by_us: Row = {"urls": [], "creatorName": SET}
    of_run = f"Feed-forward memories of the run {run}"
    rows: dict[str, Row] = {
        "model": {"id": model, "displayName": model, "displayNameShort": model, **sizes, "owner": ""},
        "release": {"name": release, "description": of_run, **by_us},
        "sourceset": {"modelId": model, "name": source.set, "releaseName": release, "description": about, **by_us},
        "source": {"modelId": model, "id": source.id, "setName": source.set, "dataset": source.data},
    }
    folder.mkdir(parents=True)
    for name, row in rows.items():
        row |= {"creatorId": source.creator, "visibility": "PUBLIC"}  # by default, a row is hidden from visitors
        (folder / f"{name}.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")

"""Export chosen keys as a cache of delphi's latents: their coefficients along the sentences that trigger them.

delphi, EleutherAI's library for automatic interpretation, then explains and scores these keys without running the
model. The cache has the run's text as token ids.

It has a folder for every module, here a layer of one sign: ``<first>_<last>.safetensors`` with ``locations``
(entries, 3) of (context, position, latent - first), ``activations`` (entries,) float16 and ``tokens`` (contexts,
``WINDOW``), and ``config.json``.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors.numpy import save_file

from ff_memories import tables
from ff_memories.base.draws import generator
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_folder, require_new
from ff_memories.base.parameters import whole
from ff_memories.base.text import parse_memory
from ff_memories.corpus import store
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.tokenizer import read_types
from ff_memories.declaration import add_options, execution
from ff_memories.model.info import quantised, read_info
from ff_memories.schema import KEY, LAYER, POSITION, SENTENCE
from ff_memories.workflow import opening
from ff_memories.workflow.run import refuse_unfinished

LEAST = 1e-5  # what delphi takes for zero
WINDOW = 32  # tokens of an example: delphi cuts contexts into windows of this length, and takes no rest


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    says = "keys by layer: 3/12; 3/17- is key 17's negative coefficients, in models that count both signs"
    parser.add_argument("--keys", required=True, nargs="+", action="extend", metavar="LAYER/KEY", help=says)
    says = "random sentences to add, as examples that do not activate a key"
    parser.add_argument("--others", type=whole(0), default=500, help=says)
    parser.add_argument("--out", required=True, type=Path, help="new folder to write to")
    add_options(parser)


def run(args: argparse.Namespace) -> None:
    from ff_memories.api import Model
    from ff_memories.gallery.shading import prefix_coefficients
    from ff_memories.model.loading import load_model

    wanted = sorted({chosen(text) for text in args.keys})
    require_new(args.out)
    refuse_unfinished(run_ := opening.opened(args.configfile))
    if not run_.config.model.has_tokenizer:
        raise UserError("delphi reads tokens with a tokenizer of transformers, and this run's model has a dictionary")
    weights, path = Path(run_.path("model", "model.safetensors")), Path(run_.path("corpus", "corpus.safetensors"))
    for needed in (weights, path):
        if not needed.is_file():
            raise UserError(f"{needed}: no such file", f"run {run_.again(str(needed))}")
    triggers, corpus = tables.read(run_.table("triggers")), store.read(path)
    decoder = load_model(weights, weights.with_suffix(".json"), execution(args), run_.config.extraction.precision)
    model, by_module = Model(decoder, read_types(run_.dictionary)), defaultdict[tuple[int, int], list[int]](list)
    for layer, key, sign in wanted:
        model.require(layer, key, sign)
        by_module[layer, sign].append(key)
    memories = [(layer, model.memory(key, sign)) for layer, key, sign in wanted]
    schema = {"layer": LAYER, "key": KEY}
    of_keys = triggers.join(pl.DataFrame(memories, schema=schema, orient="row"), on=["layer", "key"], how="semi")
    if not len(of_keys):
        raise UserError("--keys: the run has no triggers of these keys", "see triggers.keys")
    sentences = contexts(of_keys, corpus, args.others, run_.config.seed)
    info = read_info(run_.path("model", "info.json"))
    context, places = tokens(sentences, corpus, info["start"])
    name = str(run_.inputs.pinned_on_hub.name if run_.inputs.pinned_on_hub else run_.inputs.model_folder)
    described = config(name, run_.config.corpus.source or run_.config.run, context)
    with atomic_folder(args.out) as folder:
        for (layer, sign), keys in by_module.items():
            rows = asked([(layer, model.memory(key, sign)) for key in keys], sentences, corpus)
            where, values = entries(prefix_coefficients(decoder, corpus, rows, args.batch_tokens)[0], places, keys)
            to = folder / "latents" / f"layers.{layer - 1}.mlp{'.neg' if sign < 0 else ''}"  # from 0, as there
            write(to, where, values, context, model.keys, described)
    print(f"wrote {len(wanted)} keys and {len(sentences)} sentences to {args.out}")
    if weights_note := quantised(info):
        print(weights_note)


def chosen(text: str) -> tuple[int, int, int]:
    """Return layer, key and sign of ``3/12`` or ``3/17-``. Raises ``UserError`` for anything else."""
    layer, slash, key = text.partition("/")
    if not slash or not (layer.isascii() and layer.isdecimal()) or len(layer) > 3 or len(key) > 7:
        raise UserError(f"--keys {text[:40]}: not a layer and a key", "give 3/12, or 3/17- for negative coefficients")
    return int(layer), *parse_memory(key)


def contexts(triggers: pl.DataFrame, corpus: Corpus, others: int, seed: int) -> np.ndarray:
    """Return the numbers of the sentences in the cache, ascending: those that trigger a key, and random others.

    ``triggers``: rows of the chosen keys. ``others``: how many training sentences besides, or all if there are fewer.
    """
    triggering = triggers["sentence"].unique().to_numpy().astype(np.int64)
    rest = np.setdiff1d(np.arange(corpus.train), triggering)
    random = generator(seed, "contexts for delphi").permutation(rest)[:others]
    return np.sort(np.concatenate([triggering, random]))


def asked(keys: list[tuple[int, int]], sentences: np.ndarray, corpus: Corpus) -> pl.DataFrame:
    """Return rows as of ``triggers`` that ask for the coefficients of (layer, key) along whole sentences."""
    memories = pl.DataFrame(keys, schema={"layer": LAYER, "key": KEY}, orient="row")
    ends = {"sentence": sentences, "position": corpus.lengths[sentences]}
    return memories.join(pl.DataFrame(ends, schema={"sentence": SENTENCE, "position": POSITION}), how="cross")


def tokens(sentences: np.ndarray, corpus: Corpus, start: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the contexts (contexts, ``WINDOW``), and where the sentences' tokens stand in them, flattened.

    A sentence follows the start token, in as many contexts as it needs; start tokens fill the last of them.
    """
    lengths = corpus.lengths[sentences].astype(np.int64)
    ends = np.cumsum(-(-(1 + lengths) // WINDOW)) * WINDOW
    begins = np.append(0, ends[:-1]) + 1
    places = np.concatenate([np.arange(at, at + n) for at, n in zip(begins, lengths, strict=True)])
    flat = np.full(ends[-1], start, dtype=np.int64)
    flat[places] = np.concatenate([corpus.sentence(sentence) for sentence in sentences.tolist()])
    return flat.reshape(-1, WINDOW), places


def entries(flat: np.ndarray, places: np.ndarray, latents: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return locations (entries, 3) and activations (entries,) of one module, above ``LEAST``, in delphi's order.

    ``flat``: coefficients along sentences, latent after latent, as of ``shading.prefix_coefficients``. ``places``: from
    ``tokens``. ``latents``: the module's keys, ascending.
    """
    coefficients = flat.reshape(len(latents), len(places)).T
    token, latent = np.nonzero(coefficients > LEAST)
    where = [*np.divmod(places[token], WINDOW), np.array(latents)[latent]]
    return np.stack(where, axis=1), coefficients[token, latent]


def write(
    folder: Path, where: np.ndarray, values: np.ndarray, context: np.ndarray, keys: int, config: dict[str, Any]
) -> None:
    """Write one module's folder. ``keys``: d_m, the number of its latents."""
    folder.mkdir(parents=True)
    small = where.max(initial=0) < 1 << 16
    tensors = {
        "locations": np.ascontiguousarray(where, np.uint16 if small else np.uint32),
        "activations": np.minimum(values, np.finfo(np.float16).max).astype(np.float16),
        "tokens": context,
    }
    save_file(tensors, folder / f"0_{keys - 1}.safetensors")
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def config(model: str, data: str, context: np.ndarray) -> dict[str, Any]:
    """Return a cache's config.json, with the names of older and newer versions of delphi."""
    return {
        "model_name": model,
        "dataset_repo": data,
        "dataset_split": "train",
        "dataset_name": "",
        "dataset_row": "text",
        "dataset_column": "text",
        "batch_size": 1,
        "ctx_len": context.shape[1],
        "cache_ctx_len": context.shape[1],
        "n_tokens": context.size,
        "n_splits": 1,
    }

"""Write chosen keys as a cache of delphi's latents, EleutherAI's library for automatic interpretation.

A cache has a folder for every module, here a layer of one sign: ``<first>_<last>.safetensors`` with ``locations``
(entries, 3) of (context, position, latent - first), ``activations`` (entries,) float16 and ``tokens`` (contexts,
length), and ``config.json``.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors.numpy import save_file

from ff_memories import tables
from ff_memories.base.draws import generator
from ff_memories.base.errors import UserError
from ff_memories.base.text import parse_memory
from ff_memories.corpus.store import Corpus

LEAST = 1e-5  # what delphi takes for zero
Chosen = tuple[int, int, int]  # layer, key, sign


def chosen(text: str) -> Chosen:
    """Return layer, key and sign of ``3/12`` or ``3/17-``. Raises ``UserError`` for anything else."""
    layer, slash, key = text.partition("/")
    if not slash or not (layer.isascii() and layer.isdecimal()) or len(layer) > 3 or len(key) > 7:
        raise UserError(f"--keys {text[:40]}: not a layer and a key", "give 3/12, or 3/17- for negative coefficients")
    return int(layer), *parse_memory(key)


def module(layer: int, sign: int) -> str:
    """Return the name of a layer's module in the cache; layers count from 0 as in `transformers`."""
    return f"layers.{layer - 1}.mlp{'.neg' if sign < 0 else ''}"


def contexts(triggers: pl.DataFrame, corpus: Corpus, others: int, seed: int) -> np.ndarray:
    """Return the numbers of the sentences in the cache, ascending: those that trigger a key, and random others.

    Args:
        triggers: rows of the chosen keys.
        others: how many other training sentences, or all of them if there are fewer.
        seed: of the draw.
    """
    own = triggers["sentence"].unique().to_numpy().astype(np.int64)
    rest = np.setdiff1d(np.arange(corpus.train), own)
    drawn = generator(seed, "contexts for delphi").permutation(rest)[:others]
    return np.sort(np.concatenate([own, drawn]))


def asked(keys: list[tuple[int, int]], sentences: np.ndarray, corpus: Corpus) -> pl.DataFrame:
    """Return rows as of ``triggers`` that ask for the coefficients of (layer, key) along whole sentences."""
    lengths = corpus.lengths[sentences]
    layer, key = (np.repeat([one[i] for one in keys], len(sentences)) for i in (0, 1))
    place = {"sentence": np.tile(sentences, len(keys)), "position": np.tile(lengths, len(keys))}
    schema = {"layer": tables.LAYER, "key": tables.KEY, "sentence": tables.SENTENCE, "position": tables.POSITION}
    return pl.DataFrame({"layer": layer, "key": key, **place}, schema=schema)


def tokens(sentences: np.ndarray, corpus: Corpus, start: int) -> np.ndarray:
    """Return the contexts (sentences, length): the start token, a sentence, and start tokens up to the same length."""
    longest = int(corpus.lengths[sentences].max())
    out = np.full((len(sentences), 1 + longest), start, dtype=np.int64)
    for row, sentence in zip(out, sentences.tolist(), strict=True):
        own = corpus.sentence(sentence)
        row[1 : 1 + len(own)] = own
    return out


def entries(flat: np.ndarray, starts: np.ndarray, latents: list[int], number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return locations (entries, 3) and activations (entries,) of one module, above ``LEAST``, in delphi's order.

    Args:
        flat, starts: coefficients along sentences, latent after latent, as of ``shading.prefix_coefficients``.
        latents: the module's keys, ascending.
        number: of sentences.
    """
    places, values = [], []
    for i in range(number * len(latents)):
        own = flat[starts[i] : starts[i + 1]]
        at = np.flatnonzero(own > LEAST)
        places.append(np.stack([np.full_like(at, i % number), at + 1, np.full_like(at, latents[i // number])], axis=1))
        values.append(own[at])
    where, what = np.concatenate(places), np.concatenate(values)
    order = np.lexsort((where[:, 2], where[:, 1], where[:, 0]))
    return where[order], what[order]


def write(
    folder: Path, places: np.ndarray, values: np.ndarray, context: np.ndarray, keys: int, config: dict[str, Any]
) -> None:
    """Write one module's folder. ``keys``: d_m, the number of its latents."""
    folder.mkdir(parents=True)
    small = places.max(initial=0) < 1 << 16
    held = {
        "locations": places.astype(np.uint16 if small else np.uint32),
        "activations": np.minimum(values, np.finfo(np.float16).max).astype(np.float16),
        "tokens": context,
    }
    save_file({name: np.ascontiguousarray(array) for name, array in held.items()}, folder / f"0_{keys - 1}.safetensors")
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

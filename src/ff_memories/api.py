"""The public functions: read a model's keys and values from Python. ``docs/api.md`` has an example of each.

Layers are numbered 1 ... L and keys 0 ... d_m - 1, as in the paper. For a fairseq model, separate tokens by spaces, as
in its training text; one that the dictionary lacks becomes ``<unk>``. For a model of `transformers`, give raw text.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
import torch

from ff_memories.base.arithmetic import Precision
from ff_memories.base.errors import UserError
from ff_memories.base.text import memory_of
from ff_memories.config.sections import Triggers
from ff_memories.corpus.dictionary import PAD, UNK, Dictionary
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.tokenizer import Types, read_types
from ff_memories.model.batches import batching
from ff_memories.model.decoder import Decoder, LanguageModel
from ff_memories.model.files import checkpoint, gguf_file
from ff_memories.model.loading import read_model, use_precision
from ff_memories.paper.keys import trigger_table, triggers
from ff_memories.paper.layers import tracing
from ff_memories.report.trace import changed_record, linked, read_setting, record


@dataclass(frozen=True)
class Model:
    """A language model with its token types, as ``load_model`` returns it."""

    decoder: LanguageModel
    dictionary: Types

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take out of a model of `transformers` the hooks that read it."""
        self.decoder.close()

    @property
    def layers(self) -> int:
        return self.decoder.description.layers

    @property
    def keys(self) -> int:
        """Number of keys per layer, d_m."""
        return self.decoder.description.keys

    @property
    def signs(self) -> int:
        """2 where a key's negative coefficients are a memory of their own, with the value -v, else 1."""
        return self.decoder.signs

    def encode(self, text: str) -> np.ndarray:
        """Return the token ids (tokens,) of a text."""
        tokens = np.array(self.dictionary.encode(text.split()), dtype=np.int32)
        if len(tokens) > self.decoder.longest:
            what = f"the text has {len(tokens)} tokens, but the model takes at most {self.decoder.longest}"
            raise UserError(what, "shorten the text")
        return tokens

    def text(self, tokens: Iterable[int]) -> str:
        return " ".join(self.dictionary.words([int(token) for token in tokens]))

    def require(self, layer: int, key: int = 0, sign: int = 1) -> None:
        """Raise ``UserError`` if the model has no such layer, key or sign."""
        if not 1 <= layer <= self.layers:
            raise UserError(f"layer {layer}: the model has layers 1 to {self.layers}")
        if not 0 <= key < self.keys:
            raise UserError(f"key {key}: layer {layer} has keys 0 to {self.keys - 1}")
        if sign not in (1, -1)[: self.signs]:
            signs = "1 and -1" if self.signs > 1 else "1 alone"
            raise UserError(f"sign {sign}: this model's memories have the sign {signs}", "see triggers.signs")

    def memory(self, key: int, sign: int = 1) -> int:
        """Return the number of a memory in a layer: of the second sign, d_m + key."""
        return memory_of(key, sign, self.decoder.neurons)


def load_model(
    checkpoint_path: str | Path,
    dictionary: str | Path | None = None,
    device: str = "cpu",
    precision: Precision = "float32",
) -> Model:
    """Load a fairseq ``transformer_lm`` checkpoint and its dictionary, a model of `transformers`, or a run's model.

    Args:
        checkpoint_path: ``model.pt``; a folder with a model of `transformers` (``config.json``, weights,
            ``tokenizer.json``); a GGUF file; or a run's ``model.safetensors`` beside its ``model.json``.
        dictionary: ``dict.txt``; of a run's model of `transformers` its ``types.json``; of a folder or GGUF file none.
        device: ``cpu``, ``cuda`` or another torch device.
        precision: as ``extraction.precision``: ``float32``, ``tf32`` or ``bfloat16``. ``tf32`` needs a GPU and applies
            to the whole process: every model uses it until you load another model.

    Raises:
        UserError: a file cannot be read, checkpoint and dictionary do not belong together, or a folder's model has its
            memories elsewhere than its family's row says.
    """
    path = Path(checkpoint_path)
    use_precision(precision, device)
    if dictionary is None:
        return _load_folder(path, device, precision)
    words = read_types(dictionary)
    if path.suffix == ".safetensors":
        decoder = read_model(path, path.with_suffix(".json"), device, precision)
    else:
        decoder = Decoder(*checkpoint.read(path), device, precision=precision)
    if decoder.description.vocab != len(words):
        raise UserError(f"{dictionary}: has {len(words)} token types, but the model has {decoder.description.vocab}")
    return Model(decoder, words)


def _load_folder(folder: Path, device: str, precision: Precision) -> Model:
    if gguf_file.looks_like(folder):
        from ff_memories.inputs import from_gguf

        folder = from_gguf.folder(folder)
    from ff_memories.inputs import model_folder, proved_model  # the library takes seconds to load
    from ff_memories.model.transformer.hooked import HookedModel

    model_folder.files_of(folder)
    proved = proved_model.take_in(folder)
    loaded = proved.model.to(device, torch.float32)
    return Model(HookedModel(loaded, proved.description, proved.family, precision), proved.tokenizer)


def memory_coefficients(model: Model, text: str, layer: int) -> torch.Tensor:
    """Return the memory coefficients of every prefix of a text in one layer, equation 1: (tokens + 1, d_m) float32.

    Row j is the prefix of j tokens; row 0 is the empty prefix, the start token alone.
    """
    model.require(layer)
    batch = model.decoder.pack([model.encode(text)])
    with torch.inference_mode():
        x = model.decoder.embed(batch)
        for block in model.decoder.layers[:layer]:
            activations = block(x, batch)
            x = activations.output
    return activations.coefficients.cpu().clone()


def trigger_examples(
    model: Model,
    sentences: Sequence[str],
    keys: Sequence[tuple[int, ...]],
    top: int = 10,
    *,
    positions: str = "inner",
    per_sentence: str = "best",
    batch_tokens: int = 4096,
) -> pl.DataFrame:
    """Find the prefixes with the highest memory coefficients of chosen keys (section 3.1).

    Args:
        model: from ``load_model``.
        sentences: the text to search.
        keys: (layer, key) pairs, or (layer, key, sign): sign -1 asks for the lowest negative coefficients, of a model
            whose ``signs`` is 2.
        top: t, the number of prefixes per key.
        positions: prefix lengths: ``inner`` 1..N-1, ``released`` 0..N-1, ``full`` 1..N.
        per_sentence: ``best`` (one prefix per sentence and key) or ``all``.
        batch_tokens: tokens per forward pass.

    Returns:
        A table of layer, key, rank, coefficient, sentence (its index in ``sentences``), position, prefix and
        next_token. The last two are text; next_token is null at the end of a sentence. Where the model's ``signs`` is
        2, ``sign`` follows key; coefficients of sign -1 have their signs changed.
    """
    for wanted in keys:
        model.require(*wanted)
    encoded = [model.encode(sentence) for sentence in sentences]
    offsets = np.concatenate([[0], np.cumsum([len(s) for s in encoded])]).astype(np.int64)
    corpus = Corpus(np.concatenate([*encoded, np.zeros(0, np.int32)]), offsets, len(encoded))
    options = Triggers().model_copy(update={"top": top, "positions": positions, "per_sentence": per_sentence})
    asked = [(layer, model.memory(*memory)) for layer, *memory in keys]
    blocks = batching.blocks(corpus.lengths)
    best = triggers.trigger_examples(model.decoder, corpus, blocks, options, batch_tokens, asked)
    rows = trigger_table.table(best, corpus).sort("layer", "key", "rank")
    pairs, neurons = rows.select("sentence", "position").iter_rows(), model.decoder.neurons
    following = [None if t is None else model.dictionary[t] for t in rows["next_token"]]
    sign = 1 - 2 * (pl.col("key") >= (neurons or 0)).cast(pl.Int8)
    named = rows if neurons is None else rows.with_columns(sign.alias("sign"), pl.col("key") % neurons)
    signs = ["sign"] if neurons else []
    return named.with_columns(
        pl.Series("prefix", [model.text(corpus.sentence(s)[:p]) for s, p in pairs], dtype=pl.String),
        pl.Series("next_token", following, dtype=pl.String),
    ).select("layer", "key", *signs, "rank", "coefficient", "sentence", "position", "prefix", "next_token")


def value_predictions(model: Model, layer: int, key: int, top: int = 10, sign: int = 1) -> pl.DataFrame:
    """Return the tokens that a value promotes most, by softmax(v E) of section 4: rank (0 = top), token, probability.

    Args:
        model: from ``load_model``.
        layer: layer, from 1.
        key: key, from 0.
        top: number of tokens, at most the vocabulary's size.
        sign: -1 for the value of the key's negative coefficients, -v, of a model whose ``signs`` is 2.
    """
    model.require(layer, key, sign)
    memory = model.memory(key, sign)
    with torch.inference_mode():
        value = model.decoder.layers[layer - 1].values[memory : memory + 1]
        best = model.decoder.vocabulary.log_probabilities(value)[0].exp().topk(min(top, len(model.dictionary)))
    tokens = [model.dictionary[token] for token in best.indices.tolist()]
    columns = {"rank": range(len(tokens)), "token": tokens, "probability": best.values.cpu().numpy()}
    return pl.DataFrame(columns, schema={"rank": pl.UInt32, "token": pl.String, "probability": pl.Float32})


def trace(
    model: Model,
    text: str,
    *,
    layers: Iterable[int] | None = None,
    top: int = 10,
    predictions: int = 5,
    projection: str = "adaptive",
    projection_seed: int = 1,
    types: str = "all",
    residual: str = "added",
    results: str | Path | None = None,
    settings: Sequence[str] = (),
) -> dict[str, Any]:
    """Show how a text goes through the memories: what each layer predicts at every prefix, and what adds most to it.

    The text runs as one sentence behind the start token. All layers run, whichever are asked for.

    Args:
        model: from ``load_model``.
        text: a text that is not empty and fits the model's window.
        layers: those to show, from 1; default: all.
        top: memories per prefix and layer, those with the largest shares |m| |v| of the layer's update.
        predictions: tokens per prediction of residual, update and output.
        projection: as ``values.projection``, how values and layers are read; default: the model's own output layer.
        projection_seed: as ``values.projection_seed``.
        types: as ``values.types``.
        residual: as ``composition.residual``.
        results: a run's folder, such as ``results/my``, if addresses of the memories in its gallery are wanted.
        settings: memories' coefficients to set at the last token, such as ``12:1034=0`` or
            ``12:1034-=x2``, its double: layer, key and, where signs matter, sign.

    Returns:
        The trace as plain data; docs/gallery.md describes its fields.

    Raises:
        UserError: the text is empty or too long, the model has no such layer, or a setting names no memory or number.
    """
    sets = [read_setting(text, model) for text in settings]
    asked = sorted(set(range(1, model.layers + 1) if layers is None else layers))
    for layer in asked:
        model.require(layer)
    words = text.split()
    if not words:
        raise UserError("the text is empty", "give at least one word")
    tokens = model.encode(text)
    if isinstance(model.dictionary, Dictionary):  # as the corpus has them
        tokens = np.where(tokens == PAD, UNK, tokens).astype(np.int32)
    values = model.decoder.vocabulary.reading(projection, projection_seed)
    values.leave_out(model.dictionary.never_trained())
    # the two of them read values alone (``steps.composition``; ``Vocabulary.reading``)
    layered = model.decoder.vocabulary if projection in ("random", "scaled") else values
    steps = tracing.trace(
        model.decoder, layered, tokens, layers=asked, top=top, predictions=predictions, residual=residual
    )
    traced = record(model, tokens, words, steps, values, types)
    if sets:
        traced |= changed_record(model, layered, tokens, sets, predictions)
    return traced if results is None else linked(traced, Path(results), model.decoder.neurons)

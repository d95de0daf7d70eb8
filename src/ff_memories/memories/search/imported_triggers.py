"""The ``triggers`` table as it is given to the steps that follow the trigger pass."""

from pathlib import Path

import polars as pl

from ff_memories import tables
from ff_memories.base.arithmetic import Precision
from ff_memories.base.errors import UserError, rebuild_hint
from ff_memories.corpus.store import Corpus
from ff_memories.model.decoder import LanguageModel


def triggers(
    path: str | Path, decoder: LanguageModel, corpus: Corpus, precision: Precision = "float32"
) -> pl.DataFrame:
    """Read a ``triggers`` table. Raises ``UserError`` where it is not one of this model, text and precision."""
    frame = tables.read(path)
    tables.require_precision(path, precision)
    columns = ("layer", "key", "sentence", "position", "next_token")
    layer, key, sentence, position, told = (frame[c].cast(pl.Int64).fill_null(-1).to_numpy() for c in columns)
    inside = (layer >= 1) & (layer <= decoder.description.layers) & (key < decoder.memories) & (sentence < len(corpus))
    ours = bool(inside.all())
    if ours:
        ours = bool(((position <= corpus.lengths[sentence]) & (told == corpus.following(sentence, position))).all())
    if not ours:
        raise UserError(f"{path}: not the triggers of this model in this text", rebuild_hint(path))
    return frame

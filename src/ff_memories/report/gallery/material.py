"""Join all the data of a gallery, tables and texts, by key."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from ff_memories.report.gallery.parts import shown
from ff_memories.report.passages import LONGEST, Texts
from ff_memories.tables import Frames


class Material:
    """The data of a gallery; ``material["triggers"]`` is one of its tables.

    ``layers``: L. ``keys``: d_m, with both signs twice. ``tables``: ``report.gallery.TABLES``; without rows, pages lack
    what a table from ``demoted`` on holds. ``top``: how many triggers of each key the gallery shows. ``neurons``: d_m
    of the model where both signs of a coefficient are keys of their own, else ``None``.
    """

    def __init__(self, layers: int, keys: int, texts: Texts, tables: Frames, top: int, neurons: int | None = None):
        self.layers, self.keys, self.neurons = layers, keys, neurons
        self.corpus = texts.corpus
        self.words = [shown(word) for word in texts.dictionary.types]
        self.tables = dict(tables)
        # the keys that the gallery shows, (size,) ascending, as (layer - 1) * d_m + key: those of ``promoted``. A key's
        # *ordinal* is its place among them, the same number where all keys are shown
        self.places = np.unique(self.numbers(tables["promoted"]))
        self.size = len(self.places)
        self.some = self.size < layers * keys
        if self.some:
            shown_keys = tables["promoted"].select("layer", "key").unique()
            for name, table in tables.items():
                if "key" in table.columns and name != "similar":
                    self.tables[name] = table.join(shown_keys, on=["layer", "key"], how="semi", maintain_order="left")
        for name in ("triggers", "levels"):  # a search must not find triggers that no page shows
            self.tables[name] = self.tables[name].filter(pl.col("rank") <= top)
        self.most_triggers: int = self["triggers"]["rank"].max() or 0  # type: ignore[assignment]  # of a key
        self.bounds = self.starts(self["triggers"])  # (keys + 1,), where each key's triggers begin
        # of each trigger, (triggers,): where the shown part of its prefix begins and ends in the corpus's tokens, and
        # the id of its last token, -1 for the empty prefix
        self.windows = start, end = self.window(self["triggers"])
        self.last_tokens = np.where(end > start, self.corpus.tokens[np.maximum(end, 1) - 1], -1).astype(np.int64)

    def __getitem__(self, name: str) -> pl.DataFrame:
        return self.tables[name]

    def of_layer(self, layer: int) -> range:
        """Return the ordinals of a layer's keys."""
        return range(*np.searchsorted(self.places, [(layer - 1) * self.keys, layer * self.keys]).tolist())

    def ordinals(self, frame: pl.DataFrame) -> np.ndarray:
        """Return the ordinal of each row's key, (rows,) int64."""
        return np.searchsorted(self.places, self.numbers(frame))

    def rows(self, frame: pl.DataFrame) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield each row of a table, with its key's ordinal."""
        return zip(self.ordinals(frame).tolist(), frame.iter_rows(named=True), strict=True)

    def numbers(self, frame: pl.DataFrame) -> np.ndarray:
        """Return each row's key as in ``places``, (rows,) int64."""
        return (frame["layer"].to_numpy().astype(np.int64) - 1) * self.keys + frame["key"].to_numpy()

    def starts(self, frame: pl.DataFrame) -> np.ndarray:
        """Return the offsets (keys + 1,) of each key's rows in a table."""
        return np.searchsorted(self.ordinals(frame), np.arange(self.size + 1))

    def same_text(self) -> np.ndarray:
        """Return the first row of each trigger's key with the same prefix, (triggers,) int64: its own, or a better."""
        tokens, offsets = self.corpus.tokens, self.corpus.offsets
        begin = offsets[self["triggers"]["sentence"].to_numpy()]
        end = begin + self["triggers"]["position"].to_numpy().astype(np.int64)
        first = np.arange(len(self["triggers"]))
        spans = list(zip(begin.tolist(), end.tolist(), strict=True))
        for a, b in pairwise(self.bounds.tolist()):
            first_row: dict[bytes, int] = {}
            for row in range(a, b):
                first[row] = first_row.setdefault(tokens[slice(*spans[row])].tobytes(), row)
        return first

    def window(self, frame: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Return start and end (rows,) of the shown part of each row's prefix, in the corpus's tokens."""
        position = frame["position"].to_numpy().astype(np.int64)
        start = self.corpus.offsets[frame["sentence"].to_numpy()]
        return start + np.maximum(0, position - LONGEST), start + position

"""Join all the data of a gallery, tables and texts, by key."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from ff_memories.corpus.store import Corpus
from ff_memories.report.gallery.parts import shown
from ff_memories.report.passages import LONGEST, Texts


@dataclass(frozen=True)
class Material:
    """The data of a gallery; ``material["triggers"]`` is one of its tables."""

    layers: int  # L
    # d_m; a key's *ordinal* is its place among the gallery's keys, (layer - 1) * d_m + key where it shows all
    keys: int
    texts: Texts  # the corpus and its dictionary
    # ``report.gallery.TABLES``. Without rows, pages lack what a table from ``demoted`` on holds
    tables: Mapping[str, pl.DataFrame]
    shown: int  # how many triggers of each key the gallery shows
    # d_m of the model where both signs of a coefficient are keys of their own, else ``None``
    neurons: int | None = None
    # whether the run or its gallery looks at some keys alone (``triggers.keys``, ``gallery.keys``): those of
    # ``promoted``
    some: bool = False
    words: list[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", [shown(word) for word in self.texts.dictionary.types])
        tables = dict(self.tables)
        if self.some:
            shown_keys = tables["promoted"].select("layer", "key").unique()
            for name, table in tables.items():
                if "key" in table.columns and name != "similar":
                    tables[name] = table.join(shown_keys, on=["layer", "key"], how="semi", maintain_order="left")
        for name in ("triggers", "levels"):  # a search must not find triggers that no page shows
            tables[name] = tables[name].filter(pl.col("rank") <= self.shown)
        object.__setattr__(self, "tables", tables)

    def __getitem__(self, name: str) -> pl.DataFrame:
        return self.tables[name]

    @property
    def corpus(self) -> Corpus:
        return self.texts.corpus

    @property
    def size(self) -> int:
        """The number of keys that the gallery shows, in all layers."""
        return len(self.places)

    @cached_property
    def places(self) -> np.ndarray:
        """The keys that the gallery shows, (size,) ascending, as (layer - 1) * d_m + key."""
        return np.unique(self.numbers(self["promoted"])) if self.some else np.arange(self.layers * self.keys)

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

    @cached_property
    def bounds(self) -> np.ndarray:
        """Offsets (keys + 1,) of each key's rows in the ``triggers`` table."""
        return self.starts(self["triggers"])

    @cached_property
    def same_text(self) -> np.ndarray:
        """The first row of each trigger's key with the same prefix, (triggers,) int64: its own where none is better."""
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

    @cached_property
    def windows(self) -> tuple[np.ndarray, np.ndarray]:
        """Start and end (triggers,) of the shown part of each trigger, in the corpus's tokens."""
        return self.window(self["triggers"])

    @cached_property
    def last_tokens(self) -> np.ndarray:
        """Id of each trigger's last token, (triggers,) int64; -1 for the empty prefix."""
        first, end = self.windows
        return np.where(end > first, self.corpus.tokens[np.maximum(end, 1) - 1], -1).astype(np.int64)

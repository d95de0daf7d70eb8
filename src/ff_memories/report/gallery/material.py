"""Join all the data of a gallery, tables and texts, by key."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl

from ff_memories.base.errors import UserError
from ff_memories.corpus.store import Corpus
from ff_memories.report.gallery.text import shown
from ff_memories.report.passages import LONGEST, Texts

KEYS_OF_A_PART = 64


@dataclass(frozen=True)
class Material:
    """The data of a gallery.

    Attributes:
        layers, keys: L and d_m. A key's *ordinal* is its place among the gallery's keys: (layer - 1) * d_m + key where
            it shows all.
        texts: the corpus and its dictionary.
        triggers, values, mutations, annotations, labels, sentences, shading, promoted: tables.
        shown: how many triggers of each key the gallery shows.
        shaded: how many of them are shaded; 0 for none.
        some: whether the run or its gallery looks at some keys alone (``triggers.keys``, ``gallery.keys``): those of
            ``promoted``.

    Raises ``UserError`` if tables and corpus belong to different models.
    """

    layers: int
    keys: int
    texts: Texts
    triggers: pl.DataFrame
    values: pl.DataFrame
    mutations: pl.DataFrame
    annotations: pl.DataFrame
    labels: pl.DataFrame
    sentences: pl.DataFrame
    shading: pl.DataFrame
    promoted: pl.DataFrame
    shown: int
    shaded: int
    some: bool = False
    words: list[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", [shown(word) for word in self.texts.dictionary.types])
        if self.some:
            own = self.promoted.select("layer", "key").unique()
            for name in ("triggers", "values", "mutations", "annotations", "labels", "shading"):
                shown_ = getattr(self, name).join(own, on=["layer", "key"], how="semi", maintain_order="left")
                object.__setattr__(self, name, shown_)
        self._check()
        # a search must not find triggers that no page shows
        object.__setattr__(self, "triggers", self.triggers.filter(pl.col("rank") <= self.shown))

    def _check(self) -> None:
        for name in ("triggers", "values", "mutations", "annotations", "labels", "shading", "promoted"):
            frame = getattr(self, name)
            if ((frame["layer"] > self.layers) | (frame["key"] >= self.keys)).any():
                raise UserError(
                    f"{name}: has a key beyond the model's last, layer {self.layers}, key {self.keys - 1}",
                    "use the tables of this run's model, or run snakemake again",
                )
        if len(self.values) != self.size:
            whose = "gallery" if self.some else "model"
            raise UserError(
                f"values: {len(self.values)} rows, but the {whose} has {self.size} values",
                "run snakemake again",
            )
        if (self.triggers["sentence"] >= len(self.corpus)).any():
            raise UserError("triggers: names a sentence that the corpus does not have", "run snakemake again")
        if (self.promoted["token"] >= len(self.words)).any() or len(self.promoted) % self.size:
            raise UserError("promoted: tokens do not match this model's values", "run snakemake again")
        rows = self.shaded_triggers.filter(pl.col("position") > 0).select("layer", "key", "rank", "position")
        known = self.shading.group_by("layer", "key", "rank", maintain_order=True).agg(pl.col("position").max())
        if not known.filter(pl.col("rank") <= self.shown).equals(rows):
            raise UserError("shading: does not match the triggers", "run snakemake again")

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
        return np.unique(self._numbers(self.promoted)) if self.some else np.arange(self.layers * self.keys)

    def of_layer(self, layer: int) -> range:
        """Return the ordinals of a layer's keys."""
        return range(*np.searchsorted(self.places, [(layer - 1) * self.keys, layer * self.keys]).tolist())

    @property
    def shaded_triggers(self) -> pl.DataFrame:
        """The rows of ``triggers`` that are shaded."""
        return self.triggers.filter(pl.col("rank") <= min(self.shaded, self.shown))

    @cached_property
    def shades(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (tokens,) after each token of the shaded triggers, and offsets (triggers + 1,) of triggers."""
        lengths = self.shaded_triggers["position"].cast(pl.Int64).to_numpy()
        flat = self.shading.filter(pl.col("rank") <= self.shown)["coefficient"].to_numpy()
        return flat, np.concatenate([[0], lengths.cumsum()]).astype(np.int64)

    @cached_property
    def tops(self) -> tuple[np.ndarray, np.ndarray]:
        """Ids and probabilities (keys, n) of the tokens that each value promotes, most probable first."""
        grid = lambda name: self.promoted[name].to_numpy().reshape(self.size, -1)
        return grid("token").astype(np.int64), grid("probability")

    def ordinals(self, frame: pl.DataFrame) -> np.ndarray:
        """Return the ordinal of each row's key, (rows,) int64."""
        return np.searchsorted(self.places, self._numbers(frame))

    def _numbers(self, frame: pl.DataFrame) -> np.ndarray:
        return (frame["layer"].to_numpy().astype(np.int64) - 1) * self.keys + frame["key"].to_numpy()

    @cached_property
    def bounds(self) -> np.ndarray:
        """Offsets (keys + 1,) of each key's rows in the ``triggers`` table."""
        return np.searchsorted(self.ordinals(self.triggers), np.arange(self.size + 1))

    @cached_property
    def windows(self) -> tuple[np.ndarray, np.ndarray]:
        """Start and end (triggers,) of the shown part of each trigger, in the corpus's tokens."""
        position = self.triggers["position"].to_numpy().astype(np.int64)
        start = self.corpus.offsets[self.triggers["sentence"].to_numpy()]
        return start + np.maximum(0, position - LONGEST), start + position

    @cached_property
    def last_tokens(self) -> np.ndarray:
        """Id of each trigger's last token, (triggers,) int64; -1 for the empty prefix."""
        first, end = self.windows
        return np.where(end > first, self.corpus.tokens[np.maximum(end, 1) - 1], -1).astype(np.int64)

    def parts(self) -> range:
        """Return the numbers of the parts of keys."""
        return range(-(-self.size // KEYS_OF_A_PART))

    def keys_of(self, part: int) -> range:
        """Return the ordinals of one part's keys."""
        return range(part * KEYS_OF_A_PART, min((part + 1) * KEYS_OF_A_PART, self.size))

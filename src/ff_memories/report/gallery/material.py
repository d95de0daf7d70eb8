"""All that a gallery shows, joined by key: tables and texts."""

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
    """What a gallery is made of.

    Attributes:
        layers, keys: L and d_m. A key's *ordinal* is (layer - 1) * d_m + key.
        texts: the corpus and its dictionary.
        triggers, values, mutations, annotations, labels, sentences, shading, promoted: tables.
        shown: triggers of each key that the gallery shows.
        shaded: of these, those that are shaded; 0 for none.

    Raises ``UserError`` where tables and corpus do not belong to one model.
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
    words: list[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", [shown(word) for word in self.texts.dictionary.types])
        self._check()
        # what a key's page does not show is not to be found by a search
        object.__setattr__(self, "triggers", self.triggers.filter(pl.col("rank") <= self.shown))

    def _check(self) -> None:
        for name in ("triggers", "values", "mutations", "annotations", "labels", "shading", "promoted"):
            frame = getattr(self, name)
            if ((frame["layer"] > self.layers) | (frame["key"] >= self.keys)).any():
                raise UserError(
                    f"{name}: a key beyond layer {self.layers}, key {self.keys - 1}, the model's last",
                    "give the tables of this run's model, or run snakemake again",
                )
        if len(self.values) != self.layers * self.keys:
            raise UserError(
                f"values: {len(self.values)} rows, the model has {self.layers * self.keys}", "run snakemake again"
            )
        if (self.triggers["sentence"] >= len(self.corpus)).any():
            raise UserError("triggers: a sentence that the corpus does not have", "run snakemake again")
        if (self.promoted["token"] >= len(self.words)).any() or len(self.promoted) % self.size:
            raise UserError("promoted: not the tokens of this model's values", "run snakemake again")
        rows = self.shaded_triggers.filter(pl.col("position") > 0).select("layer", "key", "rank", "position")
        known = self.shading.group_by("layer", "key", "rank", maintain_order=True).agg(pl.col("position").max())
        if not known.filter(pl.col("rank") <= self.shown).equals(rows):
            raise UserError("shading: not of these triggers", "run snakemake again")

    @property
    def corpus(self) -> Corpus:
        return self.texts.corpus

    @property
    def size(self) -> int:
        """Keys of all layers."""
        return self.layers * self.keys

    @property
    def shaded_triggers(self) -> pl.DataFrame:
        """The rows of ``triggers`` that are shaded."""
        return self.triggers.filter(pl.col("rank") <= min(self.shaded, self.shown))

    @cached_property
    def shades(self) -> tuple[np.ndarray, np.ndarray]:
        """(tokens,) coefficients after every token of the shaded triggers, (triggers + 1,) where each one starts."""
        lengths = self.shaded_triggers["position"].cast(pl.Int64).to_numpy()
        flat = self.shading.filter(pl.col("rank") <= self.shown)["coefficient"].to_numpy()
        return flat, np.concatenate([[0], lengths.cumsum()]).astype(np.int64)

    @cached_property
    def tops(self) -> tuple[np.ndarray, np.ndarray]:
        """(keys, n) ids and probabilities of the tokens that each value promotes, most probable first."""
        grid = lambda name: self.promoted[name].to_numpy().reshape(self.size, -1)
        return grid("token").astype(np.int64), grid("probability")

    def ordinals(self, frame: pl.DataFrame) -> np.ndarray:
        """(rows,) int64 the ordinal of each row's key."""
        return (frame["layer"].to_numpy().astype(np.int64) - 1) * self.keys + frame["key"].to_numpy()

    @cached_property
    def bounds(self) -> np.ndarray:
        """(keys + 1,) where each key's rows start in the ``triggers`` table."""
        return np.searchsorted(self.ordinals(self.triggers), np.arange(self.size + 1))

    @cached_property
    def windows(self) -> tuple[np.ndarray, np.ndarray]:
        """(triggers,) first and end of what is shown of each trigger, in the corpus's tokens."""
        position = self.triggers["position"].to_numpy().astype(np.int64)
        start = self.corpus.offsets[self.triggers["sentence"].to_numpy()]
        return start + np.maximum(0, position - LONGEST), start + position

    @cached_property
    def last_tokens(self) -> np.ndarray:
        """(triggers,) int64 id of each trigger's last token; -1 for the empty prefix."""
        first, end = self.windows
        return np.where(end > first, self.corpus.tokens[np.maximum(end, 1) - 1], -1).astype(np.int64)

    def parts(self) -> range:
        """Numbers of the parts that keys are cut into."""
        return range(-(-self.size // KEYS_OF_A_PART))

    def keys_of(self, part: int) -> range:
        """Ordinals of the keys of one part."""
        return range(part * KEYS_OF_A_PART, min((part + 1) * KEYS_OF_A_PART, self.size))

"""Hold the input of the checks: a run's tables, the model's size, and the settings that measures depend on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from ff_memories.config import Settings
from ff_memories.corpus.dictionary import SPECIALS, Dictionary
from ff_memories.corpus.tokenizer import Types, read_types
from ff_memories.judge.measures import NEAR_ZERO
from ff_memories.model.info import has_inactive
from ff_memories.tables import annotation as annotators


class Missing(Exception):
    """Raised if this run did not collect the data that a claim needs."""


@dataclass(frozen=True)
class Evidence:
    """A run's tables, and everything else that its measures depend on."""

    tables: Mapping[str, pl.DataFrame]  # by name; tables that the run did not make are absent
    layers: int  # L
    keys: int  # d_m; a memory with both signs counts once
    vocab: int  # the number of token types of the model
    signs: int = 1  # 2 if both signs of a coefficient are memories
    seed: int | None = 1  # of the bootstrap; without one, measurements have no intervals and no tests
    mean: str = "of_ratios"  # how mutation changes are averaged: ``of_ratios`` or ``of_sums``
    prediction: str = "ffn_top"  # the ``composition`` column of the layer's prediction, ``ffn_top`` or ``output_top``
    one_softmax: bool = False  # whether r, y and o share one softmax with linear logits, so the logits add up
    stop_words: frozenset[int] = field(default_factory=frozenset)  # token ids
    inactive: bool = True  # whether memories can be inactive (``model.info.has_inactive``)
    selects: bool = True  # whether the memories that can agree are fewer than all
    every: bool = False  # whether all can, active or not (``composition.memories``)
    adaptive: bool = False  # whether the output layer is adaptive, so ranks are not uniform by chance
    activation: str = "relu"  # the activation function's name, for messages
    # coefficients below this share of their layer's largest one count as near zero (``NEAR_ZERO``)
    near_zero: float = NEAR_ZERO["float32"]

    @classmethod
    def of_run(
        cls, config: Settings, info: Mapping[str, Any], dictionary: Path, tables: Mapping[str, pl.DataFrame]
    ) -> "Evidence":
        """Return the evidence of a run from its config, model info, dictionary and tables."""
        inactive, memories = has_inactive(info), config.composition.memories
        return cls(
            tables=tables,
            layers=info["layers"],
            keys=(keys := info.get("neurons", info["keys"])),
            signs=info["keys"] // keys,
            vocab=info["vocab"],
            seed=config.seed,
            mean=config.mutations.mean,
            prediction="output_top" if config.composition.layer_prediction == "output" else "ffn_top",
            one_softmax=not info["final_norm"]
            and (config.values.projection in ("flat", "head") or not info["adaptive_output"]),
            stop_words=stop_words(config.composition.stop_words, read_types(dictionary)),
            inactive=inactive,
            selects=memories == "share:0.9" or (memories == "active" and inactive),
            every=memories == "all",
            adaptive=bool(info["adaptive_output"]),
            activation=info.get("activation", "relu" if inactive else "this activation function"),
            near_zero=NEAR_ZERO[config.precision],
        )

    def table(self, name: str) -> pl.DataFrame:
        """Return a table. Raises ``Missing`` if this run did not make it."""
        if name not in self.tables:
            raise Missing(f"no table {name!r} in this run")
        return self.tables[name]

    def beside(self) -> "tuple[str, Evidence] | None":
        """Return the other choice of ``values.types`` and its evidence, if the tables have both choices."""
        columns = self.tables.get("values", pl.DataFrame()).columns
        types = next((types for types in ("all", "trained") if f"top_token_{types}" in columns), None)
        if types is None:
            return None
        suffixed = cs.ends_with(f"_{types}")
        bare = suffixed.name.map(lambda name: name.removesuffix(f"_{types}"))
        return types, replace(self, tables={n: t.with_columns(bare).drop(suffixed) for n, t in self.tables.items()})

    def labels(self, name: str) -> tuple[pl.DataFrame, bool]:
        """Return people's rows of a table of judgements, or else the proxy's, and whether they are the proxy's.

        Raises ``Missing`` if the table is empty.
        """
        labels = annotators.preferred(self.table(name))
        if labels.is_empty():
            raise Missing("nothing has been annotated")
        return labels, annotators.ANNOTATOR in labels["annotator"]


def stop_words(source: str, dictionary: Types) -> frozenset[int]:
    """Return the ids of the tokens that are stop words (section 5.1), comparing whole tokens in lower case.

    From ``sklearn``, ``spacy`` (a run that chooses it is refused without it), ``top50`` or ``top100`` alphabetic types.
    """
    if source == "sklearn":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS as words
    elif source == "spacy":
        from spacy.lang.en.stop_words import STOP_WORDS as words
    else:  # a dictionary file lists its types by decreasing frequency
        alphabetic = [word for word in dictionary.types[len(SPECIALS) :] if word.isalpha()]
        words = frozenset(word.lower() for word in alphabetic[: int(source.removeprefix("top"))])
    first = len(SPECIALS) if isinstance(dictionary, Dictionary) else 0
    return frozenset(i for i, word in enumerate(dictionary.types[first:], first) if word.lower() in words)

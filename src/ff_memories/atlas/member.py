"""One run of an atlas: its model info, text, tables, verdicts and settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ff_memories.config import Config

NEEDED = ("mutations", "values", "composition", "refinement")
PATTERNS = "pattern_labels"
BEYOND_PAPER = ("causal", "removals")  # tables that a run may lack, or have without rows
Tables = dict[str, pl.DataFrame]


@dataclass(frozen=True)
class Text:
    """What a run read, as far as it is known.

    Attributes:
        source: the text's name in the registry of sources.
        form: ``raw`` for models of `transformers`, ``tokenised`` for fairseq's.
        sha256: of all files together.
        files: the files' paths, if the config names files instead of a source.
        sentences: a digest of the table ``sentences``.
    """

    source: str | None = None
    form: str = ""
    sha256: str | None = None
    files: tuple[str, ...] = ()
    sentences: str | None = None

    @classmethod
    def of(cls, config: Config | None, root: Path, sentences: str | None) -> "Text":
        """Return a run's text from its config (``None`` if unknown), its project's folder and its sentences."""
        if config is None:
            return cls(sentences=sentences)
        corpus = config.corpus
        files = tuple(str(root / path) for path in (*corpus.train.files, *corpus.validation.files))
        form = "raw" if config.model.has_tokenizer else "tokenised"
        return cls(corpus.source, form, corpus.sha256, files, sentences)

    @property
    def known(self) -> bool:
        return bool(self.source or self.sha256 or self.files)


@dataclass(frozen=True)
class Member:
    """One run of an atlas.

    Attributes:
        folder: as the user typed it.
        name: of the run.
        label: its name in figures and tables.
        info: its model info.
        resolved: its config as plain data without ``auto``; ``None`` if unknown.
        unknown: why its config is unknown; empty if it is known.
        text: what it read.
        tables: by name; ``pattern_labels`` has only the proxy's rows, and is absent if it has none; those of
            ``BEYOND_PAPER`` may be absent or have no rows.
        untrained: the same tables of models of its shape with random weights, one mapping per seed.
        claims: {claim: its verdict, as the report shows it, and its measured value}.
        step: what its line is coloured by, if the atlas is drawn over something.
    """

    folder: Path
    name: str
    label: str
    info: Mapping[str, Any]
    resolved: Mapping[str, Any] | None
    unknown: str
    text: Text
    tables: Tables
    untrained: Sequence[Tables]
    claims: Mapping[str, Mapping[str, Any]]
    step: float | None = None

    @property
    def neurons(self) -> int:
        """d_m: memories per layer; one with both signs counts once."""
        return int(self.info.get("neurons", self.info["keys"]))

    @property
    def seed(self) -> int:
        return int(self.resolved["seed"]) if self.resolved else 1

    @property
    def mean(self) -> str:
        """Return how changes of coefficients are averaged over a key's triggers."""
        return str(self.resolved["mutations"]["mean"]) if self.resolved else "of_ratios"

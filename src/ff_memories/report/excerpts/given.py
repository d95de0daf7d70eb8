"""What Tables 1 to 3 are made from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from ff_memories.config import Settings
from ff_memories.report.passages import Texts

Made = tuple[str, str, str]  # HTML, CSV and LaTeX


@dataclass(frozen=True)
class Given:
    """A run's tables by name, its texts, its model info, its settings, and how many rows a long table has at most."""

    tables: Mapping[str, pl.DataFrame]
    texts: Texts
    info: Mapping[str, Any]
    config: Settings
    rows: int

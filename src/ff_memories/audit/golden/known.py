"""The known numbers of a named checkpoint, and of the triggers that the paper shows."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from ff_memories.base.errors import UserError
from ff_memories.corpus.dictionary import Dictionary


def expected(path: Path) -> dict[str, Any]:
    """Read a checkpoint's known numbers. Raises ``UserError`` if the file is not valid TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not valid TOML: {error}", "check the registry's key `golden`") from None


def endings(
    triggers: pl.DataFrame, last_token: Callable[[int, int], int | None], dictionary: Dictionary, known: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return, for each key of G6, the share of its triggers whose last word is one of the known words."""
    out = []
    for at in known.get("endings", []):
        own = triggers.filter((pl.col("layer") == at["layer"]) & (pl.col("key") == at["key"])).sort("rank").head(25)
        ids = {dictionary.ids[word] for word in at["words"] if word in dictionary.ids}
        hits = [last_token(row["sentence"], row["position"]) in ids for row in own.iter_rows(named=True)]
        out.append({**at, "found": sum(hits) / len(hits) if hits else 0.0, "n": len(hits)})
    return out

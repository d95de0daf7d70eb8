"""Which rows a run's job uses of what the package keys by name: another family, figure or source changes nothing."""

import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from ff_memories.config import Config
from ff_memories.workflow.meaning.reached import FIGURES, UsedRows, tables

CONFIG = "ff_memories.config.whole:Config"
FAMILIES = "ff_memories.model.rows.families:FAMILIES"
TRANSFORMERS = "ff_memories.model.transformer"
REGISTRY = "inputs/registry.toml"
CLAIMS = "claims/claims.toml"
# what steps that show one thing, named by a wildcard, use of it
OF_SHOWN = {
    "figure": (f"{FIGURES}:*",),
    "table": ("ff_memories.steps.table:FILES", "ff_memories.report.excerpts:EXCERPTS"),
}
# steps that read some claims, each by its check; all others that read claims read all
CLAIMS_OF = {
    "agreeing": {"composition.agreeing_short_prefixes"},
    "figure": {"patterns.shallow_then_semantic"},
}


def rows(
    step: str,
    config: Config,
    sections: Collection[str],
    files: Iterable[str],
    folder: str | None,
    shown: str | None = None,
) -> UsedRows:
    """Return the rows that a job uses.

    Args:
        step: the name of its module.
        sections: the config's sections that it is given.
        files: what it reads and writes; tables have their rows' names.
        folder: the folder of a model of `transformers`, if the run has one on this machine.
        shown: the figure or table that it shows, if it shows one.
    """
    out: dict[str, frozenset[str]] = {
        CONFIG: frozenset(sections),
        REGISTRY: frozenset(config.source_names()),
    }
    written = frozenset(Path(file).stem for file in files if file.endswith(".parquet"))
    out |= dict.fromkeys(tables().values(), written)
    if config.model.library != "transformers":
        out |= {FAMILIES: frozenset(), TRANSFORMERS: frozenset()}
    elif folder is not None:
        out[FAMILIES] = frozenset(_model_types(Path(folder, "config.json")))
    if step in CLAIMS_OF:
        out[CLAIMS] = frozenset(CLAIMS_OF[step])
    if shown is not None:
        out |= dict.fromkeys(OF_SHOWN[step], frozenset({shown}))
    return out


def _model_types(path: Path) -> Iterator[str]:
    """Yield every ``model_type`` in a model's config; the model inside another has its own."""
    waiting: list[Any] = []
    try:
        waiting.append(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if isinstance(part.get("model_type"), str):
                yield part["model_type"]
            waiting += part.values()

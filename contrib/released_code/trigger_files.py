"""Write trigger examples as the released code does: one JSON line per dimension, and one text file per key."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import polars as pl
from pydantic import Field, FiniteFloat, TypeAdapter, ValidationError

from ff_memories.base.errors import UserError


@dataclass(frozen=True)
class Trigger:
    """The fields of a trigger that we read; the released code writes more."""

    fc1_value: int | FiniteFloat
    token_indice: Annotated[float, Field(ge=0, multiple_of=1, allow_inf_nan=False)]
    text: Annotated[str, Field(min_length=1)]


@dataclass(frozen=True)
class Record:
    """One JSON line: a dimension and its triggers in every layer."""

    dim: Annotated[int, Field(ge=0, lt=2**32)]
    top_values: Annotated[list[list[Trigger]], Field(min_length=1)]


_RECORD = TypeAdapter(Record)


def jsonl(triggers: pl.DataFrame, texts: dict[int, str], layers: int, dims: Iterable[int], top: int) -> Iterator[str]:
    """Yield one line per dimension: its ``top`` triggers in every layer, best first."""
    held: dict[tuple[int, int], list[tuple[Any, ...]]] = {}
    columns = ("layer", "key", "coefficient", "sentence", "position")
    for layer, key, *entry in triggers.sort("layer", "key", "rank").select(columns).iter_rows():
        held.setdefault((layer, key), []).append(tuple(entry))
    for key in dims:
        values = []
        for layer in range(layers):
            entries = held.get((layer + 1, key), [])[:top]
            entries = entries + [(0.0, 0, 0)] * (top - len(entries))
            values.append(
                [
                    {
                        "rank": rank,
                        "layer_index": layer,
                        "token_indice": float(position),
                        "fc1_value": coefficient,
                        "text": texts[sentence],
                    }
                    for rank, (coefficient, sentence, position) in enumerate(entries)
                ]
            )
        yield json.dumps({"dim": key, "top_values": values})


def record(line: bytes, place: str) -> Record:
    """Parse one line of ``jsonl``'s or the released code's file. Raises ``UserError`` naming the place."""
    try:
        return _RECORD.validate_json(line, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "".join(f"{part}: " for part in [".".join(map(str, first["loc"]))] if part)
        raise UserError(
            f"{place}: not a dimension with its triggers ({where}{first['msg']})",
            "give a file that `python -m contrib.released_code triggers` or the released code wrote",
        ) from None


def key_files(found: Record, place: str, tokenize: Callable[[str], list[str]]) -> Iterator[tuple[str, str]]:
    """Yield (file name, content) for each layer of a ``record``: lines of value, tab, prefix with a starred next token.

    The tokenizer for printing differs from the one for scoring (it keeps hyphens within words), so the starred token is
    not always the one after the prefix. The released files have the same mismatch.

    Raises:
        UserError: a text has no token; the message names the place.
    """
    for layer, triggers in enumerate(found.top_values):
        rows = []
        for trigger in triggers:
            words = tokenize(trigger.text)[: int(trigger.token_indice) + 1]
            if not words:
                raise UserError(f"{place}: a text with layer_index {layer} has no token", "remove this trigger")
            words[-1] = f"*{words[-1]}*"
            rows.append(f"{trigger.fc1_value}\t{' '.join(words)}\n")
        yield f"{found.dim}_{layer}.txt", "".join(rows)

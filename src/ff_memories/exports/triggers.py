"""Trigger examples as the released code writes them: one JSON line per dimension, and one text file per key."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import polars as pl


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


def key_files(line: str, tokenize: Callable[[str], list[str]]) -> Iterator[tuple[str, str]]:
    """Yield (file name, content) per layer of one line of ``jsonl``: value, tab, prefix with the next token starred.

    The printer's tokenizer differs from the scorer's (it leaves hyphens within words), so the starred token can be
    another than the one after the prefix: this is so in the released files, too.
    """
    record = json.loads(line)
    for layer, triggers in enumerate(record["top_values"]):
        rows = []
        for trigger in triggers:
            words = tokenize(trigger["text"])[: int(trigger["token_indice"]) + 1]
            words[-1] = f"*{words[-1]}*"
            rows.append(f"{trigger['fc1_value']}\t{' '.join(words)}\n")
        yield f"{record['dim']}_{layer}.txt", "".join(rows)

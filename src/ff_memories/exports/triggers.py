"""Trigger examples as the released code writes them: one JSON line per dimension, and one text file per key."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl

from ff_memories.corpus.text import lines


def sentence_texts(sentences: pl.DataFrame) -> dict[int, str]:
    """Return every sentence's text as it stands in the text files: {sentence number: blank-separated words}.

    Args:
        sentences: the ``sentences`` table, or the rows that are wanted and those that follow them on their lines.
    """
    out = {}
    for (file,), rows in sentences.sort("sentence").group_by("file", maintain_order=True):
        wanted: dict[int, list[tuple[int, int]]] = {}
        for number, line, first in rows.select("sentence", "line", "first_token").iter_rows():
            wanted.setdefault(line, []).append((first, number))
        for line, content in lines(Path(file)):
            if starts := wanted.get(line):
                words = content.split()
                ends = [first for first, _ in starts[1:]] + [len(words)]
                for (first, number), end in zip(starts, ends, strict=True):
                    out[number] = " ".join(words[first:end])
    return out


def jsonl(triggers: pl.DataFrame, texts: dict[int, str], layers: int, keys: int, top: int) -> Iterator[str]:
    """Yield one line per dimension: its ``top`` triggers in every layer, best first."""
    held: dict[tuple[int, int], list[tuple]] = {}
    columns = ("layer", "key", "coefficient", "sentence", "position")
    for layer, key, *entry in triggers.sort("layer", "key", "rank").select(columns).iter_rows():
        held.setdefault((layer, key), []).append(tuple(entry))
    for key in range(keys):
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

"""Tabulate the agreement of values with their keys' triggers like the released script, from every key's text file."""

import html
import json
from collections import Counter
from pathlib import Path

import torch

from contrib.released_code import seeds
from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file
from ff_memories.corpus.dictionary import UNK, Dictionary
from ff_memories.model.decoder import Decoder
from ff_memories.model.vocabulary import Vocabulary

COLUMNS = (
    "layer",
    "W2_dim",
    "max_prob",
    "embedding_index",
    "embedding_token",
    "embedding_token_target_count",
    "target_rankings",
)

Row = tuple[int, int, float, int, str, int, list[int]]  # in the order of ``COLUMNS``


def target(record: str) -> str:
    """Return a record's target as the script reads it: the token *before* the starred one, unescaped."""
    words = record.split(" ")
    if len(words) < 2:
        return "<s>"
    word = html.unescape(words[-2])
    return f"<{word}>" if word in ("unk", "pad") else word


def targets(path: Path) -> Counter[str]:
    """Return how often each target occurs in a key's file. Raises ``UserError`` if the file is missing."""
    require_file(path)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise UserError(
            f"{path}: no such file", "write all keys' files with python -m contrib.released_code texts"
        ) from None
    return Counter(target(line.split("\t")[1]) for line in lines if line)


def rows(
    decoder: Decoder, vocabulary: Vocabulary, dictionary: Dictionary, folder: Path, state: torch.Tensor | None = None
) -> list[Row]:
    """Return the script's rows (``COLUMNS``), with the rank of every target, grouped and the most frequent first.

    ``state``: the state of torch's generator, for the dropout that the script leaves on; ``None``: no dropout.
    """
    out = []
    for layer, block in enumerate(decoder.layers):
        counts = [targets(folder / f"{key}_{layer}.txt") for key in range(len(block.values))]
        wanted = [(key, word, n) for key, found in enumerate(counts) for word, n in found.most_common()]
        ids = torch.tensor([dictionary.ids.get(word, UNK) for _, word, _ in wanted], device=decoder.device)
        which = torch.tensor([key for key, _, _ in wanted], device=decoder.device)
        if state is not None:
            tops, maxima, ranks, state = seeds.predictions(vocabulary, block.values, state, which, ids)
        else:
            top = vocabulary.predict(block.values)
            tops, maxima = top.top.tolist(), top.probability.tolist()
            ranks = vocabulary.predict(block.values[which], ids).target_rank.tolist()
        rankings: dict[int, list[int]] = {}
        for (key, _, n), rank in zip(wanted, ranks, strict=True):
            rankings.setdefault(key, []).extend([rank] * n)
        for key, (token, probability) in enumerate(zip(tops, maxima, strict=True)):
            word = dictionary[token]
            out.append((layer, key, probability, token, word, counts[key].get(word, 0), rankings[key]))
    return out


def tsv(table: list[Row]) -> str:
    """Return rows as the script's TSV."""
    quoted = lambda value: '"' + value.replace('"', '""') + '"' if set(value) & set('"\t\n') else value
    shown = [[quoted(v) if isinstance(v, str) else str(v) for v in row] for row in table]
    return "".join("\t".join(cells) + "\n" for cells in [COLUMNS, *shown])


def max_probabilities(table: list[Row], keys: int) -> str:
    """Return the script's JSON: every value's top probability, (layers, d_m)."""
    flat = [row[2] for row in table]
    return json.dumps([flat[i : i + keys] for i in range(0, len(flat), keys)], indent=4)

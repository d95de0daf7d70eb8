"""The text: its sentences."""

import polars as pl

from ff_memories.schema import SENTENCE, Column, Schema

TABLES = {
    "sentences": Schema(
        about="every sentence of the corpus and its place in the text files",
        by={"sentence": SENTENCE},
        fields={
            "split": Column(pl.Enum(["train", "validation"])),
            "file": Column(pl.String),
            "line": Column(pl.UInt32),
            "first_token": Column(pl.UInt32),
            "tokens": Column(pl.UInt16),
            # of sentences that begin or end inside a word: characters of it before the sentence, and of the sentence
            "first_character": Column(pl.UInt32, null=True, optional=True),
            "characters": Column(pl.UInt32, null=True, optional=True),
        },
    ),
}

"""The sentences of the text."""

import polars as pl

from ff_memories.tables.schema import SENTENCE, Column, Schema

SPLIT = pl.Enum(["train", "validation"])
SAMPLED = "tokens_sampled_from_the_model"  # a reason in the table `counts` of the step `corpus`

TABLES = {
    "sentences": Schema(
        about="every sentence of the corpus and its place in the text files",
        by={"sentence": SENTENCE},
        fields={
            "split": Column(SPLIT),
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

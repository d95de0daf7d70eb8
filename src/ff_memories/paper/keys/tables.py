"""Tables of section 3: triggers, how often keys fire, and what removing a token changes."""

import polars as pl

from ff_memories.schema import KEY, LAYER, POSITION, RANK, SENTENCE, TOKEN, Column, Schema

MUTATION = pl.Enum(["first", "last", "random"])


def relative_change(mutated: pl.Expr, coefficient: pl.Expr) -> pl.Expr:
    """Return how much of a coefficient a mutation adds to it, as the column ``change`` has it: -0.5 halves it."""
    return mutated / coefficient - 1


TABLES = {
    "triggers": Schema(
        about="E1: every key's triggers, the prefixes with its highest memory coefficients",
        by={"layer": LAYER, "key": KEY, "rank": RANK},
        fields={
            "coefficient": Column(pl.Float32, compared="coefficient"),
            "sentence": Column(SENTENCE),
            "position": Column(POSITION),
            "next_token": Column(TOKEN, null=True),
        },
        measured=True,
        score="coefficient",
        open_rows=True,
    ),
    "firing": Schema(
        about="how often every key fires: of so many prefixes of the training text (`triggers.positions`), "
        "`fired` have a positive memory coefficient",
        by={"layer": LAYER, "key": KEY},
        fields={"fired": Column(pl.UInt64, compared="count"), "prefixes": Column(pl.UInt64)},
        measured=True,
    ),
    "mutations": Schema(
        about="E3: memory coefficients of triggers with one token removed; with `mutations.unit: word`, with "
        "the `removed_tokens` tokens of a word removed, of which `removed` is the first",
        by={"layer": LAYER, "key": KEY, "rank": RANK, "mutation": MUTATION},
        fields={
            "removed": Column(pl.UInt16),
            "coefficient": Column(pl.Float32, compared="coefficient"),
            "mutated": Column(pl.Float32, compared="coefficient"),
            "change": Column(pl.Float32, compared="follows"),
            "removed_tokens": Column(pl.UInt16, optional=True),
        },
        measured=True,
        open_rows=True,
        of_baselines=True,
    ),
}

"""What only the gallery shows of memories."""

import polars as pl

from ff_memories.schema import KEY, LAYER, POSITION, RANK, SENTENCE, TOKEN, Column, Schema

HISTOGRAM_BINS = 20
TOP_LEVEL = 61  # of the table `levels`

TABLES = {
    "promoted": Schema(
        about="the tokens that every value promotes most, for the gallery; `token_rank` 0 is the top token. "
        "`logit` is what the value adds to the token's log-probability under a vector of zeros, less the "
        "mean over the vocabulary",
        by={"layer": LAYER, "key": KEY, "token_rank": pl.UInt16},
        fields={
            "token": Column(TOKEN),
            "probability": Column(pl.Float32, compared="probability"),
            "logit": Column(pl.Float32, optional=True, compared="logit"),
        },
        measured=True,
        score="probability",
    ),
    "demoted": Schema(
        about="the tokens that every value demotes most, for the gallery; `token_rank` 0 has the lowest `logit` "
        "(as in `promoted`)",
        by={"layer": LAYER, "key": KEY, "token_rank": pl.UInt16},
        fields={"token": Column(TOKEN), "logit": Column(pl.Float32, compared="logit")},
        measured=True,
        score="logit",
    ),
    "shading": Schema(
        about="every key's memory coefficient after each token of its best triggers, for the gallery",
        by={"layer": LAYER, "key": KEY, "rank": RANK, "position": POSITION},
        fields={"coefficient": Column(pl.Float32, compared="coefficient")},
        measured=True,
        open_rows=True,
    ),
    "levels": Schema(
        about="how high every key's memory coefficient is after each token of a shown trigger, for the gallery: "
        f"0 for none or less, {TOP_LEVEL} for the key's largest",
        by={"layer": LAYER, "key": KEY, "rank": RANK, "position": POSITION},
        fields={"level": Column(pl.UInt8)},
        measured=True,
        open_rows=True,
    ),
    "histogram": Schema(
        about="every key's positive coefficients in a random sample of the training text, for the gallery: how "
        f"many lie in each of {HISTOGRAM_BINS} equal bins from 0 to the coefficient of its top trigger; empty bins "
        "have no row",
        by={"layer": LAYER, "key": KEY, "bin": pl.UInt8},
        fields={"n": Column(pl.UInt32, compared="count")},
        measured=True,
        open_rows=True,
    ),
    "samples": Schema(
        about="prefixes of that sample on which a key fires, for the gallery: at these percentiles of its "
        "positive coefficients; a key that fires on few prefixes has fewer",
        by={"layer": LAYER, "key": KEY, "percentile": pl.UInt8},
        fields={
            "coefficient": Column(pl.Float32, compared="coefficient"),
            "sentence": Column(SENTENCE),
            "position": Column(POSITION),
        },
        measured=True,
        tied=0.5,
        open_rows=True,
    ),
    "similar": Schema(
        about="the memories of any layer with the most similar keys and values, by cosine, for the gallery. "
        "With both signs, the most similar up to sign: a negative cosine is a similarity to that memory "
        "with its sign changed",
        by={"layer": LAYER, "key": KEY, "of": pl.Enum(["key", "value"]), "place": pl.UInt8},
        fields={
            "other_layer": Column(LAYER),
            "other_key": Column(KEY),
            "cosine": Column(pl.Float32, compared="coefficient"),
        },
        measured=True,
    ),
}

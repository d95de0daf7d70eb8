"""What a run measures: of its text, its memories (the paper's sections 3 and 4), its layers (section 5)."""

import polars as pl

from ff_memories.tables.schema import (
    COEFFICIENT,
    COUNT,
    EXAMPLE,
    FOLLOWS,
    KEY,
    LAYER,
    LOGIT,
    POSITION,
    PROBABILITY,
    RANK,
    SENTENCE,
    STATISTIC,
    TOKEN,
    Column,
    Schema,
    both,
)

SPLIT = pl.Enum(["train", "validation"])
SAMPLED = "tokens_sampled_from_the_model"  # a reason in the table `counts` of the step `corpus`
MUTATION = pl.Enum(["first", "last", "random"])
FOLDED = {  # of models of `transformers`
    "agrees_folded": Column(pl.Boolean, null=True, optional=True),
    "agreeing_triggers_folded": Column(pl.UInt16, optional=True),
}
PREDICTED = {
    "top_token": Column(TOKEN),
    "top_probability": Column(pl.Float32, compared=PROBABILITY),
    "next_token_rank": Column(pl.UInt32, null=True),
    "agrees": Column(pl.Boolean, null=True),
    "agreeing_triggers": Column(pl.UInt16),
}
KIND = pl.Enum(["residual", "agreement", "composition", "ffn"])
PREFIX = pl.UInt32  # the number of its last token in the corpus
INTERVENTION = pl.Enum(["mean", "zero", "resample", "double"])
CONTROL = pl.Enum(["none", "matched", "direction", "inactive"])
CHOSEN_BY = pl.Enum(["size", "margin"])
HISTOGRAM_BINS = 20
TOP_LEVEL = 61  # of the table `levels`

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
    # ---- keys and values: sections 3 and 4
    "triggers": Schema(
        about="E1: every key's triggers, the prefixes with its highest memory coefficients",
        by={"layer": LAYER, "key": KEY, "rank": RANK},
        fields={
            "coefficient": Column(pl.Float32, compared=COEFFICIENT),
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
        fields={
            "fired": Column(pl.UInt64, compared=COUNT),
            "prefixes": Column(pl.UInt64),
        },
        measured=True,
    ),
    "mutations": Schema(
        about="E3: memory coefficients of triggers with one token removed; with `mutations.unit: word`, with "
        "the `removed_tokens` tokens of a word removed, of which `removed` is the first",
        by={"layer": LAYER, "key": KEY, "rank": RANK, "mutation": MUTATION},
        fields={
            "removed": Column(pl.UInt16),
            "coefficient": Column(pl.Float32, compared=COEFFICIENT),
            "mutated": Column(pl.Float32, compared=COEFFICIENT),
            "change": Column(pl.Float32, compared=FOLLOWS),
            "removed_tokens": Column(pl.UInt16, optional=True),
        },
        measured=True,
        open_rows=True,
        of_baselines=True,
    ),
    "values": Schema(
        about="E4-E7: every value's prediction, and how it compares with the tokens that follow its key's "
        "triggers; `folded` counts types that differ only in case and in blanks around them as one",
        by={"layer": LAYER, "key": KEY},
        fields={
            "top_token": PREDICTED["top_token"],
            "top_probability": PREDICTED["top_probability"],
            "next_token": Column(TOKEN, null=True),
            "next_token_rank": PREDICTED["next_token_rank"],
            "agrees": PREDICTED["agrees"],
            "agreeing_triggers": PREDICTED["agreeing_triggers"],
            "triggers": Column(pl.UInt16),
            **FOLDED,
            **both(PREDICTED | FOLDED),
        },
        measured=True,
        of_baselines=True,
    ),
    "projection_seeds": Schema(
        about="ranks of the top triggers' targets by layer, under the released script's random projections "
        "(`random`, one row per seed) and the model's own softmax (`adaptive`, seed 0); `moved` is the "
        "share of ranks that differ from the model's own, and the quartiles cover the `n_tail` targets "
        "outside the softmax's head",
        by={"projection": pl.Enum(["adaptive", "random"]), "seed": pl.UInt64, "layer": LAYER},
        fields={
            "n": Column(pl.UInt32, compared=STATISTIC),
            "agreement": Column(pl.Float64, compared=STATISTIC),
            "moved": Column(pl.Float64, compared=STATISTIC),
            "n_tail": Column(pl.UInt32, compared=STATISTIC),
            "q1": Column(pl.Float64, null=True, compared=STATISTIC),
            "median": Column(pl.Float64, null=True, compared=STATISTIC),
            "q3": Column(pl.Float64, null=True, compared=STATISTIC),
        },
    ),
    # ---- the gallery
    "promoted": Schema(
        about="the tokens that every value promotes most, for the gallery; `token_rank` 0 is the top token. "
        "`logit` is what the value adds to the token's log-probability under a vector of zeros, less the "
        "mean over the vocabulary",
        by={"layer": LAYER, "key": KEY, "token_rank": pl.UInt16},
        fields={
            "token": Column(TOKEN),
            "probability": Column(pl.Float32, compared=PROBABILITY),
            "logit": Column(pl.Float32, optional=True, compared=LOGIT),
        },
        measured=True,
        score="probability",
    ),
    "demoted": Schema(
        about="the tokens that every value demotes most, for the gallery; `token_rank` 0 has the lowest `logit` "
        "(as in `promoted`)",
        by={"layer": LAYER, "key": KEY, "token_rank": pl.UInt16},
        fields={
            "token": Column(TOKEN),
            "logit": Column(pl.Float32, compared=LOGIT),
        },
        measured=True,
        score="logit",
    ),
    "shading": Schema(
        about="every key's memory coefficient after each token of its best triggers, for the gallery",
        by={"layer": LAYER, "key": KEY, "rank": RANK, "position": POSITION},
        fields={
            "coefficient": Column(pl.Float32, compared=COEFFICIENT),
        },
        measured=True,
        open_rows=True,
    ),
    "levels": Schema(
        about="how high every key's memory coefficient is after each token of a shown trigger, for the gallery: "
        f"0 for none or less, {TOP_LEVEL} for the key's largest",
        by={"layer": LAYER, "key": KEY, "rank": RANK, "position": POSITION},
        fields={
            "level": Column(pl.UInt8),
        },
        measured=True,
        open_rows=True,
    ),
    "histogram": Schema(
        about="every key's positive coefficients in a random sample of the training text, for the gallery: how "
        f"many lie in each of {HISTOGRAM_BINS} equal bins from 0 to the coefficient of its top trigger; empty bins "
        "have no row",
        by={"layer": LAYER, "key": KEY, "bin": pl.UInt8},
        fields={
            "n": Column(pl.UInt32, compared=COUNT),
        },
        measured=True,
        open_rows=True,
    ),
    "samples": Schema(
        about="prefixes of that sample on which a key fires, for the gallery: at these percentiles of its "
        "positive coefficients; a key that fires on few prefixes has fewer",
        by={"layer": LAYER, "key": KEY, "percentile": pl.UInt8},
        fields={
            "coefficient": Column(pl.Float32, compared=COEFFICIENT),
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
            "cosine": Column(pl.Float32, compared=COEFFICIENT),
        },
        measured=True,
    ),
    # ---- layers: section 5, and what removing memories does
    "examples": Schema(
        about="the validation prefixes on which the layers are observed (section 5)",
        by={"example": EXAMPLE},
        fields={
            "sentence": Column(SENTENCE),
            "position": Column(POSITION),
            "next_token": Column(TOKEN, null=True),
            "model_top": Column(TOKEN),
        },
        measured=True,
        of_baselines=True,
    ),
    "composition": Schema(
        about="E8-E10: how many memories are active, and how many agree with their layer's prediction; "
        "`effective` is the participation ratio of their energies",
        by={"example": EXAMPLE, "layer": LAYER},
        fields={
            "active": Column(pl.UInt16),
            "ffn_top": Column(TOKEN),
            "output_top": Column(TOKEN),
            "agreeing_memories": Column(pl.UInt16),
            "effective": Column(pl.Float32, optional=True, compared=PROBABILITY),
            **both({"agreeing_memories": Column(pl.UInt16)}),
        },
        measured=True,
        of_baselines=True,
    ),
    "agreeing": Schema(
        about="E10 by layer: how often stop words and short prefixes occur when some memory agrees, and in all cases",
        by={"layer": LAYER},
        fields={
            "pairs": Column(pl.UInt32),
            "agreeing": Column(pl.UInt32),
            "agreeing_stop_word": Column(pl.Float64, null=True),
            "every_stop_word": Column(pl.Float64),
            "agreeing_next_stop_word": Column(pl.Float64, null=True),
            "every_next_stop_word": Column(pl.Float64, null=True),
            "agreeing_short": Column(pl.Float64, null=True),
            "every_short": Column(pl.Float64),
        },
        compared=FOLLOWS,
    ),
    "refinement": Schema(
        about="E11-E13: the predictions of the residual, the feed-forward and the output at every layer",
        by={"example": EXAMPLE, "layer": LAYER},
        fields={
            "residual_top": Column(TOKEN),
            "ffn_top": Column(TOKEN),
            "output_top": Column(TOKEN),
            "model_top": Column(TOKEN),
            "residual_probability": Column(pl.Float32, compared=PROBABILITY),
            "kind": Column(KIND),
        },
        measured=True,
        of_baselines=True,
    ),
    "causal": Schema(
        about="beyond the paper: what changes at a validation prefix if a memory's `coefficient` is `set_to` another "
        "number; a `prefix` is named by the number of its last token in the corpus. `direct` is what the removed or "
        "added vector itself does to the mean logit of the ten tokens that the memory's value promotes, `total` what "
        "happens when the layers above run again, `total_frozen` the same with the final norm held, and `other_total` "
        "the same of another memory's ten tokens. Controls look at the same tokens and change another thing: the "
        "`matched_key` that is active there, a random direction, or the prefix (`other_prefix`, where the memory is "
        "inactive and as much of its value is added). `loss`, `top_log_probability` and `kl` are changes too",
        by={"layer": LAYER, "key": KEY, "prefix": PREFIX, "intervention": INTERVENTION, "control": CONTROL},
        fields={
            "matched_key": Column(KEY, null=True),
            "other_prefix": Column(PREFIX, null=True),
            "coefficient": Column(pl.Float32, compared=COEFFICIENT),
            "set_to": Column(pl.Float32, compared=COEFFICIENT),
            "direct": Column(pl.Float32, compared=LOGIT),
            "total": Column(pl.Float32, compared=LOGIT),
            "total_frozen": Column(pl.Float32, compared=LOGIT),
            "other_total": Column(pl.Float32, compared=LOGIT),
            "top_log_probability": Column(pl.Float32, compared=LOGIT),
            "loss": Column(pl.Float32, null=True, compared=LOGIT),
            "kl": Column(pl.Float32, compared=LOGIT),
            "top_changed": Column(pl.Boolean),
        },
        measured=True,
        open_rows=True,
        of_baselines=True,
    ),
    "removals": Schema(
        about="beyond the paper: what happens at a validation prefix, named as in `causal`, if the coefficients of "
        "`removed` memories of a layer become zero together. `by` size: those with the largest |m| |v|, of whose sum "
        "they have a `share`; `by` margin: the one that adds most to the margin of the layer's own prediction over its "
        "second token. `layer_top_changed`: whether the layer's prediction, top(y), is another without them; the other "
        "columns are the model's, as in `causal`",
        by={"layer": LAYER, "prefix": PREFIX, "by": CHOSEN_BY, "removed": pl.UInt16},
        fields={
            "share": Column(pl.Float32, compared=PROBABILITY),
            "layer_top_changed": Column(pl.Boolean),
            "top_changed": Column(pl.Boolean),
            "top_log_probability": Column(pl.Float32, compared=LOGIT),
            "loss": Column(pl.Float32, null=True, compared=LOGIT),
            "kl": Column(pl.Float32, compared=LOGIT),
        },
        measured=True,
        of_baselines=True,
    ),
}

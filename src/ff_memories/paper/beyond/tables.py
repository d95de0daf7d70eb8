"""Tables beyond the paper: what changing and removing memories does."""

import polars as pl

from ff_memories.schema import KEY, LAYER, Column, Schema

PREFIX = pl.UInt32  # the number of its last token in the corpus
INTERVENTION = pl.Enum(["mean", "zero", "resample", "double"])
CONTROL = pl.Enum(["none", "matched", "direction", "inactive"])
CHOSEN_BY = pl.Enum(["size", "margin"])

TABLES = {
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
            "coefficient": Column(pl.Float32, compared="coefficient"),
            "set_to": Column(pl.Float32, compared="coefficient"),
            **dict.fromkeys(
                ("direct", "total", "total_frozen", "other_total", "top_log_probability"),
                Column(pl.Float32, compared="logit"),
            ),
            "loss": Column(pl.Float32, null=True, compared="logit"),
            "kl": Column(pl.Float32, compared="logit"),
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
            "share": Column(pl.Float32, compared="probability"),
            "layer_top_changed": Column(pl.Boolean),
            "top_changed": Column(pl.Boolean),
            "top_log_probability": Column(pl.Float32, compared="logit"),
            "loss": Column(pl.Float32, null=True, compared="logit"),
            "kl": Column(pl.Float32, compared="logit"),
        },
        measured=True,
        of_baselines=True,
    ),
}

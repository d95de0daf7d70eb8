"""What a value's prediction is compared with (section 4): the token after a trigger, or the trigger's last one."""

import numpy as np
import polars as pl

from ff_memories.corpus.dictionary import BOS
from ff_memories.corpus.store import Corpus


def targets(triggers: pl.DataFrame, corpus: Corpus, target: str) -> pl.DataFrame:
    """Return triggers with the ``target`` token that a value is compared with.

    ``next``: the token after the prefix (the paper), null where the sentence ends. ``last``: the prefix's own last
    token (the released code), ``<s>`` for the empty prefix.
    """
    if target == "next":
        return triggers.with_columns(pl.col("next_token").alias("target"))
    position = triggers["position"].to_numpy().astype(np.int64)
    at = corpus.offsets[triggers["sentence"].to_numpy()] + np.maximum(position, 1) - 1
    token = pl.Series("target", corpus.tokens[at].astype(np.uint32))
    return triggers.with_columns(pl.when(pl.col("position") > 0).then(token).otherwise(BOS).alias("target"))

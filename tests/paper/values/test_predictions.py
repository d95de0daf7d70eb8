"""What values predict, where only some tokens are asked for."""

import numpy as np
import polars as pl
import pytest
import tiny

from ff_memories.paper.values import values as predictions


@pytest.mark.parametrize("never", [[], [3, 17, 40]])
def test_values_that_predict_an_asked_token_are_found_by_a_part_of_the_vocabulary(never):
    decoder = tiny.analysed(tiny.model("llama"), signs=2)
    decoder.vocabulary.leave_out(never)
    grid = (decoder.description.layers, decoder.memories)
    whole = predictions.value_predictions(decoder, decoder.vocabulary, np.full(grid, -1))
    tokens = [np.unique(tops[:5]) for tops in whole["trained"].top]
    columns = {"layer": pl.UInt8, "key": pl.UInt16, "top_token": pl.UInt32, "top_token_trained": pl.UInt32}
    found = predictions.every_top(decoder, decoder.vocabulary, pl.DataFrame(schema=columns), "all", tokens)
    for types, tops in found.items():
        asked = np.stack([np.isin(*layer) for layer in zip(whole[types].top, tokens, strict=True)])
        assert (tops[asked] == whole[types].top[asked]).all()
        for layer, top in enumerate(tops):
            assert not np.isin(top[~asked[layer]], tokens[layer]).any()
    assert (found["all"] == -1).any()

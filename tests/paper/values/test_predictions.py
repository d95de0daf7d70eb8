"""What values predict, where only some tokens are asked for."""

import numpy as np
import polars as pl
import pytest
import tiny
from factories import words, write_checkpoint

from ff_memories.config.sections import Values
from ff_memories.corpus.store import Corpus
from ff_memories.model.decoder import Decoder
from ff_memories.model.files import checkpoint
from ff_memories.paper.values import values as predictions

COLUMNS = {"layer": pl.UInt8, "key": pl.UInt16, "top_token": pl.UInt32, "top_token_trained": pl.UInt32}


@pytest.mark.parametrize("never", [[], [3, 17, 40]])
def test_values_that_predict_an_asked_token_are_found_by_a_part_of_the_vocabulary(never):
    decoder = tiny.analysed(tiny.model("llama"), signs=2)
    decoder.vocabulary.leave_out(never)
    grid = (decoder.description.layers, decoder.memories)
    whole = predictions.value_predictions(decoder, decoder.vocabulary, np.full(grid, -1))
    tokens = [np.unique(tops[:5]) for tops in whole["trained"].top]
    found = predictions.every_top(decoder, decoder.vocabulary, pl.DataFrame(schema=COLUMNS), Values(), tokens)
    for types, tops in found.items():
        asked = np.stack([np.isin(*layer) for layer in zip(whole[types].top, tokens, strict=True)])
        assert (tops[asked] == whole[types].top[asked]).all()
        for layer, top in enumerate(tops):
            assert not np.isin(top[~asked[layer]], tokens[layer]).any()
    assert (found["all"] == -1).any()


def test_values_that_the_table_lacks_are_read_at_the_length_of_those_that_it_has(tmp_path):
    write_checkpoint(tmp_path / "model.pt", words(44), seed=5)
    decoder = Decoder(*checkpoint.read(tmp_path / "model.pt"))
    for layer, times in zip(decoder.layers, (0.1, 1, 30), strict=True):
        layer.values.mul_(times)  # of an adaptive softmax, a longer value may predict another word
    grid, tokens = (decoder.description.layers, decoder.memories), [np.arange(48)] * 3
    none = pl.DataFrame(schema=COLUMNS)
    own, mean = (
        predictions.every_top(decoder, decoder.vocabulary, none, Values(length=length), tokens)["all"]
        for length in ("own", "mean")
    )
    read = predictions.value_predictions(decoder, decoder.vocabulary, np.full(grid, -1), length="mean")["all"]
    assert (mean == read.top).all() and (mean != own).any()


def test_the_empty_prefix_ends_with_the_models_start_token():
    decoder = tiny.analysed(tiny.model("gpt2"))
    corpus = Corpus(np.array([5, 6, 7], np.int32), np.array([0, 3]), 1)
    keys, rows = [(1, 0), (1, 1)], {"layer": [1, 1], "key": [0, 1], "rank": [1, 1], "sentence": [0, 0]}
    triggers = pl.DataFrame(rows | {"position": [0, 2], "next_token": [5, 7]})
    found = predictions.table(decoder, decoder.vocabulary, triggers, corpus, Values(target="last"), keys)
    assert found["next_token"].to_list() == [decoder.start, 6] and decoder.start > 0

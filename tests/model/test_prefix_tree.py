"""A forest runs every distinct prefix once, only as far as it is read, and gives what sentences alone give."""

import numpy as np
import polars as pl
import torch
from factories import words, write_checkpoint
from hypothesis import given
from hypothesis import strategies as st

from ff_memories.corpus.store import Corpus
from ff_memories.model.batches import prefix_tree
from ff_memories.model.decoder import Batch, Decoder
from ff_memories.model.files import checkpoint
from ff_memories.paper.keys.mutations import mutated_paths

PATHS = st.lists(st.lists(st.integers(4, 6), max_size=20), min_size=1, max_size=12, unique_by=tuple)


def decoder(tmp_path):
    write_checkpoint(tmp_path / "model.pt", words(44), seed=3, decoder_layers=4)
    return Decoder(*checkpoint.read(tmp_path / "model.pt"), dtype=torch.float64)


def reads_of(paths, rng, n=30):
    path = rng.integers(0, len(paths), n)
    position = np.array([rng.integers(0, len(paths[p]) + 1) for p in path])
    return path, position, rng.integers(1, 5, n)


@given(PATHS, st.integers(0, 99))
def test_rows_are_the_distinct_prefixes_each_as_deep_as_it_is_read(paths, seed):
    paths = [np.array(p, dtype=np.int64) for p in sorted(paths)]
    path, position, layer = reads_of(paths, np.random.default_rng(seed))
    depth = {tuple(p[:n]): 0 for p in paths for n in range(len(p) + 1)}
    for p, n, deep in zip(path, position, layer, strict=True):
        for shorter in range(n + 1):
            prefix = tuple(paths[p][:shorter])
            depth[prefix] = max(depth[prefix], deep)
    made = prefix_tree.PrefixTree(paths, path, position, layer)
    assert len(made.tokens) == len(depth)
    assert sum(made.level_rows[1 : made.depth + 1]) == sum(depth.values())
    assert made.depth == max(depth.values())


def test_reads_are_those_of_sentences_alone(tmp_path):
    model, rng = decoder(tmp_path), np.random.default_rng(1)
    paths = sorted({tuple(rng.integers(4, 7, rng.integers(0, 19))) for _ in range(40)})
    paths = [np.array(p, dtype=np.int64) for p in paths]
    path, position, layer = reads_of(paths, rng, 90)
    made = prefix_tree.PrefixTree(paths, path, position, layer)
    x, seen = model.embed(made), {}
    for index, block in enumerate(model.layers[: made.depth]):
        level = made.level(index + 1)
        residual = block.attend(x[: made.level_rows[index + 1]], level)
        seen[index + 1] = residual[torch.from_numpy(made.row[layer == index + 1])]
        above = made.level_rows[index + 2]
        x = residual[:above] + block.combine(block.coefficients(residual[:above]))
    for at, deep in {*zip(path, layer, strict=True)}:
        batch = Batch.pack([paths[at]])
        y = model.embed(batch)
        for block in model.layers[:deep]:
            residual = block.attend(y, batch)
            y = residual + block.combine(block.coefficients(residual))
        own = path[layer == deep] == at
        torch.testing.assert_close(seen[deep][torch.from_numpy(own)], residual[position[layer == deep][own]])


@given(PATHS, st.integers(1, 40))
def test_cut_keeps_all_paths_in_order_and_within_the_budget(paths, budget):
    paths = [np.array(p, dtype=np.int64) for p in sorted(paths)]
    parts = list(prefix_tree.cut(paths, budget))
    assert [i for part in parts for i in part] == list(range(len(paths)))
    for part in parts:
        prefixes = {tuple(p[:n]) for p in paths[part.start : part.stop] for n in range(1, len(p) + 1)}
        assert len(prefixes) <= budget or len(part) == 1


def test_no_mutated_text_is_the_beginning_of_another():
    corpus = Corpus(np.array([4, 5, 6, 4, 5, 6, 6, 5, 6], np.int32), np.array([0, 3, 7, 9]), 3)
    rows = pl.DataFrame(
        {"sentence": [0, 0, 0, 1, 1, 1, 2], "position": [3, 3, 3, 4, 4, 2, 2], "removed": [1, 2, 3, 4, 2, 2, 1]}
    ).with_columns(removed_tokens=pl.lit(1))
    paths, path = mutated_paths(corpus, rows)
    texts = [tuple(p) for p in paths]
    assert texts == sorted(set(texts))
    assert not any(a != b and b[: len(a)] == a for a in texts for b in texts)
    for row, at in zip(rows.iter_rows(), path, strict=True):
        sentence, position, removed, _ = row
        mutated = np.delete(corpus.sentence(sentence)[:position], removed - 1)
        assert texts[at][: position - 1] == tuple(mutated)

"""The benchmark measures every row once, and what it compares with finds what the engine finds."""

import pytest
import torch

from tools.benchmarks import methods
from tools.benchmarks.measures import plans
from tools.benchmarks.models import SIZES, random_corpus, random_decoder

pytestmark = pytest.mark.more

SIZE = SIZES["quick"]


def test_the_plain_way_finds_the_coefficients_that_the_engine_finds():
    decoder, corpus = random_decoder(SIZE), random_corpus(1500, SIZE.cutoffs[-1])
    best, running = methods.lists(decoder, SIZE.top), methods.RunningLists(decoder, SIZE.top)
    ways = (methods.engine(decoder, corpus, "all", best), methods.hook_and_cache(decoder, corpus, running))
    with torch.inference_mode():
        for part in plans(corpus, 256):
            for way in ways:
                way(part)
    best.finish()
    for layer in range(SIZE.layers):
        entries, rank = best.ranked(layer)
        ours = torch.zeros(SIZE.top, SIZE.keys)
        ours[rank - 1, entries.key] = entries.coefficient
        assert (ours > 0).any()
        assert (running.value[layer] >= ours - 1e-5).all()  # it looks at </s> too, which is no prefix: never below ours

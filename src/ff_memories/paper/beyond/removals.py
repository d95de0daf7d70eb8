"""What removing a layer's strongest memories together does to its prediction, and to the model's; beyond the paper.

At the last token of a validation prefix, the coefficients of some memories of one layer become zero, and the layers
above run again. Removed are the memories that add most to the layer, by |m_i| |v_i|, or the single one that the layer's
own prediction owes most to. A layer's prediction is read off its update y by the model's own output layer.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import torch

from ff_memories import tables
from ff_memories.base.parameters import WHOLE, Shard
from ff_memories.corpus.store import Corpus
from ff_memories.model.batches import batching
from ff_memories.model.decoder import AnyLayer, LanguageModel
from ff_memories.model.interventions import (
    LOGITS,
    TINY,
    HeldNorm,
    added_to_output,
    logit_vectors,
    prediction_changes,
    run_changed,
)
from ff_memories.model.matmul import linear, require_finite, widened
from ff_memories.model.vocabulary import Vocabulary
from ff_memories.paper.beyond.survey import drawn_prefixes

MARGIN, SIZE = "margin", "size"  # by what memories are chosen


def asked(numbers: Sequence[int], neurons: int) -> list[int]:
    """Return the numbers of memories that a layer can lose."""
    return [n for n in numbers if n <= neurons]


def tested(corpus: Corpus, seed: int, prefixes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where memories are removed, sentences and positions (n,): the first prefixes that `causal` may test."""
    sentence, position = drawn_prefixes(corpus, seed)
    return sentence[::2][:prefixes], position[::2][:prefixes]


def reasons(corpus: Corpus, seed: int, options: Any, neurons: int) -> dict[str, int]:
    """Return what the ``counts`` table says; ``options``: the config's section."""
    return {
        "prefixes_missing": options.prefixes - len(tested(corpus, seed, options.prefixes)[0]),
        "numbers_above_the_layers_memories": len(options.memories) - len(asked(options.memories, neurons)),
    }


def table(
    decoder: LanguageModel, corpus: Corpus, options: Any, seed: int, batch_tokens: int, shard: Shard = WHOLE
) -> pl.DataFrame:
    """Return the table ``removals`` of a shard; ``options``: the config's section."""
    layers, numbers = decoder.description.layers, asked(options.memories, decoder.description.keys)
    sentence, position = tested(corpus, seed, options.prefixes)
    prefix, following = corpus.offsets[sentence] + position - 1, corpus.following(sentence, position)
    parts: list[pl.DataFrame] = []

    def run(part: np.ndarray) -> None:
        texts = [corpus.sentence(sentence[i])[: position[i]] for i in part]
        gone, share, changed = zip(*chosen(decoder, texts, numbers), strict=True)
        layer, which, row = (axis.ravel() for axis in np.indices((layers, len(texts), 1 + len(numbers))))

        def vectors(number: int, _: np.ndarray, m: torch.Tensor) -> torch.Tensor:
            return _lost(decoder.layers[number - 1], gone[number - 1], m)

        ends = run_changed(decoder, texts, which, layer + 1, vectors)
        rows = {
            "layer": layer + 1,
            "prefix": prefix[part][which],
            "by": np.array([MARGIN, *[SIZE] * len(numbers)])[row],
            "removed": np.array([1, *numbers])[row],
            "share": np.stack(share).ravel(),
            "layer_top_changed": np.stack(changed).ravel(),
            **prediction_changes(decoder.vocabulary, ends, following[part][which]),
        }
        parts.append(pl.DataFrame(rows).with_columns(pl.col("loss").fill_nan(None)))

    batches = batching.by_length(position, batch_tokens, shard, layers * (1 + len(numbers)))
    batching.run_batches(run, batches, "prefixes without memories", "removals", of="prefix")
    return tables.concat("removals", parts)


def chosen(
    decoder: LanguageModel, prefixes: Sequence[np.ndarray], numbers: Sequence[int]
) -> list[tuple[torch.Tensor, np.ndarray, np.ndarray]]:
    """Return what is removed from each layer at the ends of prefixes, which come by length.

    Of each layer: which memories are gone, (prefixes, rows, d_m) bool; their share of the sum of |m_i| |v_i|,
    (prefixes, rows) float64, 0 where nothing has any; and whether the layer predicts another token without them,
    (prefixes, rows) bool. The first row is that by margin, the others those by size, of ``numbers`` of memories.
    """
    batch, vocabulary, out = decoder.pack(prefixes), decoder.vocabulary, []
    x = decoder.embed(batch)
    for number, block in enumerate(decoder.layers, 1):
        layer_output = block(x, batch)
        x, m, y = layer_output.output, layer_output.coefficients[batch.last], widened(layer_output.update[batch.last])
        require_finite(f"layer {number}: memory coefficients and updates", m, y)
        added, values = (widened(v[: m.shape[1]]) for v in (block.added, block.values))
        sizes, top = m.abs() * values.norm(dim=1), vocabulary.read_tops(y)
        order = sizes.argsort(dim=1, descending=True, stable=True)
        along = margin_vectors(vocabulary, block, m, y, top, second(vocabulary, y, top))
        best = (m * linear(widened(along).to(m.dtype), added)).argmax(1)  # of what each memory adds to the margin
        picked = [best[:, None], *(order[:, :n] for n in numbers)]
        none = torch.zeros_like(m, dtype=torch.bool)
        gone = torch.stack([none.scatter(1, memories, True) for memories in picked], 1)
        whole, lost = sizes.double().sum(1, keepdim=True), torch.where(gone, sizes[:, None].double(), 0).sum(2)
        each = torch.arange(len(m), device=m.device).repeat_interleave(len(picked))
        without = vocabulary.read_tops(y[each] + added_to_output(block, m[each], _lost(block, gone, m[each]))[0])
        share, changed = lost / whole.clamp(min=TINY), (without != top[each]).view(len(m), -1)
        out.append((gone, share.cpu().numpy(), changed.cpu().numpy()))
    return out


def _lost(block: AnyLayer, gone: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    """Return what m V gains without some memories (rows, d), by their coefficients (rows, d_m)."""
    return -linear(torch.where(gone.flatten(0, 1), m, 0), widened(block.added[: m.shape[1]]).t())


def second(vocabulary: Vocabulary, y: torch.Tensor, top: torch.Tensor) -> torch.Tensor:
    """Return the tokens (rows,) that layer vectors (rows, d) predict most besides their ``top`` ones."""
    tokens = []
    for rows in torch.arange(len(y), device=y.device).split(max(1, LOGITS // vocabulary.size)):
        log_probabilities = vocabulary.log_probabilities(vocabulary.output(y[rows]), whole=True)
        tokens.append(log_probabilities.scatter(1, top[rows, None], -torch.inf).argmax(1))
    return torch.cat(tokens)


def margin_vectors(
    vocabulary: Vocabulary, block: AnyLayer, m: torch.Tensor, y: torch.Tensor, top: torch.Tensor, other: torch.Tensor
) -> torch.Tensor:
    """Return (rows, d) what a change of m V is multiplied by to give that of the margin of a layer's prediction.

    The margin is the logit of y's top token less that of another one, with the norms behind y, and before it, held at
    the deviations that they have.
    """
    along = logit_vectors(vocabulary, top) - logit_vectors(vocabulary, other)
    if vocabulary.norm is not None:
        along = HeldNorm(vocabulary.norm, y).back(along, y)
    if (behind := block.behind(m)) is not None:
        norm, at = behind
        along = HeldNorm(norm, at).back(along, at)
    return along

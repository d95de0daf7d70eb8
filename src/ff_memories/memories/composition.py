"""E8-E13, sections 5.1 and 5.2: how memories compose in a layer, and how layers refine the residual's prediction.

One forward pass of every example serves both sections.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

from ff_memories.base.errors import UserError
from ff_memories.base.progress import Progress
from ff_memories.base.seeds import generator
from ff_memories.corpus.store import Corpus
from ff_memories.memories import batching
from ff_memories.memories.refinement import kinds
from ff_memories.model.buffers import halved, retry_smaller
from ff_memories.model.decoder import Batch, Decoder

# shortest prefix, and what is added to N for the longest
POSITIONS = {"1..N": (1, 0), "0..N": (0, 0), "1..N-1": (1, -1)}


def sample_examples(
    lengths: np.ndarray, first: int, *, examples: int, sample: str, positions: str, seed: int
) -> pl.DataFrame:
    """Draw validation prefixes: ``example``, ``sentence``, ``position``, in the order drawn.

    Args:
        lengths: (sentences,) tokens of the validation sentences.
        first: number of the first of them in the corpus.
        examples: how many; all there are where there are fewer.
        sample: ``per_sentence``, one uniform prefix of each of that many shuffled sentences, or ``uniform`` over all
            prefixes of all sentences.
        positions: prefix lengths, see ``POSITIONS``.
        seed: of both draws.
    """
    low, high = POSITIONS[positions]
    choices = np.maximum(lengths + high - low + 1, 0)  # prefixes of each sentence
    rng = generator(seed, "examples")
    if sample == "per_sentence":
        order = rng.permutation(len(lengths))
        chosen = order[choices[order] > 0][:examples]
        position = low + np.floor(rng.random(len(chosen)) * choices[chosen]).astype(np.int64)
    else:
        total = int(choices.sum())
        drawn = rng.choice(total, size=min(examples, total), replace=False)
        ends = np.cumsum(choices)
        chosen = np.searchsorted(ends, drawn, side="right")
        position = low + drawn - (ends[chosen] - choices[chosen])
    if not len(chosen):
        raise UserError(
            "no validation sentence is long enough for a prefix",
            "give corpus.validation.files more text, or set composition.positions to 0..N",
        )
    return pl.DataFrame({"example": np.arange(len(chosen)), "sentence": first + chosen, "position": position})


@dataclass
class Observation:
    """What was seen at every example and layer: (examples, layers) each, ``model_top`` (examples,)."""

    active: np.ndarray
    agreeing: np.ndarray
    residual_top: np.ndarray
    ffn_top: np.ndarray
    output_top: np.ndarray
    residual_probability: np.ndarray
    model_top: np.ndarray

    @classmethod
    def empty(cls, examples: int, layers: int) -> "Observation":
        """Return room for what will be seen."""
        ids = lambda: np.zeros((examples, layers), dtype=np.int64)
        probability = np.zeros((examples, layers), dtype=np.float32)
        return cls(ids(), ids(), ids(), ids(), ids(), probability, np.zeros(examples, dtype=np.int64))


def observe(
    decoder: Decoder, corpus: Corpus, examples: pl.DataFrame, value_tops: np.ndarray, *,
    layer_prediction: str, memories: str, batch_tokens: int,
) -> Observation:  # fmt: skip
    """Run every example and read all its layers.

    Args:
        examples: ``sentence`` and ``position``.
        value_tops: (layers, d_m) top token of every value.
        layer_prediction: a memory agrees with top(y), ``ffn``, or with top(o), ``output``.
        memories: ``active`` ones may agree (coefficient > 0), or ``all``.
    """
    sentence, position = (examples[c].to_numpy().astype(np.int64) for c in ("sentence", "position"))
    seen = Observation.empty(len(examples), decoder.description.layers)
    tops = torch.from_numpy(value_tops.astype(np.int64)).to(decoder.device)
    order = np.lexsort((np.arange(len(examples)), position))

    def run(part: np.ndarray) -> None:
        batch = Batch.pack([corpus.sentence(sentence[i])[: position[i]] for i in part], decoder.device)
        last = torch.from_numpy(np.cumsum(position[part] + 1) - 1).to(decoder.device)
        residuals, updates, fires = [], [], []
        x = decoder.embed(batch)
        for layer in decoder.layers:
            residual = layer.attend(x, batch)
            coefficients = layer.coefficients(residual)
            update = layer.combine(coefficients)
            x = residual + update
            residuals.append(residual[last])
            updates.append(update[last])
            fires.append(coefficients[last] > 0)
        _read(decoder, part, torch.stack(residuals, 1), torch.stack(updates, 1), seen)
        says = seen.ffn_top if layer_prediction == "ffn" else seen.output_top
        for index, active in enumerate(fires):
            same = tops[index] == torch.from_numpy(says[part, index]).to(decoder.device)[:, None]
            seen.active[part, index] = active.sum(1).cpu().numpy()
            seen.agreeing[part, index] = (same & active if memories == "active" else same).sum(1).cpu().numpy()

    with torch.inference_mode(), Progress(len(examples), "examples", "composition") as progress:
        for part in batching.sequences(position, order, batch_tokens):
            retry_smaller(run, part, len(part), halved)
            progress.step(len(part))
    return seen


def _read(decoder: Decoder, part: np.ndarray, r: torch.Tensor, y: torch.Tensor, seen: Observation) -> None:
    """Read the vocabulary from residuals r, feed-forward outputs y and o = r + y: (examples, layers, d)."""
    vocabulary = decoder.vocabulary
    read = lambda h, target=None: vocabulary.predict(vocabulary.output(h.flatten(0, 1)), target, rank=False)
    grid = lambda tensor: tensor.view(r.shape[:2]).cpu().numpy()
    seen.ffn_top[part] = grid(read(y).top)
    seen.output_top[part] = grid(read(r + y).top)
    seen.model_top[part] = seen.output_top[part, -1]
    target = torch.from_numpy(seen.model_top[part]).to(decoder.device).repeat_interleave(r.shape[1])
    found = read(r, target)
    seen.residual_top[part] = grid(found.top)
    seen.residual_probability[part] = grid(found.target_probability)


def tables(examples: pl.DataFrame, seen: Observation, corpus: Corpus) -> dict[str, pl.DataFrame]:
    """Return the tables ``examples``, ``composition`` and ``refinement``."""
    sentence, position = (examples[c].to_numpy().astype(np.int64) for c in ("sentence", "position"))
    inside = position < corpus.lengths[sentence]
    following = corpus.tokens[np.where(inside, corpus.offsets[sentence] + position, 0)].astype(np.int64)
    count, layers = seen.active.shape
    key = {
        "example": np.repeat(np.arange(count), layers),
        "layer": np.tile(np.arange(1, layers + 1), count),
    }
    flat = lambda array: array.ravel()
    tops = {n: flat(getattr(seen, n)) for n in ("residual_top", "ffn_top", "output_top")}
    return {
        "examples": examples.with_columns(
            pl.when(pl.Series(inside)).then(pl.Series(following)).alias("next_token"),
            pl.Series("model_top", seen.model_top),
        ),
        "composition": pl.DataFrame(
            {
                **key,
                "active": flat(seen.active),
                "ffn_top": tops["ffn_top"],
                "output_top": tops["output_top"],
                "agreeing_memories": flat(seen.agreeing),
            }
        ),
        "refinement": pl.DataFrame(
            {
                **key,
                **tops,
                "model_top": np.repeat(seen.model_top, layers),
                "residual_probability": flat(seen.residual_probability),
            }
        ).with_columns(kinds().alias("kind")),
    }

"""E8-E13, sections 5.1 and 5.2: how memories compose in a layer, and how layers refine the residual's prediction.

One forward pass of every example serves both sections.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import polars as pl
import torch

from ff_memories import tables
from ff_memories.base.draws import generator
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import AnyInputs, Execution, Input, Output, Shard
from ff_memories.config import Settings
from ff_memories.config.sections import Composition
from ff_memories.corpus import sample as samples
from ff_memories.corpus import store
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.text import of_sentences
from ff_memories.corpus.tokenizer import never_trained, read_types
from ff_memories.model.batches import batching
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.loading import load_model
from ff_memories.model.matmul import require_finite
from ff_memories.paper.values.values import every_top

SHARES = {"share:0.9": 0.9}  # of the energy, for ``composition.memories``
READ: dict[str, type[np.generic]] = {  # at the end of a prefix in every layer
    **dict.fromkeys(("active", "ffn_top", "output_top", "residual_top"), np.int64),
    **dict.fromkeys(("effective", "residual_probability"), np.float32),
}
# shortest prefix, and what is added to N for the longest
POSITIONS = {"1..N": (1, 0), "0..N": (0, 0), "1..N-1": (1, -1)}


def sample_examples(lengths: np.ndarray, first: int, options: Composition, seed: int) -> pl.DataFrame:
    """Draw validation prefixes: ``example``, ``sentence``, ``position``, in the order drawn.

    Args:
        lengths: (sentences,) tokens of the validation sentences.
        first: number of the first of them in the corpus.
        options: the config's section ``composition``: how many ``examples``, or all there are where there are fewer;
            ``sample``, one uniform prefix of each of that many shuffled sentences (``per_sentence``), or ``uniform``
            over all prefixes of all sentences; ``positions``, see ``POSITIONS``.
        seed: of both draws.
    """
    low, high = POSITIONS[options.positions]
    choices = np.maximum(lengths + high - low + 1, 0)  # prefixes of each sentence
    rng = generator(seed, "examples")
    if options.sample == "per_sentence":
        order = rng.permutation(len(lengths))
        chosen = order[choices[order] > 0][: options.examples]
        position = low + np.floor(rng.random(len(chosen)) * choices[chosen]).astype(np.int64)
    else:
        total = int(choices.sum())
        numbers = rng.choice(total, size=min(options.examples, total), replace=False)
        ends = np.cumsum(choices)
        chosen = np.searchsorted(ends, numbers, side="right")
        position = low + numbers - (ends[chosen] - choices[chosen])
    if not len(chosen):
        hint = "give corpus.validation.files more text, or set composition.positions to 0..N"
        raise UserError("no validation sentence is long enough for a prefix", hint)
    return pl.DataFrame({"example": np.arange(len(chosen)), "sentence": first + chosen, "position": position})


def observe(
    decoder: LanguageModel,
    corpus: Corpus,
    examples: pl.DataFrame,
    tops_among: Callable[[list[np.ndarray]], dict[str, np.ndarray]],
    config: Settings,
    batch_tokens: int,
) -> dict[str, np.ndarray]:
    """Run every example (``sentence`` and ``position``) and read all its layers: columns by name, (examples, layers).

    Of the config's section ``composition``:

        layer_prediction: a memory agrees with top(y), ``ffn``, or with top(o), ``output``.
        memories: ``active`` memories may agree (coefficient > 0), ``all``, or those of ``share:0.9``: the fewest that
            have 90 % of the sum of (m_i |v_i|)^2.
        residual: r is what y is ``added`` to, or what the feed-forward layer's block ``read``s: in a parallel block its
            input. A sequential block reads what y is added to.

    ``tops_among``: given the tokens that each layer predicts, returns the top token (layers, d_m) of every value where
    it is among them, for each choice of ``values.types``; ``agreeing_memories`` of the other choice has its suffix.
    """
    options = config.composition
    beside = options.residual == "read" and decoder.parallel
    sentence, position = (examples[c].to_numpy().astype(np.int64) for c in ("sentence", "position"))
    shape = len(examples), decoder.description.layers
    seen = {name: np.zeros(shape, kind) for name, kind in READ.items()}
    fires = np.zeros((decoder.description.layers, len(examples), (decoder.memories + 7) // 8), np.uint8)  # in bits

    def run(part: np.ndarray) -> None:
        prefixes = [corpus.sentence(sentence[i])[: position[i]] for i in part]
        cells, active = _run(decoder, prefixes, options.memories, beside)
        for name, grid in cells.items():
            seen[name][part] = grid.cpu().numpy()
        for index, of_layer in enumerate(active):
            fires[index, part] = np.packbits(of_layer.cpu().numpy(), axis=1)

    batching.run_batches(run, batching.by_length(position, batch_tokens), "examples", "composition")
    predictions = seen[f"{options.layer_prediction}_top"].T
    for choice, of_layers in tops_among([np.unique(layer) for layer in predictions]).items():
        counts = [
            _agreeing(top, prediction, None if options.memories == "all" else active)
            for top, prediction, active in zip(of_layers, predictions, fires, strict=True)
        ]
        seen["agreeing_memories" + ("" if choice == config.values.types else f"_{choice}")] = np.stack(counts, axis=1)
    return seen


def _agreeing(tops: np.ndarray, predictions: np.ndarray, fires: np.ndarray | None) -> np.ndarray:
    """Return (examples,) how many memories predict what their layer does, of those that count by bits (None: all)."""
    out = np.zeros(len(predictions), np.int64)
    for token in np.unique(predictions):
        rows, memories = np.flatnonzero(predictions == token), np.flatnonzero(tops == token)
        if fires is None:
            out[rows] = len(memories)
        else:
            bits = fires[np.ix_(rows, memories // 8)] >> (7 - memories % 8).astype(np.uint8)
            out[rows] = (bits & 1).sum(1)
    return out


def effective_memories(energies: torch.Tensor) -> torch.Tensor:
    """Return the effective number of memories (rows,): (sum e)^2 / sum e^2, the participation ratio; 0 without any.

    ``energies``: (rows, d_m), e_i = (m_i |v_i|)^2, how much each memory adds to the layer.
    """
    e = energies.double()
    return (e.sum(1).square() / e.square().sum(1).clamp(min=torch.finfo(torch.double).tiny)).float()


def fewest_with(energies: torch.Tensor, share: float) -> torch.Tensor:
    """Return (rows, d_m) bool: the fewest memories whose energies have at least a share of the row's sum.

    Of energies 1 5 1 3 and a share of 0.9, these are 5, 3 and the first 1: sorted, what stands before each is 0 5 8 9,
    and the memories with less than 9 before them are needed.
    """
    ordered, index = energies.double().sort(1, descending=True)
    before = ordered.cumsum(1) - ordered
    needed = (before < share * ordered.sum(1, keepdim=True)) & (ordered > 0)
    return torch.zeros_like(needed).scatter_(1, index, needed)


def _active(m: torch.Tensor, energies: torch.Tensor, memories: str, signs: int) -> torch.Tensor:
    """Return (rows, memories) bool: which memories count as active."""
    positive, negative = m > 0, m < 0
    if memories in SHARES:
        chosen = fewest_with(energies, SHARES[memories])
        positive, negative = positive & chosen, negative & chosen
    return positive if signs == 1 else torch.cat([positive, negative], 1)


def _run(
    decoder: LanguageModel, prefixes: list[np.ndarray], memories: str, beside: bool
) -> tuple[dict[str, torch.Tensor], list[torch.Tensor]]:
    """Run prefixes, which come by length; return ``READ`` (prefixes, layers), and what is active in each layer."""
    batch = decoder.pack(prefixes)
    inputs, residuals, updates, fires, effective = [], [], [], [], []
    x = decoder.embed(batch)
    for number, layer in enumerate(decoder.layers, 1):
        inputs.append(x[batch.last])
        layer_output = layer(x, batch)
        x = layer_output.output
        residuals.append(layer_output.residual[batch.last])
        updates.append(layer_output.update[batch.last])
        m = layer_output.coefficients[batch.last]
        energies = (m * layer.values[: m.shape[1]].float().norm(dim=1)).square()
        require_finite(f"layer {number}: memory coefficients", m)
        require_finite(f"layer {number}: residuals and updates", residuals[-1], updates[-1])
        require_finite(f"layer {number}: squares of coefficients times value lengths", energies)
        fires.append(_active(m, energies, memories, decoder.signs))
        effective.append(effective_memories(energies))
    r, y = torch.stack(residuals, 1), torch.stack(updates, 1)
    ffn_top, output_top = (decoder.vocabulary.read_tops(h.flatten(0, 1)).view(r.shape[:2]) for h in (y, r + y))
    target = output_top[:, -1].repeat_interleave(len(fires))
    given = torch.stack(inputs, 1) if beside else r
    reading = decoder.vocabulary.read(given.flatten(0, 1), target, rank=False)
    return {
        "active": torch.stack([active.sum(1) for active in fires], 1),
        "effective": torch.stack(effective, 1),
        "ffn_top": ffn_top,
        "output_top": output_top,
        "residual_top": reading.top.view(r.shape[:2]),
        "residual_probability": reading.target_probability.view(r.shape[:2]),
    }, fires


def kinds() -> pl.Expr:
    """E13, section 5.2: return the kind of every row with ``residual_top``, ``ffn_top`` and ``output_top``.

    ``residual``: the output predicts what the residual does and the feed-forward does not. ``agreement``: all three
    predict the same. ``ffn``: the output takes over the feed-forward's prediction. ``composition``: the output
    predicts something else than either, the rare case included that both agreed with each other.
    """
    residual, ffn, output = pl.col("residual_top"), pl.col("ffn_top"), pl.col("output_top")
    return (
        pl.when((output == residual) & (output == ffn))
        .then(pl.lit("agreement"))
        .when(output == residual)
        .then(pl.lit("residual"))
        .when(output == ffn)
        .then(pl.lit("ffn"))
        .otherwise(pl.lit("composition"))
    )


def frames(examples: pl.DataFrame, seen: dict[str, np.ndarray], corpus: Corpus) -> dict[str, pl.DataFrame]:
    """Return the tables ``examples``, ``composition`` and ``refinement``, from what ``observe`` saw."""
    sentence, position = (examples[c].to_numpy().astype(np.int64) for c in ("sentence", "position"))
    following = pl.Series("next_token", corpus.following(sentence, position)).replace({-1: None})
    (count, layers), model_top = seen["output_top"].shape, seen["output_top"][:, -1]
    example = np.repeat(examples["example"].to_numpy(), layers)
    key = {"example": example, "layer": np.tile(np.arange(1, layers + 1), count)}
    rows = pl.DataFrame(key | {name: grid.ravel() for name, grid in seen.items()})
    refinement = rows.select(*key, "residual_top", "ffn_top", "output_top", "residual_probability")
    return {
        "examples": examples.with_columns(following, pl.Series("model_top", model_top)),
        "composition": rows.drop("residual_top", "residual_probability"),
        "refinement": refinement.with_columns(kinds().alias("kind"), model_top=np.repeat(model_top, layers)),
    }


def reasons(refinement: pl.DataFrame, examples: int, missing: int) -> dict[str, int]:
    """Return what the ``counts`` table says of the examples; ``missing``: how many fewer than the config asks for."""
    third = (pl.col("residual_top") == pl.col("ffn_top")) & (pl.col("output_top") != pl.col("residual_top"))
    return {
        "examples": examples,
        "examples_missing": missing,
        "residual_and_ffn_agree_output_differs": refinement.filter(third).height,
    }


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    dictionary: Input | None,
    values: Input,
    sample: AnyInputs,
    sentences: AnyInputs,
    examples: Output,
    composition: Output,
    refinement: Output,
    counts: Output,
    execution: Execution,
    shard: Shard = (1, 1),
) -> None:
    """Observe every layer at a shard of the sample's prefixes.

    Args:
        sample: the file composition.sample_file, if the config names one
        sentences: the table sentences, if a sample is given
    """
    options, text = config.composition, store.read(corpus)
    decoder = load_model(weights, description, execution, config.precision)
    if sample:
        validation = tables.read(sentences[0]).filter(pl.col("split") == "validation")
        tokenizer = read_types(dictionary) if dictionary is not None and dictionary.suffix == ".json" else None
        prefixes = samples.read(sample[0], of_sentences(validation, tokenizer), text.lengths)
    else:
        prefixes = sample_examples(text.lengths[text.train :], text.train, options, config.seed)
    decoder.vocabulary.leave_out(never_trained(dictionary))
    values_table = None  # in the released code, only the agreement script draws projections
    if config.values.projection != "random":
        values_table = tables.read(values)
        tables.require_precision(values, decoder.precision)
        decoder.vocabulary = decoder.vocabulary.reading(config.values.projection)
    tops_among = partial(every_top, decoder, decoder.vocabulary, values_table, config.values)
    missing = 0 if sample or shard[0] > 1 else options.examples - len(prefixes)  # the first shard counts them
    batches = batching.by_length(prefixes["position"].to_numpy().astype(np.int64), execution.batch_tokens, shard)
    prefixes = prefixes[np.sort(np.concatenate([np.zeros(0, np.int64), *batches]))]  # batches run as they would in all
    seen = observe(decoder, text, prefixes, tops_among, config, execution.batch_tokens)
    observed = frames(prefixes, seen, text)
    if text.numbers is not None:  # sentences of a sample have their numbers in the run's corpus
        numbers = text.numbers[observed["examples"]["sentence"].to_numpy()]
        observed["examples"] = observed["examples"].with_columns(pl.Series("sentence", numbers))
    tables.write_counts("composition", reasons(observed["refinement"], len(prefixes), missing), counts)
    for path in (examples, composition, refinement):
        tables.write(observed[tables.name_of(path)], path, decoder.precision)

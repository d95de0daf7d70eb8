"""What changing one memory's coefficient does to the tokens that its value promotes; beyond the paper.

A row changes the last token of one validation prefix: the layer's output gains a vector, such as
(set_to - coefficient) v, and the layers above run again. ``model.interventions`` runs the changes and says what they
are; a mean logit is that of the ten tokens that the value promotes most (section 4).
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import polars as pl
import torch

from ff_memories import tables
from ff_memories.base.draws import generator
from ff_memories.base.parameters import WHOLE, Shard
from ff_memories.config.sections import Causal
from ff_memories.corpus.store import Corpus
from ff_memories.model.batches import batching
from ff_memories.model.decoder import LanguageModel
from ff_memories.model.interventions import Vectors, logit_changes, logit_vectors, prediction_changes, run_changed
from ff_memories.model.matmul import widened
from ff_memories.model.vocabulary import Vocabulary
from ff_memories.paper.beyond.survey import POOL, Survey, survey
from ff_memories.paper.layers.tracing import value_tops

PROMOTED = 10  # tokens of a value
CONTROLS = ("none", "matched", "direction", "inactive")
DRAWN: dict[str, type[pl.DataType]] = {  # of ``sample``, but for numbers of prefixes
    **dict.fromkeys(("layer", "key", "at", "tested"), pl.Int64),
    **dict.fromkeys(("intervention", "control"), pl.String),
    **dict.fromkeys(("matched_key", "other", "moved"), pl.Int64),
    **dict.fromkeys(("coefficient", "set_to"), pl.Float32),
}


def sample(
    surveyed: Survey, corpus: Corpus, options: Causal, seed: int, looked_at: Sequence[tuple[int, int]] | None = None
) -> pl.DataFrame:
    """Draw memories of every layer, of those looked at, (layer, key) (``None``: all), prefixes, and controls.

    Memories that are active nowhere are passed over. Half of the prefixes of a memory have its largest coefficients,
    the others are drawn where it is active. Controls take the first intervention; a mean needs other prefixes. Returns
    the table's rows without what changes: ``at`` is the number in the survey of the prefix that is run, and ``moved``
    the memory whose value is added: another one for a matched control, -1 for a random direction.
    """
    layers, memories = surveyed.fires.shape
    interventions = [name for name in options.interventions if surveyed.others or name in ("zero", "double")]
    asked = None if looked_at is None else set(looked_at)
    rows: list[tuple[Any, ...]] = []
    for layer in range(1, layers + 1):
        able = (
            memory
            for memory in generator(seed, f"causal memories of layer {layer}").permutation(memories).tolist()
            if (asked is None or (layer, memory) in asked)
            and surveyed.lengths[layer - 1, memory % surveyed.mean.shape[1]] > 0
            and (surveyed.of(layer, memory) > 0).any()
        )
        for memory in sorted(islice(able, options.keys_per_layer)):
            for at in _tested(surveyed, layer, memory, options.prefixes, seed):
                rows += _rows(surveyed, layer, memory, at, interventions, seed)
    frame = pl.DataFrame(rows, schema=DRAWN, orient="row")
    numbers = pl.Series(corpus.offsets[surveyed.sentence] + surveyed.position - 1)  # of a prefix: its last token's
    frame = frame.with_columns(prefix=numbers.gather(frame["tested"]), other_prefix=numbers.gather(frame["other"]))
    return frame.drop("tested", "other")


def _tested(surveyed: Survey, layer: int, memory: int, prefixes: int, seed: int) -> list[int]:
    """Return where a memory is tested: at its largest coefficients, then at some others where it is active."""
    m = surveyed.of(layer, memory)
    order = [int(i) for i in np.argsort(-m, kind="stable") if m[i] > 0]
    top = -(-prefixes // 2)
    rest = generator(seed, f"causal prefixes of memory {layer} {memory}").permutation(order[top:])
    return order[:top] + [int(i) for i in rest[: prefixes - top]]


def _rows(
    surveyed: Survey, layer: int, memory: int, at: int, interventions: Sequence[str], seed: int
) -> list[tuple[Any, ...]]:
    """Return the rows of a memory at one prefix; a control that there is none of has no row."""
    rng = generator(seed, f"causal rows of memory {layer} {memory} {at}")
    m, neurons, first = surveyed.of(layer, memory), surveyed.mean.shape[1], next(iter(interventions), "")
    elsewhere = int((at + 1 + rng.integers(len(m) - 1)) % len(m)) if len(m) > 1 else None
    twin = matched_memory(surveyed, layer, memory, at)
    changes = [(intervention, "none", memory) for intervention in interventions]
    changes += [(first, "matched", twin)] if twin is not None else []
    rows: list[tuple[Any, ...]] = []
    given: float | None = None
    for intervention, control, which in [*changes, (first, "direction", memory)]:
        now, other = float(surveyed.of(layer, which)[at]), elsewhere if intervention == "resample" else None
        mean = float(surveyed.mean[layer - 1, which % neurons]) * (1 if which < neurons else -1)
        given = {"mean": mean, "zero": 0.0, "double": 2 * now}.get(intervention)
        if other is not None:
            given = float(surveyed.of(layer, which)[other])
        if given is not None:
            matched, moved = which % neurons if control == "matched" else None, -1 if control == "direction" else which
            rows.append((layer, memory, at, at, intervention, control, matched, other, moved, now, given))
    silent = np.flatnonzero(m <= 0)
    if len(silent) and given is not None:
        there = int(silent[rng.integers(len(silent))])
        now, amount = float(m[there]), float(m[at]) - given  # what was taken away is added
        rows.append((layer, memory, there, at, first, "inactive", None, there, memory, now, now + amount))
    return rows


def reasons(table: pl.DataFrame, layers: int, zero: int, options: Causal) -> dict[str, int]:
    """Return what the ``counts`` table says of a table ``causal``; ``zero``: how many values have length zero."""
    memories, pairs = (table.select(names).n_unique() for names in (["layer", "key"], ["layer", "key", "prefix"]))
    return {
        "layers_without_active_prefixes": layers - table["layer"].n_unique() if options.keys_per_layer else 0,
        "memories_missing": layers * options.keys_per_layer - memories,
        "prefixes_missing": memories * options.prefixes - pairs,
        "rows_missing": pairs * (len(options.interventions) + len(CONTROLS) - 1) - len(table),
        "values_of_zero_length": zero,
    }


def matched_memory(surveyed: Survey, layer: int, memory: int, at: int) -> int | None:
    """Return the memory of a layer that is most like another one and is active at the same prefix.

    Alike are the lengths of their values and how often they are active, both on a logarithmic scale.
    """
    neurons = surveyed.mean.shape[1]
    m, lengths = surveyed.coefficients[layer - 1][at], surveyed.lengths[layer - 1]
    active = np.flatnonzero(m > 0)
    if surveyed.fires.shape[1] > neurons:
        active = np.concatenate([active, neurons + np.flatnonzero(m < 0)])
    active = active[(active % neurons != memory % neurons) & (lengths[active % neurons] > 0)]
    if not len(active):
        return None
    often = np.log(surveyed.fires[layer - 1] + 1.0)
    far = np.abs(np.log(lengths[active % neurons] / lengths[memory % neurons])) + np.abs(often[active] - often[memory])
    return int(active[far.argmin()])


def other_memory(seed: int, layer: int, memory: int, neurons: int) -> int:
    """Return another memory of a layer, of the same sign, whose promoted tokens are looked at as well."""
    rng = generator(seed, f"causal other memory than {layer} {memory}")
    key = (memory % neurons + 1 + rng.integers(neurons - 1)) % neurons if neurons > 1 else memory % neurons
    return int(key) + memory // neurons * neurons


def direction(seed: int, layer: int, memory: int, prefix: int, width: int) -> np.ndarray:
    """Return a random direction (d,) float64 of length one, for a row's control."""
    vector = generator(seed, f"causal direction {layer} {memory} {prefix}").standard_normal(width)
    return np.asarray(vector / np.linalg.norm(vector))


def table(
    decoder: LanguageModel,
    corpus: Corpus,
    options: Causal,
    values: Any,
    seed: int,
    batch_tokens: int,
    looked_at: Sequence[tuple[int, int]] | None = None,
    shard: Shard = WHOLE,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return what is tested, as of ``sample``, and the table ``causal`` of a shard.

    The config's section ``values`` says how values promote tokens; layers are read by the model's own output layer.
    """
    surveyed = survey(decoder, corpus, seed, batch_tokens, POOL if options.keys_per_layer else 0)
    rows = sample(surveyed, corpus, options, seed, looked_at).sort("layer", "key", "prefix", "intervention", "control")
    words = _promoted(decoder, decoder.vocabulary.reading(values.projection, values.projection_seed), rows, seed)
    tested, changes = np.unique(rows["at"].to_numpy(), return_counts=True)
    following = corpus.following(surveyed.sentence, surveyed.position)
    parts: list[pl.DataFrame] = []

    def run(part: np.ndarray) -> None:
        prefixes = tested[part]
        batch_rows = rows.filter(pl.col("at").is_in(prefixes.tolist()))
        layer, key, at = (batch_rows[name].to_numpy() for name in ("layer", "key", "at"))
        texts = [corpus.sentence(surveyed.sentence[i])[: surveyed.position[i]] for i in prefixes]
        which = (at[:, None] == prefixes).argmax(1)
        ends = run_changed(decoder, texts, which, layer, _vectors(decoder, batch_rows, seed))
        pairs = torch.stack([words[memory] for memory in zip(layer.tolist(), key.tolist(), strict=True)])
        effects = logit_changes(decoder.vocabulary, ends, *pairs.unbind(1))
        effects |= prediction_changes(decoder.vocabulary, ends, following[at])
        parts.append(batch_rows.with_columns(**effects).with_columns(pl.col("loss").fill_nan(None)))

    batches = batching.by_length(surveyed.position[tested], batch_tokens, shard, changes)
    batching.run_batches(run, batches, "changed coefficients", "causal", of="prefix", amount=changes)
    return rows, tables.concat("causal", parts)


@torch.inference_mode()
def _promoted(
    decoder: LanguageModel, vocabulary: Vocabulary, rows: pl.DataFrame, seed: int
) -> dict[tuple[int, int], torch.Tensor]:
    """Return (2, d) float64 of each tested (layer, memory): mean ``logit_vectors`` of what it and another promote."""
    out: dict[tuple[int, int], torch.Tensor] = {}
    for layer in rows["layer"].unique().sort().to_list():
        keys = rows.filter(pl.col("layer") == layer)["key"].unique().to_list()
        others = {key: other_memory(seed, layer, key, decoder.description.keys) for key in keys}
        memories = sorted({*keys, *others.values()})
        ids = torch.from_numpy(value_tops(decoder, vocabulary, layer, memories, PROMOTED).ids).to(decoder.device)
        vectors = logit_vectors(decoder.vocabulary, ids.flatten()).unflatten(0, ids.shape).double().mean(1)
        vector_of = dict(zip(memories, vectors, strict=True))
        out |= {(layer, key): torch.stack([vector_of[key], vector_of[other]]) for key, other in others.items()}
    return out


def _vectors(decoder: LanguageModel, rows: pl.DataFrame, seed: int) -> Vectors:
    """Return what rows of ``sample`` add to their layers' m V."""
    key, moved, prefix = (rows[name].to_numpy() for name in ("key", "moved", "prefix"))
    amount = (rows["set_to"].cast(pl.Float64) - rows["coefficient"].cast(pl.Float64)).to_numpy()

    def vector(layer: int, here: np.ndarray, _: torch.Tensor) -> torch.Tensor:
        which = np.where(moved[here] < 0, key[here], moved[here])
        vectors = widened(decoder.layers[layer - 1].added[torch.from_numpy(which).to(decoder.device)])
        for i in np.flatnonzero(moved[here] < 0):
            unit = direction(seed, layer, int(key[here[i]]), int(prefix[here[i]]), vectors.shape[1])
            vectors[i] = vectors[i].norm() * torch.from_numpy(unit).to(vectors)
        return vectors * torch.from_numpy(amount[here]).to(vectors)[:, None]

    return vector

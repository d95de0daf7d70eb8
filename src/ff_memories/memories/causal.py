"""What changing one memory's coefficient does to the tokens that its value promotes; beyond the paper.

A row changes the last token of one validation prefix: the layer's output gains a vector, such as
(set_to - coefficient) v, and the layers above run again. What is asked for is the mean logit of the ten tokens that the
value promotes most:

- ``direct``: what the vector itself adds to it, through the norms behind it at the deviations that they have (that
  behind the feed-forward layer, where there is one, and the final one), and the output layer;
- ``total``: how much it changes when the layers above run again;
- ``total_frozen``: the same with the final norm's deviation held. In the last layer this is ``direct``, unless a norm
  stands behind the feed-forward layer.

A logit is that of the output matrix, before a cap. In an adaptive softmax, a tail's word has its class's logit plus its
own within the tail, both before their softmaxes: what a vector adds to it is then linear, as elsewhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch

from ff_memories.base.progress import Progress
from ff_memories.base.seeds import generator
from ff_memories.base.sharding import WHOLE, Shard, share
from ff_memories.corpus.store import Corpus
from ff_memories.memories.search import batching, finite
from ff_memories.memories.tracing import value_tops
from ff_memories.model.batches import branches
from ff_memories.model.batches.branches import Branches
from ff_memories.model.batches.buffers import halved, retry_smaller
from ff_memories.model.decoder import AnyLayer, LanguageModel
from ff_memories.model.products import linear, widened
from ff_memories.model.vocabulary import Vocabulary

PROMOTED = 10  # tokens of a value
POOL = 512  # prefixes that may be tested, at most, and as many others for means
LOGITS = 1 << 22  # log-probabilities held at once, in float64 and several times
CONTROLS = ("none", "matched", "direction", "inactive")


# ------------------------------------------------------------------------------------- the model, run with changes


@dataclass(frozen=True)
class Ends:
    """The last layer's outputs o^L, and the deltas that were made, (rows, d) each.

    Attributes:
        base: of the prefixes.
        changed: of the changes.
        direct: what each change would add to o^L if no layer above reacted.
    """

    base: torch.Tensor
    changed: torch.Tensor
    direct: torch.Tensor


def run_changed(
    decoder: LanguageModel,
    prefixes: Sequence[np.ndarray],
    base: np.ndarray,
    layer: np.ndarray,
    vector: Callable[[int, np.ndarray, torch.Tensor], torch.Tensor],
) -> Ends:
    """Run prefixes once, and every change of their last token from its layer on.

    Args:
        prefixes: token ids without the start token, by length.
        base, layer: (changes,) which prefix, and which layer from 1; layers ascend.
        vector: of a layer's number, the numbers of its changes (n,) and the coefficients (n, d_m) of their prefixes:
            what each adds to m V (n, d).
    """
    which = torch.from_numpy(base).to(decoder.device)
    if decoder.forests:
        rows: Any = Branches(decoder.pack(prefixes), which)
        last, own = rows.last, len(rows.batch.tokens) + torch.arange(len(base), device=decoder.device)
    else:
        rows, last, own = branches.packed_prefixes(decoder, prefixes, base.tolist())
    x = decoder.embed(rows)
    x = x[: len(rows.batch.tokens)] if decoder.forests else x
    direct = x.new_zeros(len(base), x.shape[1])
    for number, block in enumerate(decoder.layers, 1):
        seen = block(x, rows)
        finite.require(f"layer {number}: outputs of changed prefixes", seen.output)
        x, here = seen.output, np.arange(*np.searchsorted(layer, [number, number + 1]))
        if not len(here):
            continue
        at = last[which[here]]
        m = seen.coefficients[at]
        added, kept = added_to_output(block, m, vector(number, here, m))
        direct[here] = kept
        x = torch.cat([x, x[at] + added]) if decoder.forests else x.index_add(0, own[here], added)
    return Ends(x[last], x[own], direct)


def added_to_output(block: AnyLayer, m: torch.Tensor, vector: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what a layer's output gains (n, d) if m V gains a vector (n, d), and the same with its norm held.

    Args:
        m: (n, d_m) coefficients, of which the norm behind the feed-forward layer takes its deviation.
    """
    norm: Any = getattr(block, "after", None)
    if norm is None:
        return vector, vector
    down: Any = block.down  # type: ignore[attr-defined]
    raw = widened(down(m.to(down.weight.dtype)))
    apply = lambda h: widened(norm(h.to(norm.weight.dtype)))
    return apply(raw + vector) - apply(raw), HeldNorm.of(apply, m.new_empty(0, vector.shape[1]))(vector, raw)


def values_of(block: AnyLayer) -> torch.Tensor:
    """Return what each memory adds to m V, (memories, d): its value, before the norm behind it, if there is one."""
    if getattr(block, "after", None) is None:
        return block.values
    v = block.down.weight.t().detach()  # type: ignore[attr-defined]
    return torch.cat([v, -v]) if block.signs == 2 else v  # type: ignore[attr-defined]


@dataclass(frozen=True)
class HeldNorm:
    """A layer norm or RMS norm whose deviation is held: then it is linear. A change still loses its mean.

    Attributes:
        norm: N, (rows, d) to (rows, d).
        scale, shift: (d,) its scale and bias, found by its outputs.
        centred: whether it takes the mean away.
    """

    norm: Callable[[torch.Tensor], torch.Tensor]
    scale: torch.Tensor
    shift: torch.Tensor
    centred: bool

    @classmethod
    def of(cls, norm: Callable[[torch.Tensor], torch.Tensor], like: torch.Tensor) -> "HeldNorm":
        """Read a norm by its outputs; ``like``: (any, d), of the type and on the device of its inputs."""
        x = like.new_full((3, like.shape[1]), 1000.0)
        x[0, 1::2] *= -1
        x[1] = 0
        out = norm(x)
        centred = bool((out[2] - out[1]).abs().max() < 1e-3 * (out[0] - out[1]).abs().max())
        centre = x[:1] - x[:1].mean(1, keepdim=True) if centred else x[:1]
        return cls(norm, ((out[:1] - out[1]) * _deviation(centre) / centre)[0], out[1], centred)

    def __call__(self, change: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Return what a change (rows, d) adds to the norm of ``at`` (rows, d), whose deviation is held."""
        gone = (self.norm(at) - self.shift).norm(dim=1, keepdim=True)
        return self._scaled(change) * gone / self._scaled(at).norm(dim=1, keepdim=True)

    def _scaled(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * (x - x.mean(1, keepdim=True) if self.centred else x)


def _deviation(x: torch.Tensor) -> torch.Tensor:
    return x.square().mean(1, keepdim=True).sqrt()


def word_vectors(vocabulary: Vocabulary, tokens: torch.Tensor) -> torch.Tensor:
    """Return what the output layer multiplies by for each token's logit, (tokens, d); see the module's description."""
    found: torch.Tensor | None = None
    for number, cluster in enumerate(vocabulary.clusters):
        here = (tokens >= cluster.first) & (tokens < cluster.first + cluster.size)
        own = widened(cluster.embedding[tokens[here] - cluster.first])
        if cluster.projection is not None:
            own = linear(own, cluster.projection.t())
        if number and vocabulary.classes is not None:
            own = own + widened(vocabulary.classes[number - 1])
        if vocabulary.out is not None:
            own = linear(own, vocabulary.out.t())
        found = own.new_zeros(len(tokens), own.shape[1]) if found is None else found
        found[here] = own
    assert found is not None, "a vocabulary has words"
    return found


def outcomes(
    vocabulary: Vocabulary,
    ends: Ends,
    base: torch.Tensor,
    promoted: torch.Tensor,
    other: torch.Tensor,
    next_: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return the columns of the table that say what changes, (changes,) each.

    Args:
        base: (changes,) the prefix of each.
        promoted, other: (changes, d) the mean of the word vectors of the tokens that a value promotes.
        next_: (changes,) the true next token; -1 for none, whose loss is NaN.
    """
    h = ends.base[base]
    held = vocabulary.norm and HeldNorm.of(vocabulary.norm, h)
    frozen = lambda change: change if held is None else held(change, h)
    free = vocabulary.output(ends.changed) - vocabulary.output(h)
    logit = lambda change, words: (change.double() * words.double()).sum(1)
    out = {
        "direct": logit(frozen(ends.direct), promoted),
        "total": logit(free, promoted),
        "total_frozen": logit(frozen(ends.changed - h), promoted),
        "other_total": logit(free, other),
    }

    def log_p(rows: torch.Tensor) -> torch.Tensor:
        said = vocabulary.log_probabilities(vocabulary.output(rows), whole=True).double()
        return said - said.logsumexp(1, keepdim=True)  # a sum in float32 loses the unlikely tokens beside a sure one

    target = torch.from_numpy(next_).to(h.device)
    names = ("top_log_probability", "loss", "kl", "top_changed")
    parts: dict[str, list[torch.Tensor]] = {name: [] for name in names}
    for rows in torch.arange(len(h), device=h.device).split(max(1, LOGITS // vocabulary.size)):
        unique, place = base[rows].unique(return_inverse=True)
        before, after = log_p(ends.base[unique])[place], log_p(ends.changed[rows])
        top, known = before.argmax(1, keepdim=True), target[rows].clamp(min=0)[:, None]
        change = after - before
        lost = torch.where(target[rows] < 0, torch.nan, -change.gather(1, known).squeeze(1))
        less = torch.where(before > -torch.inf, -change * before.exp(), 0).sum(1).clamp(min=0)
        told = (change.gather(1, top).squeeze(1), lost, less, after.argmax(1) != top.squeeze(1))
        for name, part in zip(names, told, strict=True):
            parts[name].append(part)
    out |= {name: torch.cat(part) for name, part in parts.items()}
    return {name: column.cpu().numpy() for name, column in out.items()}


# ------------------------------------------------------------------------------------------- what is tested, and where


@dataclass(frozen=True)
class Survey:
    """How strongly memories fire on validation prefixes.

    Attributes:
        sentence, position: (prefixes,) those that may be tested.
        coefficients: of each layer (prefixes, d_m) float32, at these.
        mean: (layers, d_m) float64, over the other prefixes.
        fires: (layers, memories) how many of the other prefixes a memory is active at.
        others: how many there are.
        lengths: (layers, d_m) float64, of the values.
    """

    sentence: np.ndarray
    position: np.ndarray
    coefficients: list[np.ndarray]
    mean: np.ndarray
    fires: np.ndarray
    others: int
    lengths: np.ndarray

    def of(self, layer: int, memory: int) -> np.ndarray:
        """Return a memory's coefficients (prefixes,), with their signs changed for a memory of sign -1."""
        m = self.coefficients[layer - 1]
        return m[:, memory] if memory < m.shape[1] else -m[:, memory - m.shape[1]]

    def mean_of(self, layer: int, memory: int) -> float:
        """Return a memory's mean coefficient over the other prefixes."""
        neurons = self.mean.shape[1]
        return float(self.mean[layer - 1, memory % neurons]) * (1 if memory < neurons else -1)


def drawn_prefixes(corpus: Corpus, seed: int, pool: int = POOL) -> tuple[np.ndarray, np.ndarray]:
    """Draw validation prefixes, one of each of ``2 * pool`` sentences at most: (prefixes,) sentence and position.

    The first and every second one may be tested; the others give the means.
    """
    rng = generator(seed, "causal prefixes")
    sentence = corpus.train + rng.permutation(len(corpus) - corpus.train)[: 2 * pool]
    return sentence, 1 + np.floor(rng.random(len(sentence)) * corpus.lengths[sentence]).astype(np.int64)


def survey(decoder: LanguageModel, corpus: Corpus, seed: int, batch_tokens: int, pool: int = POOL) -> Survey:
    """See how memories fire at the ends of ``drawn_prefixes``."""
    sentence, position = drawn_prefixes(corpus, seed, pool)
    layers, neurons = decoder.description.layers, decoder.description.keys
    tested = np.arange(len(sentence)) % 2 == 0
    place = np.cumsum(tested) - 1
    found = [np.zeros((int(tested.sum()), neurons), np.float32) for _ in range(layers)]
    total, fires = np.zeros((layers, neurons)), np.zeros((layers, decoder.memories), np.int64)

    def run(part: np.ndarray) -> None:
        prefixes = [corpus.sentence(sentence[i])[: position[i]] for i in part]
        batch, own = decoder.pack(prefixes), tested[part]
        last = torch.from_numpy(np.cumsum([len(p) + 1 for p in prefixes]) - 1).to(decoder.device)
        x, seen_now = decoder.embed(batch), []
        for number, block in enumerate(decoder.layers, 1):
            seen = block(x, batch, last=number == layers)
            finite.require(f"layer {number}: memory coefficients", seen.coefficients)
            seen_now.append(seen.coefficients[last].cpu().numpy())
            x = seen.output
        for number, m in enumerate(seen_now):  # all layers or none: a batch that runs out of memory runs again
            found[number][place[part[own]]] = m[own]
            total[number] += m[~own].sum(0, dtype=np.float64)
            active = (m[~own] > 0).sum(0)
            fires[number] += active if decoder.signs == 1 else np.concatenate([active, (m[~own] < 0).sum(0)])

    with torch.inference_mode(), Progress(len(sentence), "surveyed prefixes", "causal survey") as progress:
        for part in batching.sequences(position, np.lexsort((np.arange(len(position)), position)), batch_tokens):
            retry_smaller(run, part, len(part), halved)
            progress.step(len(part))
        lengths = [block.values[:neurons].double().norm(dim=1).cpu().numpy() for block in decoder.layers]
    others = int((~tested).sum())
    return Survey(sentence[tested], position[tested], found, total / max(1, others), fires, others, np.stack(lengths))


DRAWN: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(("layer", "key", "at", "tested"), pl.Int64),
    **dict.fromkeys(("intervention", "control"), pl.String),
    **dict.fromkeys(("matched_key", "other", "moved"), pl.Int64),
    **dict.fromkeys(("coefficient", "set_to"), pl.Float32),
}


def sample(
    seen: Survey,
    corpus: Corpus,
    *,
    keys_per_layer: int,
    prefixes: int,
    interventions: Sequence[str],
    seed: int,
    looked_at: Sequence[tuple[int, int]] | None = None,
) -> pl.DataFrame:
    """Draw memories of every layer, prefixes where they are active, and controls.

    Returns:
        Rows of the table without what changes. ``at`` is the number in the survey of the prefix that is run, and
        ``moved`` the memory whose value is added: another one for a matched control, -1 for a random direction.

    Args:
        keys_per_layer: memories of each layer; those that are active nowhere are passed over.
        prefixes: of each memory; half have its largest coefficients, the others are drawn where it is active.
        interventions: the first one is that of controls.
        looked_at: (layer, key) of the memories that the run looks at; ``None``: all.
    """
    layers, memories = seen.fires.shape
    neurons = seen.mean.shape[1]
    asked = None if looked_at is None else set(looked_at)
    rows: list[tuple[Any, ...]] = []
    for layer in range(1, layers + 1):
        drawn = [
            int(memory)
            for memory in generator(seed, f"causal memories of layer {layer}").permutation(memories)
            if asked is None or (layer, int(memory)) in asked
        ]
        chosen: list[int] = []
        for memory in drawn:
            if len(chosen) == keys_per_layer:
                break
            if seen.lengths[layer - 1, memory % neurons] > 0 and (seen.of(layer, memory) > 0).any():
                chosen.append(memory)
        for memory in sorted(chosen):
            for at in _tested(seen, layer, memory, prefixes, seed):
                rows += _rows(seen, layer, memory, at, interventions, seed)
    frame = pl.DataFrame(rows, schema=DRAWN, orient="row")
    numbers = pl.Series(corpus.offsets[seen.sentence] + seen.position - 1)  # of a prefix: its last token's
    frame = frame.with_columns(prefix=numbers.gather(frame["tested"]), other_prefix=numbers.gather(frame["other"]))
    return frame.drop("tested", "other")


def _tested(seen: Survey, layer: int, memory: int, prefixes: int, seed: int) -> list[int]:
    """Return where a memory is tested: at its largest coefficients, then at some others where it is active."""
    m = seen.of(layer, memory)
    order = [int(i) for i in np.lexsort((np.arange(len(m)), -m)) if m[i] > 0]
    top = -(-prefixes // 2)
    rest = generator(seed, f"causal prefixes of memory {layer} {memory}").permutation(order[top:])
    return order[:top] + [int(i) for i in rest[: prefixes - top]]


def _rows(
    seen: Survey, layer: int, memory: int, at: int, interventions: Sequence[str], seed: int
) -> list[tuple[Any, ...]]:
    """Return the rows of a memory at one prefix; a control that there is none of has no row."""
    rng = generator(seed, f"causal rows of memory {layer} {memory} {at}")
    m, first = seen.of(layer, memory), interventions[0]
    resampled = int((at + 1 + rng.integers(len(m) - 1)) % len(m)) if len(m) > 1 else None

    def set_to(which: int, intervention: str) -> float | None:
        if intervention == "resample":
            return None if resampled is None else float(seen.of(layer, which)[resampled])
        now = float(seen.of(layer, which)[at])
        return {"mean": seen.mean_of(layer, which), "zero": 0.0, "double": 2 * now}[intervention]

    def row(control: str, intervention: str, which: int, matched: int | None, moved: int) -> tuple[Any, ...] | None:
        given, other = set_to(which, intervention), resampled if intervention == "resample" else None
        now = float(seen.of(layer, which)[at])
        made = (layer, memory, at, at, intervention, control, matched, other, moved, now, given)
        return None if given is None else made

    made = [row("none", name, memory, None, memory) for name in interventions]
    twin = matched_memory(seen, layer, memory, at)
    made.append(None if twin is None else row("matched", first, twin, twin % seen.mean.shape[1], twin))
    made.append(row("direction", first, memory, None, -1))
    silent, given = np.flatnonzero(m <= 0), set_to(memory, first)
    if len(silent) and given is not None:
        there = int(silent[rng.integers(len(silent))])
        amount = float(m[at]) - given  # what was taken away is added
        now = float(m[there])
        made.append((layer, memory, there, at, first, "inactive", None, there, memory, now, now + amount))
    return [part for part in made if part is not None]


def reasons(table: pl.DataFrame, layers: int, zero: int, options: Any) -> dict[str, int]:
    """Return what the ``counts`` table says of a table ``causal``.

    Args:
        layers: L.
        zero: how many values have length zero; nothing can be said of them.
        options: the config's section.
    """
    memories, pairs = (table.select(names).n_unique() for names in (["layer", "key"], ["layer", "key", "prefix"]))
    return {
        "layers_without_active_prefixes": layers - table["layer"].n_unique() if options.keys_per_layer else 0,
        "memories_missing": layers * options.keys_per_layer - memories,
        "prefixes_missing": memories * options.prefixes - pairs,
        "rows_missing": pairs * (len(options.interventions) + len(CONTROLS) - 1) - len(table),
        "values_of_zero_length": zero,
    }


def matched_memory(seen: Survey, layer: int, memory: int, at: int) -> int | None:
    """Return the memory of a layer that is most like another one and is active at the same prefix.

    Alike are the lengths of their values and how often they are active, both on a logarithmic scale.
    """
    neurons = seen.mean.shape[1]
    m, lengths = seen.coefficients[layer - 1][at], seen.lengths[layer - 1]
    active = np.flatnonzero(m > 0)
    if seen.fires.shape[1] > neurons:
        active = np.concatenate([active, neurons + np.flatnonzero(m < 0)])
    active = active[(active % neurons != memory % neurons) & (lengths[active % neurons] > 0)]
    if not len(active):
        return None
    often = np.log(seen.fires[layer - 1] + 1.0)
    far = np.abs(np.log(lengths[active % neurons] / lengths[memory % neurons])) + np.abs(often[active] - often[memory])
    return int(active[far.argmin()])


def other_memory(seed: int, layer: int, memory: int, neurons: int) -> int:
    """Return another memory of a layer, of the same sign, whose promoted tokens are looked at as well."""
    rng = generator(seed, f"causal other memory than {layer} {memory}")
    key = (memory % neurons + 1 + rng.integers(neurons - 1)) % neurons if neurons > 1 else memory % neurons
    return int(key) + memory // neurons * neurons


def direction(seed: int, layer: int, memory: int, prefix: int, width: int) -> np.ndarray:
    """Return a random direction (d,) float64 of length one, for a row's control."""
    drawn = generator(seed, f"causal direction {layer} {memory} {prefix}").standard_normal(width)
    return np.asarray(drawn / np.linalg.norm(drawn))


# --------------------------------------------------------------------------------------------------------- the table


def table(
    decoder: LanguageModel,
    corpus: Corpus,
    options: Any,
    values: Any,
    *,
    seed: int,
    batch_tokens: int,
    looked_at: Sequence[tuple[int, int]] | None = None,
    shard: Shard = WHOLE,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return what is tested, as of ``sample``, and the table ``causal`` of a shard.

    Args:
        options, values: the config's sections ``causal`` and ``values``.
        looked_at: (layer, key) of the memories that the run looks at; ``None``: all.
    """
    seen = survey(decoder, corpus, seed, batch_tokens, POOL if options.keys_per_layer else 0)
    rows = sample(
        seen,
        corpus,
        keys_per_layer=options.keys_per_layer,
        prefixes=options.prefixes,
        interventions=options.interventions,
        seed=seed,
        looked_at=looked_at,
    )
    vocabulary = decoder.vocabulary.reading(values.projection, values.projection_seed)
    found = effects(decoder, vocabulary, corpus, seen, rows, seed=seed, batch_tokens=batch_tokens, shard=shard)
    return rows, found


def values_of_zero_length(decoder: LanguageModel) -> int:
    """Return how many values have length zero, both signs of one counted once."""
    return sum(int((values_of(b)[: decoder.description.keys] == 0).all(1).sum()) for b in decoder.layers)


def of_shard(rows: pl.DataFrame, seen: Survey, batch_tokens: int, shard: Shard) -> list[np.ndarray]:
    """Return the batches of a shard: numbers (n,) of prefixes in the survey, by length, which run with all their rows.

    No batch depends on the number of shards.
    """
    at = np.unique(rows["at"].to_numpy())
    at = at[np.argsort(seen.position[at], kind="stable")]
    size = np.bincount(rows["at"].to_numpy(), minlength=len(seen.position)) + seen.position
    every = list(batching.sequences(size, at, batch_tokens)) if len(at) else []
    return list(share(every, shard))


def effects(
    decoder: LanguageModel,
    vocabulary: Vocabulary,
    corpus: Corpus,
    seen: Survey,
    rows: pl.DataFrame,
    *,
    seed: int,
    batch_tokens: int,
    shard: Shard = WHOLE,
) -> pl.DataFrame:
    """Return the table ``causal`` of a shard.

    Args:
        vocabulary: how values promote tokens (``values.projection``); layers are read by the model's own.
        rows: as of ``sample``.
    """
    parts: list[pl.DataFrame] = []
    with torch.inference_mode():
        words = _promoted(decoder, vocabulary, rows, seed)
        batches = of_shard(rows, seen, batch_tokens, shard)
        mine = rows.filter(pl.col("at").is_in(np.concatenate([np.zeros(0, np.int64), *batches]).tolist()))

        def run(part: np.ndarray) -> None:
            own = mine.filter(pl.col("at").is_in(part.tolist()))
            parts.append(_measured(decoder, corpus, seen, part, own, words, seed))

        with Progress(len(mine), "changed coefficients", "causal") as progress:
            for part in batches:
                retry_smaller(run, part, len(part), halved, "prefix")
                progress.step(int(mine["at"].is_in(part.tolist()).sum()))
    return pl.concat(parts) if parts else _measured_none(rows)


Words = dict[tuple[int, int], torch.Tensor]  # of (layer, memory): the mean of its promoted tokens' word vectors (d,)


def _promoted(decoder: LanguageModel, vocabulary: Vocabulary, rows: pl.DataFrame, seed: int) -> Words:
    """Return the mean word vectors of the tokens that tested memories promote, and those that others promote."""
    out: Words = {}
    neurons = decoder.description.keys
    for (layer,), part in rows.group_by("layer", maintain_order=True):
        tested = part["key"].unique().to_list()
        number = int(str(layer))
        memories = sorted({*tested, *(other_memory(seed, number, memory, neurons) for memory in tested)})
        ids = torch.from_numpy(value_tops(decoder, vocabulary, number, memories, PROMOTED).ids).to(decoder.device)
        vectors = word_vectors(decoder.vocabulary, ids.flatten()).unflatten(0, ids.shape).double().mean(1)
        out |= {(number, memory): vector for memory, vector in zip(memories, vectors, strict=True)}
    return out


def _measured(
    decoder: LanguageModel,
    corpus: Corpus,
    seen: Survey,
    part: np.ndarray,
    rows: pl.DataFrame,
    words: Words,
    seed: int,
) -> pl.DataFrame:
    """Return the table of the rows of some prefixes of the survey, which come by length."""
    rows = rows.sort("layer", "key", "prefix", "intervention", "control")
    layer, key, at, moved, prefix = (rows[n].to_numpy() for n in ("layer", "key", "at", "moved", "prefix"))
    amount = (rows["set_to"].cast(pl.Float64) - rows["coefficient"].cast(pl.Float64)).to_numpy()
    place = {int(number): i for i, number in enumerate(part)}
    base = np.array([place[int(number)] for number in at], dtype=np.int64)
    neurons = decoder.description.keys
    send = lambda array: torch.from_numpy(array).to(decoder.device)

    def vector(number: int, here: np.ndarray, m: torch.Tensor) -> torch.Tensor:
        values = values_of(decoder.layers[number - 1])
        which = np.where(moved[here] < 0, key[here], moved[here])
        found = widened(values[send(which)])
        for i in np.flatnonzero(moved[here] < 0):
            row = here[i]
            found[i] = found[i].norm() * send(
                direction(seed, number, int(key[row]), int(prefix[row]), found.shape[1])
            ).to(found)
        return found * send(amount[here]).to(found)[:, None]

    texts = [corpus.sentence(seen.sentence[i])[: seen.position[i]] for i in part]
    ends = run_changed(decoder, texts, base, layer, vector)
    sentence, position = seen.sentence[at], seen.position[at]
    inside = position < corpus.lengths[sentence]
    following = np.where(inside, corpus.tokens[np.where(inside, corpus.offsets[sentence] + position, 0)], -1)
    stack = lambda memories: torch.stack([words[int(n), int(m)] for n, m in zip(layer, memories, strict=True)])
    others = [other_memory(seed, int(n), int(k), neurons) for n, k in zip(layer, key, strict=True)]
    found = outcomes(decoder.vocabulary, ends, send(base), stack(key), stack(others), following.astype(np.int64))
    return _table(rows, found)


def _table(rows: pl.DataFrame, found: dict[str, np.ndarray]) -> pl.DataFrame:
    return (
        rows.drop("at", "moved")
        .with_columns(*(pl.Series(name, column) for name, column in found.items()))
        .with_columns(pl.col("loss").fill_nan(None))
    )


def _measured_none(rows: pl.DataFrame) -> pl.DataFrame:
    names = ("direct", "total", "total_frozen", "other_total", "top_log_probability", "loss", "kl", "top_changed")
    return _table(rows.clear(), {n: np.zeros(0, bool if n == "top_changed" else np.float64) for n in names})


# --------------------------------------------------------------------------------------------------- one text, by hand


@dataclass(frozen=True)
class Setting:
    """A memory's coefficient as it is set at a text's last token.

    Attributes:
        layer: from 1.
        memory: d_m + i is memory i of sign -1.
        to: the number, in the memory's sign; with ``times``, as many times the coefficient that it has.
    """

    layer: int
    memory: int
    to: float
    times: bool = False


@dataclass(frozen=True)
class Reset:
    """What setting coefficients at a text's last token does.

    Attributes:
        coefficients: (settings, 2) what each was when it was set, and what it was set to.
        outputs: (2, d) the last layer's output there, as it is and with all settings.
    """

    coefficients: list[tuple[float, float]]
    outputs: torch.Tensor


def with_settings(decoder: LanguageModel, tokens: np.ndarray, settings: Sequence[Setting]) -> Reset:
    """Run a text (tokens,) beside itself with coefficients set at its last token, layer after layer.

    A coefficient is read when its layer runs, so it has what settings below made of it.
    """
    found: dict[int, tuple[float, float]] = {}
    with torch.inference_mode():
        batch = decoder.pack([tokens, tokens])
        x, last = decoder.embed(batch), torch.tensor([len(tokens), 2 * len(tokens) + 1], device=decoder.device)
        for number, block in enumerate(decoder.layers, 1):
            seen = block(x, batch)
            x, own = seen.output, [i for i, setting in enumerate(settings) if setting.layer == number]
            if not own:
                continue
            m, values = seen.coefficients[last[1:]], values_of(block)
            vector = torch.zeros_like(values[:1])
            for i in own:
                memory, neurons = settings[i].memory, m.shape[1]
                now = float(m[0, memory % neurons]) * (1 if memory < neurons else -1)
                found[i] = now, settings[i].to * now if settings[i].times else settings[i].to
                vector = vector + (found[i][1] - now) * values[memory]
            x = x.index_add(0, last[1:], added_to_output(block, m, widened(vector))[0])
    finite.require("outputs with the coefficients that were set", x[last])
    return Reset([found[i] for i in range(len(settings))], x[last])

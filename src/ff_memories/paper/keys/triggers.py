"""E1, section 3.1: the prefixes of the training text with the highest memory coefficients of every key.

One forward pass serves all layers and keys. No vocabulary projection is made, nor the last layer's second matrix.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ff_memories import tables
from ff_memories.base.draws import generator
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import WHOLE, AnyInputs, Execution, Input, Output, Shard, share
from ff_memories.base.progress import Progress
from ff_memories.config import Settings
from ff_memories.config.sections import Triggers
from ff_memories.corpus import store
from ff_memories.corpus.store import POSITIONS, Corpus
from ff_memories.model.batches import batching
from ff_memories.model.decoder import Batch, LanguageModel
from ff_memories.model.loading import is_transformer, load_model
from ff_memories.model.matmul import require_finite
from ff_memories.paper.keys import memory_selection, trigger_table
from ff_memories.paper.keys.topk import Entries, TopTriggers, merged
from ff_memories.paper.keys.trigger_table import prefix_starts

ROWS = 64  # compared at a time on a CPU, to count on how many each memory fires: as fits in a cache
HITS = 4096  # looked at together, with the coefficients along their sentences: as fits in a cache of a CPU
ON_GPU = 1 << 25  # numbers along sentences, likewise, as memory allows: every piece is some 15 launches
_POWER_TABLE = torch.from_numpy(generator(0, "prefix hashes").integers(-(2**63), 2**63 - 1, size=1 << 16) | 1)


def prefix_hashes(batch: Batch) -> torch.Tensor:
    """Return (rows,) int64: equal for prefixes with the same tokens, different (to 2**-64) otherwise."""
    device = batch.tokens.device
    powers = _POWER_TABLE[: int(batch.positions.max()) + 1].to(device)
    terms = (batch.tokens + 1) * powers[batch.positions]
    sums = terms.cumsum(0)  # modulo 2**64, as int64 arithmetic is
    first, rows = (torch.from_numpy(part).to(device) for part in batch.sentences())
    return sums - torch.repeat_interleave(sums[first] - terms[first], rows, output_size=len(sums))


def trigger_examples(
    decoder: LanguageModel,
    corpus: Corpus,
    blocks: list[tuple[int, int]],
    options: Triggers,
    batch_tokens: int = 16_384,
    keys: list[tuple[int, int]] | None = None,
    shard: Shard = WHOLE,
) -> TopTriggers:
    """Find the t best prefixes of every key in blocks of the training text, and count those on which it fires.

    Args:
        decoder: the model.
        corpus, blocks: the text, and (first, end) of the blocks of sentences to look at.
        options: the config's section ``triggers``, but for ``keys``: ``top``, t; ``positions``, see ``POSITIONS``;
            ``per_sentence``, a sentence's ``best`` prefix alone (the first of equals), or ``all``; ``duplicates``,
            where ``drop`` keeps a prefix text at most once per key.
        batch_tokens: rows of one forward pass.
        keys: (layer, key) of those asked for, None for all; the pass stops at the deepest layer among them.
        shard: of the batches; shards of blocks need no list of all batches.

    Raises:
        UserError: coefficients that are not finite.
    """
    shape, starts = decoder.description, prefix_starts(corpus)
    (low, high), top = POSITIONS[options.positions], options.top
    copies = 1 if options.duplicates == "drop" else top
    best = TopTriggers(shape.layers, decoder.memories, top, copies, decoder.device, decoder.precision, decoder.neurons)
    columns, depth = [Columns() for _ in range(shape.layers)], shape.layers
    if keys is not None:
        asked = torch.tensor(keys, device=decoder.device).reshape(-1, 2)
        depth = int(asked[:, 0].max())
        columns = [Columns(asked[asked[:, 0] == layer, 1], shape.keys) for layer in range(1, depth + 1)]
        best.expect(max(layer_columns.count for layer_columns in columns))
    space = batching.ScratchBuffer()

    def run(part: batching.Plan) -> None:
        try:
            run_batch(decoder, corpus, starts, part, best, low, high, options.per_sentence, columns[:depth], space)
        except (RuntimeError, MemoryError):
            best.again = True  # layers before the one that failed have offered their prefixes, and will once more
            space.release()
            raise

    parts: Iterable[batching.Plan] = (
        part
        for first, end in blocks
        for part in batching.batches(corpus, first, end, batch_tokens, max(1, low - high), high == 0)
    )
    total = int(sum(corpus.offsets[end] - corpus.offsets[first] for first, end in blocks))
    if shard != WHOLE:
        parts = share(list(parts), shard)
        total = sum(batching.tokens_and_sentences(part, corpus)[0] for part in parts)
    with torch.inference_mode(), Progress(total, "tokens", "triggers") as progress:
        for part in parts:
            batching.retry_smaller(run, part)
            if best.again:
                best.finish()
                best.again = False
            progress.step(*batching.tokens_and_sentences(part, corpus))
        best.finish()
    return best


def run_batch(
    decoder: LanguageModel,
    corpus: Corpus,
    starts: np.ndarray,
    part: batching.Plan,
    best: TopTriggers,
    low: int,
    high: int,
    per_sentence: str,
    columns: "list[Columns]",
    space: batching.ScratchBuffer,
) -> None:
    """Run a batch up to the last layer of ``columns``, and offer every coefficient that reaches its key's gate.

    Add the number of prefixes on which each key fires only when the whole batch is done: a batch may start again.
    """
    depth = len(columns)
    cut = None if high == 0 else high  # rows are </s>, w_1 ... w_(N+high)
    sentences = [equal[0] for equal in part]
    batch = decoder.pack([corpus.sentence(s)[:cut] for s in sentences])
    rows = BatchRows(part, starts, batch, low, decoder.signs)
    x, counts = decoder.embed(batch), torch.zeros_like(best.fired)
    for index, layer in enumerate(decoder.layers[:depth]):
        layer_output = layer(x, batch, last=index + 1 == depth, out=space.like(x, decoder.description.keys))
        if columns[index].count:
            coefficients = columns[index].of(layer_output.coefficients)
            offer_hits(index, coefficients, rows, best, per_sentence, columns[index])
            hits = fired(coefficients, rows.weights, decoder.signs)
            counts[index, columns[index].names(torch.arange(len(hits), device=hits.device))] = hits
        x = layer_output.output
    what = f"sentences {min(sentences)} to {max(sentences)}: numbers that the model computes"
    require_finite(what, layer_output.residual, layer_output.coefficients.amax(), layer_output.coefficients.amin())
    best.fired += counts


def fired(coefficients: torch.Tensor, weights: torch.Tensor, signs: int = 1) -> torch.Tensor:
    """Return (signs * d_m,) int64: on how many rows each memory's coefficient is positive, each row by its weight.

    Args:
        coefficients: (rows, d_m).
        weights: (rows,) float32, whole numbers whose sum is below 2**22, so that float32 counts exactly.
        signs: 2 also counts the negative coefficients, as those of memories ``d_m + i``.
    """
    (rows, keys), low = coefficients.shape, weights % 2048  # tf32 takes 11 bits of a factor
    size, weights = (rows, torch.stack([low, weights - low])) if weights.is_cuda else (min(rows, ROWS), weights[None])
    positive = weights.new_empty(size, keys)
    counts = weights.new_zeros(signs, keys)
    for part, row_weights in zip(coefficients.split(size), weights.split(size, 1), strict=True):
        for sign, compare in enumerate((torch.gt, torch.lt)[:signs]):
            counts[sign] += (row_weights @ compare(part, 0, out=positive[: len(part)])).sum(0)
    return counts.flatten().to(torch.int64)


class Columns:
    """The memories of a layer that are looked at, ``d_m + i`` too: only their columns are searched.

    With both signs column ``n + i`` is the memory of column i with its sign changed. If only one of its signs is asked
    for, nothing reaches the other's gate. ``keys``: (count,) those looked at; ``None``: all.
    """

    def __init__(self, keys: torch.Tensor | None = None, neurons: int = 1):
        self.some, self.count = keys is not None, 1 if keys is None else len(keys)
        if keys is not None:
            self.index = torch.unique(keys % neurons)
            self.every = torch.cat([self.index, self.index + neurons])
            self.asked = torch.isin(self.every, keys)

    def of(self, coefficients: torch.Tensor) -> torch.Tensor:
        """Return the coefficients to look at."""
        return coefficients.index_select(1, self.index) if self.some else coefficients

    def names(self, key: torch.Tensor) -> torch.Tensor:
        """Return the model's numbers of keys, given by their columns."""
        return self.every[key] if self.some else key

    def gates(self, gate: torch.Tensor) -> torch.Tensor:
        """Return the gate of every column's key."""
        if not self.some:
            return gate
        numbers = self.every[self.every < len(gate)]
        return torch.where(self.asked[: len(numbers)], gate[numbers], torch.inf)


class BatchRows:
    """Where the prefixes of a batch's sentences lie, and to which prefixes of the corpus they belong.

    ``weights`` (rows,) float32: how many prefixes of the corpus each row is, 0 for a row that is none.
    """

    def __init__(self, part: batching.Plan, starts: np.ndarray, batch: Batch, low: int, signs: int = 1):
        device = batch.tokens.device
        counts = np.array([len(c) for c in part])
        self.groups = batch.groups
        begins, length = batch.sentences()
        send = partial(torch.as_tensor, device=device)
        self.sentences = len(counts)
        self.all_single = bool((counts == 1).all())
        self.count, self.copy = send(counts), send(np.cumsum(counts) - counts)
        self.start = send(starts[np.concatenate(part)] + low)
        self.first, self.length = send(begins + low), send(length - low)
        # where each sentence's rows before its prefixes begin, then its prefixes, and so on
        self.parts = send(np.append(np.stack([begins, begins + low], 1), len(batch.tokens)))
        self.steps = torch.arange(batch.groups[-1][2] - low, device=device)
        self.low, self.text, self.signs = low, prefix_hashes(batch), signs
        copies = torch.repeat_interleave(self.count, self.length + low, output_size=len(batch.tokens))
        self.weights = (copies * (batch.positions >= low)).to(torch.float32)

    def maxima(self, coefficients: torch.Tensor) -> torch.Tensor:
        """Return the largest coefficient of each sentence and memory, (sentences, d_m).

        With both signs (sentences, 2 d_m): memory ``d_m + i`` is memory i with its sign changed.
        """
        if coefficients.is_cuda:
            most, *least = (
                torch.segment_reduce(coefficients, kind, offsets=self.parts, axis=0, unsafe=True)[1::2]
                for kind in ("max", "min")[: self.signs]
            )
            return torch.cat([most, least[0].neg_()], 1) if least else most
        keys = coefficients.shape[1]
        out, before = coefficients.new_empty(self.sentences, self.signs * keys), 0
        for start, n, rows in self.groups:
            view = coefficients[start : start + n * rows].view(n, rows, -1)[:, self.low :]
            largest = out[before : before + n]
            if self.signs == 1:
                torch.amax(view, 1, out=largest)
            else:
                largest[:, :keys], largest[:, keys:] = view.amax(1), view.amin(1).neg_()
            before += n
        return out

    def along(self, coefficients: torch.Tensor, sentence: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """Return the coefficients along sentences, (hits, longest): behind a sentence's end those of what follows it.

        Window r of a key is its coefficients at rows r, r + 1, ..., a view without a copy:

            rows of two sentences, of 2 and 3   0.1 0.2 | 0.5 0.6 0.7
            hits in both, so longest is 3       0.1 0.2 0.5  and  0.5 0.6 0.7

        Sentences, hence hits, come by length, so there is always enough that follows.
        """
        (rows, keys), longest = coefficients.shape, int(self.length[sentence[-1]])
        windows = coefficients.as_strided((rows - longest + 1, keys, longest), (keys, 1, keys))
        values = windows[self.first[sentence], key % keys]
        return values if self.signs == 1 else torch.where(key[:, None] < keys, values, -values)

    def entries(
        self, key: torch.Tensor, coefficient: torch.Tensor, sentence: torch.Tensor, along: torch.Tensor
    ) -> Entries:
        """Return the entries of hits in sentences of the batch, for all sentences of the corpus with the same text."""
        text = self.text[self.first[sentence] + along]
        if self.all_single:
            return Entries(key, coefficient, self.start[sentence] + along, text)
        count = self.count[sentence]
        each = torch.repeat_interleave(torch.arange(len(key), device=key.device), count)
        inside = torch.arange(len(each), device=key.device) - torch.repeat_interleave(count.cumsum(0) - count, count)
        start = self.start[self.copy[sentence][each] + inside]
        return Entries(key[each], coefficient[each], start + along[each], text[each])


def offer_hits(
    layer: int, coefficients: torch.Tensor, rows: BatchRows, best: TopTriggers, per_sentence: str, columns: Columns
) -> None:
    """Offer what reaches the gate: first the best of each sentence is compared, then only the sentences that hit."""
    maxima = rows.maxima(coefficients)
    if best.is_new(layer):
        best.raise_gate(layer, maxima, columns.names(torch.arange(maxima.shape[1], device=maxima.device)))
    gate = columns.gates(best.gate[layer])
    sentence, key = (maxima >= gate).nonzero(as_tuple=True)
    if not len(sentence):
        return
    piece = max(HITS, ON_GPU // len(rows.steps)) if sentence.is_cuda else HITS
    for s, k in zip(sentence.split(piece), key.split(piece), strict=True):
        along, names = rows.along(coefficients, s, k), columns.names(k)
        if per_sentence == "best":
            most = maxima[s, k]
            first = (along == most[:, None]).view(torch.uint8).argmax(1)  # of equals, hence within the sentence
            best.offer(layer, rows.entries(names, most, s, first))
        else:
            reaches = (along >= gate[k, None]) & (rows.steps[: along.shape[1]] < rows.length[s, None])
            which, at = reaches.nonzero(as_tuple=True)
            best.offer(layer, rows.entries(names[which], along[which, at], s[which], at))


def search(
    config: Settings, weights: Path, description: Path, text: Corpus, execution: Execution, shard: Shard = WHOLE
) -> TopTriggers:
    """Return the lists of one shard of the training text."""
    options, lengths = config.triggers, text.lengths[: text.train]
    decoder = load_model(weights, description, execution, config.precision)
    if text.numbers is None:
        trigger_table.require_enough(text, options.top, options.positions, options.per_sentence)
        # other blocks change last bits: those of fairseq's models are the recorded runs'
        block = batching.fitting(lengths) if is_transformer(description) else batching.BLOCK_TOKENS
        blocks, of_batches = list(share(batching.blocks(lengths, block), shard)), WHOLE
        blocks = batching.joined(blocks, lengths) if decoder.device.type == "cuda" else blocks
    else:
        blocks, of_batches = [(0, text.train)], shard  # a sample is one block
    keys = memory_selection.of_model(options.keys, decoder, config)
    return trigger_examples(decoder, text, blocks, options, execution.batch_tokens, keys, of_batches)


def run(
    config: Settings,
    weights: Input,
    description: Input,
    corpus: Input,
    shards: AnyInputs,
    triggers: Output,
    firing: Output,
    counts: Output,
    execution: Execution,
) -> None:
    """Search the training text, or merge the shards of a search.

    Args:
        shards: the files that trigger-shard wrote; none: this job searches the whole text
    """
    text, options = store.read(corpus), config.triggers
    best = merged(shards) if shards else search(config, weights, description, text, execution)
    table = trigger_table.table(best, text)
    if table.is_empty():
        hint = "check that checkpoint, dictionary and text belong together"
        raise UserError("no memory coefficient in the training text is positive", hint)
    neurons = best.neurons or best.keys
    looked_at = memory_selection.looked_at(options.keys, len(best.lists), neurons, best.keys // neurons, config)
    keys = best.fired.numel() if looked_at is None else len(looked_at)
    tables.write_counts("triggers", trigger_table.reasons(table, text, options, keys), counts)
    tables.write(table, triggers, best.precision, best.neurons)
    total = int(store.available(text, options.positions).sum())
    fired = trigger_table.firing(best.fired.cpu().numpy(), total, looked_at)
    tables.write(fired, firing, best.precision, best.neurons)

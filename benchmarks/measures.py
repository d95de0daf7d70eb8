"""The measurements of the benchmark: each returns its rows of the table, with target and what was reached."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import torch

from benchmarks import methods
from benchmarks.subjects import Size, random_corpus, random_transformer
from benchmarks.timing import Measured, Profile, clock, in_turns, peak_memory, ratio
from ff_memories.corpus.store import Corpus
from ff_memories.memories import composition, mutations, values
from ff_memories.memories.search import batching, triggers
from ff_memories.memories.search.topk import TopTriggers
from ff_memories.model.batches import prefix_tree
from ff_memories.model.decoder import Batch, Decoder
from ff_memories.model.matmul import linear
from ff_memories.model.vocabulary import Tail, Vocabulary

MODES = {"best": "per sentence", "all": "every prefix"}
SHARE, OURS = "% of forward", "% of ours"
PARTS: dict[str, list[tuple[Any, str]]] = {  # what the engine does besides the forward pass
    "sentences' maxima": [(triggers.BatchRows, "maxima")],
    "first gates": [(TopTriggers, "raise_gate")],
    "comparing with the gates": [(triggers, "offer_hits")],
    "gathering along sentences": [(triggers.BatchRows, "along")],
    "entries of hits": [(triggers.BatchRows, "entries")],
    "sorting and cutting lists": [(TopTriggers, "offer"), (TopTriggers, "finish")],
    "numbers and hashes of prefixes": [(triggers.BatchRows, "__init__")],
}


VOCABULARY: dict[str, list[tuple[Any, str]]] = {  # what a projection to the vocabulary does besides its head
    "tails: bounds": [(Tail, "__init__")],
    "tails: projection": [(Tail, "project")],
    "targets": [(Vocabulary, "fill_targets")],
    "ranks: counting": [(Tail, "above")],
}


@dataclass(frozen=True)
class Subject:
    """One model on one machine: what all measurements are made on."""

    name: str
    size: Size
    decoder: Decoder
    rounds: int
    batch_tokens: int

    def corpus(self, tokens: int, seed: int = 1) -> Corpus:
        return random_corpus(tokens, self.size.cutoffs[-1], seed)

    def blocks(self, corpus: Corpus) -> list[tuple[int, int]]:
        """Return the blocks of a text that the step would run on this device."""
        on_gpu = self.decoder.device.type == "cuda"
        return batching.blocks(corpus.lengths, batching.ON_GPU if on_gpu else batching.BLOCK_TOKENS)

    def row(self, measure: str, found: Measured, at_most: float | None, unit: str, tokens: int = 0,
            least: float | None = None) -> dict[str, Any]:  # fmt: skip
        """Return one row; the target is ``at_most``, or at ``least`` so much; neither: reported only."""
        target = at_most if least is None else least
        met = None if target is None else (found.value <= target if least is None else found.value >= target)
        sign = None if target is None else ("≤" if least is None else "≥")
        return {
            "model": self.name, "measure": measure, "tokens": tokens, "unit": unit, "sign": sign, "target": target,
            "reached": found.value, "low": found.low, "high": found.high, "rounds": found.rounds, "met": met,
        }  # fmt: skip


def plans(corpus: Corpus, budget: int) -> Iterator[batching.Plan]:
    for first, end in batching.blocks(corpus.lengths):
        yield from batching.batches(corpus, first, end, budget, 1, False)


def trigger_pass(at: Subject) -> list[dict[str, Any]]:
    """The whole pass over the forward pass of the same batches, cold and over a long text; other methods over ours."""
    size, decoder, rows = at.size, at.decoder, []
    for tokens, best_target, all_target in ((size.cold, 1.15, 1.15), (size.corpus, 1.05, 1.08)):
        corpus, rounds, profiles = at.corpus(tokens), [], []
        for _ in range(at.rounds if tokens == size.cold else 1):  # a long pass is many turns in itself
            lists = {n: methods.lists(decoder, size.top) for n in ("best", "all")}
            ways = {"floor": methods.floor(decoder, corpus)}
            ways |= {n: methods.engine(decoder, corpus, size.top, n, lists[n]) for n in lists}
            if tokens == size.cold:
                ways["concatenate"] = methods.concatenate(decoder, corpus, size.top)
                ways["cache"] = methods.hook_and_cache(decoder, corpus, size.top)
            with Profile(PARTS) as profile:
                ways |= {n: profile.under(n, ways[n]) for n in lists}
                ends = {n: profile.under(n, kept.finish) for n, kept in lists.items()}
                rounds.append(in_turns(ways, plans(corpus, at.batch_tokens), ends))
            profiles.append(profile)
        which = "cold" if tokens == size.cold else "whole"
        rows.append(
            at.row(f"per sentence / forward, {which}", ratio(rounds, "best", "floor"), best_target, "ratio", tokens)
        )
        rows.append(
            at.row(f"every prefix / forward, {which}", ratio(rounds, "all", "floor"), all_target, "ratio", tokens)
        )
        if tokens == size.cold:
            least = 1.4 if size.layers < 16 else 1.2
            rows.append(
                at.row("concatenation / ours", ratio(rounds, "concatenate", "all"), None, "ratio", tokens, least)
            )
            rows.append(at.row("hook and cache / ours", ratio(rounds, "cache", "all"), None, "ratio", tokens, 1.7))
            rows.append(at.row("hook and cache / forward", ratio(rounds, "cache", "floor"), None, "ratio", tokens))
        rows += profiled(at, profiles, rounds, which, tokens)
        speed = Measured.of([corpus.offsets[-1] / seconds["best"] for seconds in rounds])
        rows.append(at.row(f"per sentence, {which}", speed, None, "tokens/s", tokens))
    warm = at.corpus(size.cold, seed=2)  # text not seen before, against the gates that the long pass left
    rounds, profiles = [], []
    for _ in range(at.rounds):
        ways = {"floor": methods.floor(decoder, warm)}
        with Profile(PARTS) as profile:
            ways |= {n: profile.under(n, methods.engine(decoder, warm, size.top, n, kept)) for n, kept in lists.items()}
            rounds.append(in_turns(ways, plans(warm, at.batch_tokens)))
        profiles.append(profile)
    for n, text in MODES.items():
        rows.append(at.row(f"{text} / forward, warm", ratio(rounds, n, "floor"), 1.03, "ratio", size.cold))
    return rows + profiled(at, profiles, rounds, "warm", size.cold)


def profiled(
    at: Subject, profiles: list[Profile], rounds: list[dict[str, float]], which: str, tokens: int
) -> list[dict[str, Any]]:
    """Return what the engine's parts took, as a share of the forward pass."""
    rows = []
    for n, text in MODES.items():
        for part in PARTS:
            both = zip(profiles, rounds, strict=True)
            share = Measured.of([100 * spent.seconds[n, part] / seconds["floor"] for spent, seconds in both])
            rows.append(at.row(f"{text}, {which}: {part}", share, None, SHARE, tokens))
    return rows


def products_work(size: Size) -> int:
    """Return the floating-point operations of a token's products with weights, in the pass as it is made."""
    d, m = size.model, size.keys
    return 2 * (size.layers * (4 * d * d + d * m) + (size.layers - 1) * m * d)


def matrix_products(at: Subject) -> list[dict[str, Any]]:
    """What share of the forward pass its matrix products take, made alone, and how fast they are."""
    corpus, rounds = at.corpus(at.size.cold), []
    ways = {
        "products": methods.products(at.decoder, corpus, at.batch_tokens),
        "forward": methods.floor(at.decoder, corpus),
    }
    for _ in range(at.rounds):
        rounds.append(in_turns(ways, plans(corpus, at.batch_tokens)))
    rows = sum(int(corpus.lengths[part.sentences].sum()) for part in plans(corpus, at.batch_tokens))
    speed = Measured.of([rows * products_work(at.size) / seconds["products"] / 1e12 for seconds in rounds])
    return [
        at.row("matrix products alone / forward", ratio(rounds, "products", "forward"), None, "ratio", at.size.cold),
        at.row("matrix products alone", speed, None, "TFLOP/s", at.size.cold),
    ]


def against_fairseq(at: Subject) -> list[dict[str, Any]]:
    """fairseq's own forward, padded as it batches, and hooks on it, over ours."""
    size, decoder, corpus, rounds = at.size, at.decoder, at.corpus(at.size.cold), []
    theirs = methods.fairseq(decoder, corpus, at.batch_tokens)
    floor = methods.floor(decoder, corpus)
    for _ in range(at.rounds):
        hooked, _ = theirs.hook_and_cache(decoder, size.top)
        best = methods.lists(decoder, size.top)
        engine = methods.engine(decoder, corpus, size.top, "all", best)
        whole = lambda run, batches: lambda _: [run(batch) for batch in batches]
        ways = {
            "fairseq": whole(theirs.forward, theirs.batches),
            "forward": whole(floor, plans(corpus, at.batch_tokens)),
            "hooked": whole(hooked, theirs.batches),
            "ours": whole(engine, plans(corpus, at.batch_tokens)),
        }
        rounds.append(in_turns(ways, [0], {"ours": best.finish}))
    row = lambda name, above, below, least: at.row(name, ratio(rounds, above, below), None, "ratio", size.cold, least)
    return [
        row("fairseq's forward / ours", "fairseq", "forward", 1.3),
        row("hook and cache, on fairseq's model / ours", "hooked", "ours", 1.7),
    ]


def growth(at: Subject) -> list[dict[str, Any]]:
    """Time over three decades of corpus length, for few keys and all; memory at the ends."""
    size, decoder, rows, seconds, memory = at.size, at.decoder, [], {}, {}
    lengths = [size.corpus // 100, size.corpus // 10, size.corpus]
    for tokens in lengths:
        corpus = at.corpus(tokens)
        for name, keys in (("all", None), ("few", [(size.layers, key) for key in range(10)])):
            with peak_memory(decoder.device) as used:
                begun = clock()
                triggers.trigger_examples(
                    decoder,
                    corpus,
                    batching.blocks(corpus.lengths),
                    top=size.top,
                    batch_tokens=at.batch_tokens,
                    keys=keys,
                )
                seconds[name, tokens] = clock() - begun
            memory[name, tokens] = used[0]
        rows.append(at.row("all keys", Measured.of([seconds["all", tokens]]), None, "s", tokens))
        rows.append(at.row("memory of the pass", Measured.of([memory["all", tokens] / 1e9]), 2.0, "GB", tokens))
    first, last = lengths[0], lengths[-1]
    slope = math.log(seconds["all", last] / seconds["all", first]) / math.log(last / first)
    rows.append(at.row("exponent of time in tokens", Measured.of([slope]), 1.05, "power", last))
    flat = seconds["all", last] / seconds["few", last]
    rows.append(at.row("all keys / ten keys", Measured.of([flat]), 1.08, "ratio", last))
    more = memory["all", last] / max(memory["all", lengths[1]], 1)
    rows.append(at.row("memory, ten times the text", Measured.of([more]), 1.5, "ratio", last))
    return rows


def vocabulary(at: Subject) -> list[dict[str, Any]]:
    """Values over the whole vocabulary: top, probability, rank, against the matrix products of it alone."""
    size, decoder, rounds = at.size, at.decoder, []
    n = min(size.values, size.layers * size.keys)
    v = torch.cat([layer.values for layer in decoder.layers])[:n]
    chance = 1 / np.arange(1, size.cutoffs[-1] - 3)
    drawn = np.random.default_rng(1).choice(np.arange(4, size.cutoffs[-1]), size=n, p=chance / chance.sum())
    target = torch.from_numpy(drawn).to(decoder.device)

    def products(part: slice) -> None:
        for cluster in decoder.vocabulary.clusters:
            for _ in cluster.tiles(v[part]):
                pass

    ours = lambda part: decoder.vocabulary.predict(v[part], target[part])
    parts = [slice(i, i + values.TILE // 8) for i in range(0, n, values.TILE // 8)]
    profiles = []
    with peak_memory(decoder.device) as used:
        for _ in range(at.rounds):
            with Profile(VOCABULARY) as profile:
                rounds.append(in_turns({"products": products, "ours": profile.under("ours", ours)}, parts))
            profiles.append(profile)
    shares = [
        [100 * spent.seconds["ours", part] / seconds["ours"] for spent, seconds in zip(profiles, rounds, strict=True)]
        for part in VOCABULARY
    ]
    return [
        *(
            at.row(f"values, {part}", Measured.of(share), None, OURS, n)
            for part, share in zip(VOCABULARY, shares, strict=True)
        ),
        at.row("values: all matrix products / ours", ratio(rounds, "products", "ours"), None, "ratio", n, 0.8),
        at.row("values: memory above the weights", Measured.of([used[0] / 1e9]), 2.0, "GB", n),
    ]


def layers(at: Subject) -> list[dict[str, Any]]:
    """Composition and refinement, against the forward passes and the projections they need, counted."""
    size, decoder, rounds = at.size, at.decoder, []
    corpus = at.corpus(size.examples * 40, seed=3)
    corpus = replace(corpus, train=0)
    examples = composition.sample_examples(
        corpus.lengths, 0, examples=size.examples, sample="per_sentence", positions="1..N", seed=1
    )
    sentence, position = (examples[c].to_numpy().astype(np.int64) for c in ("sentence", "position"))
    tops = {"all": np.zeros((size.layers, size.keys), dtype=np.int64)}
    order = np.lexsort((np.arange(len(examples)), position))
    parts = list(batching.sequences(position, order, at.batch_tokens))
    read = 3 * size.layers * len(examples)  # residual, feed-forward and output of each layer
    vectors = torch.randn(min(read, 4096), size.model, device=decoder.device)
    head = decoder.vocabulary.clusters[0].embedding

    def needed(_: object) -> None:
        for part in parts:
            methods.forward(decoder, Batch.pack([corpus.sentence(sentence[i])[: position[i]] for i in part],
                                                        decoder.device))  # fmt: skip
        for start in range(0, read, len(vectors)):
            linear(vectors[: read - start], head).max(1)

    def ours(_: object) -> None:
        composition.observe(decoder, corpus, examples, tops, layer_prediction="ffn", memories="active",
                            batch_tokens=at.batch_tokens)  # fmt: skip

    for _ in range(at.rounds):
        rounds.append(in_turns({"needed": needed, "ours": ours}, [0]))
    return [at.row("composition and refinement / needed", ratio(rounds, "ours", "needed"), 1.5, "ratio", len(examples))]


def mutated(at: Subject) -> list[dict[str, Any]]:
    """Rows of layers run for mutated prefixes, over the distinct ones that are needed; and against one run each."""
    size, decoder = at.size, at.decoder
    corpus, rng = at.corpus(size.triggers * 8, seed=4), np.random.default_rng(5)
    n = size.triggers
    sentence = rng.choice(np.flatnonzero(corpus.lengths > 2), n)
    length = 2 + np.floor(rng.random(n) * (corpus.lengths[sentence] - 2)).astype(np.int64)
    layer = rng.integers(1, size.layers + 1, n)
    removed = [np.ones(n, np.int64), length, 1 + np.floor(rng.random(n) * length).astype(np.int64)]
    frame = lambda gone: pl.DataFrame(
        {
            "layer": layer,
            "key": rng.integers(0, size.keys, n),
            "sentence": sentence,
            "position": length,
            "removed": gone,
        }
    )
    rows = pl.concat([frame(gone) for gone in removed])
    paths, path = mutations.mutated_paths(corpus, rows)
    read, deep = rows["position"].to_numpy() - 1, rows["layer"].to_numpy()
    run = needed = 0
    for part in prefix_tree.cut(paths, at.batch_tokens):
        own = np.flatnonzero((path >= part.start) & (path < part.stop))
        run += prefix_tree.PrefixTree(paths[part], path[own] - part.start, read[own], deep[own]).work
    depth: dict[bytes, int] = {}
    for p, n_, d in zip(path, read, deep, strict=True):
        for shorter in range(n_ + 1):
            text = paths[p][:shorter].tobytes()
            depth[text] = max(depth.get(text, 0), d)
    needed = sum(depth.values())
    alone = int(((read + 1) * deep).sum())
    begun = clock()
    mutations.mutated_coefficients(decoder, corpus, rows, at.batch_tokens)
    seconds = clock() - begun
    return [
        at.row("mutations: rows run / distinct rows", Measured.of([run / needed]), 1.05, "ratio", len(rows)),
        at.row("mutations: one run each / ours, rows", Measured.of([alone / run]), None, "ratio", len(rows)),
        at.row("mutations", Measured.of([len(rows) / seconds]), None, "prefixes/s", len(rows)),
    ]


def long_pass(at: Subject) -> list[dict[str, Any]]:
    """The trigger pass by itself: how fast, in how much memory, and what share of the fastest products it reaches."""
    size, decoder = at.size, at.decoder
    corpus = at.corpus(size.corpus)
    with peak_memory(decoder.device) as used:
        begun = clock()
        triggers.trigger_examples(decoder, corpus, at.blocks(corpus), top=size.top, batch_tokens=at.batch_tokens)
        seconds = clock() - begun
    tokens = int(corpus.offsets[-1])
    reached, fastest = tokens * products_work(size) / seconds / 1e12, fastest_product(decoder)
    one = lambda measure, value, unit: at.row(measure, Measured.of([value]), None, unit, tokens)
    return [
        one("pass alone", seconds, "s"),
        one("pass alone: speed", tokens / seconds, "tokens/s"),
        one("pass alone: products", reached, "TFLOP/s"),
        one("fastest product here", fastest, "TFLOP/s"),
        one("pass alone / fastest product", reached / fastest, "ratio"),
        one("pass alone: memory", used[0] / 1e9, "GB"),
    ]


def fastest_product(decoder: Decoder) -> float:
    """Return the TFLOP/s of a large square product in the model's precision: the most that can be had here."""
    n = 8 * decoder.description.model
    weight = torch.randn(n, n, device=decoder.device).to(decoder.layers[0].keys.dtype)
    x, taken = torch.randn(n, n, device=decoder.device), []
    with torch.inference_mode():
        for _ in range(6):
            begun = clock()
            linear(x, weight)
            taken.append(clock() - begun)
    return float(2 * n**3 / min(taken[1:]) / 1e12)  # the first one warms up


def against_transformers(at: Subject) -> list[dict[str, Any]]:
    """The pass on models of `transformers`, over their own forward; and padding, hooks and a plain search over ours."""
    size, corpus, rows = at.size, at.corpus(at.size.cold), []
    for kind in ("gpt2", "llama"):
        model: Any = random_transformer(kind, size, str(at.decoder.device))
        plain, rounds = methods.plain_transformers(model, corpus), []
        gated = model.description.gated
        two: Any = random_transformer(kind, size, str(at.decoder.device), signs=2) if gated else None
        for _ in range(at.rounds):
            padded, _ = methods.padded_transformers(model, corpus, size.top)
            best = methods.lists(model, size.top)
            ours = methods.engine(model, corpus, size.top, "best", best)
            ways, ends = {"plain": plain, "ours": ours, "padded": padded}, {"ours": best.finish}
            if gated:
                lists = methods.lists(two, size.top)
                ways["both"], ends["both"] = methods.engine(two, corpus, size.top, "best", lists), lists.finish
            rounds.append(in_turns(ways, plans(corpus, at.batch_tokens), ends))
        one = lambda name, above, below, most, least, kind=kind, rounds=rounds: at.row(
            f"{kind}: {name}", ratio(rounds, above, below), most, "ratio", size.cold, least
        )
        rows.append(one("per sentence / transformers' forward", "ours", "plain", 1.1, None))
        rows.append(one("transformers, padded, hook and cache / ours", "padded", "ours", None, 1.8))
        if gated:
            rows.append(one("both signs / one sign", "both", "ours", 1.2, None))
    return rows


def floors(at: Subject) -> list[dict[str, Any]]:
    """Each step on a gated model, both signs, over its floor: the products that its result needs, at their fastest.

    A value and its negative need one product. A prefix runs once, however many mutations begin with it.
    """
    size = at.size
    model: Any = random_transformer("llama", size, str(at.decoder.device), signs=2)
    speed, vocab, d = 1e12 * fastest_product(model), size.cutoffs[-1], size.model
    heads = max(1, size.heads // 2) / size.heads  # of keys and values of attention, per head of queries
    row = 2 * d * (2 * d * (1 + heads) + 3 * size.keys)  # a token through one layer
    corpus = replace(at.corpus(max(size.cold, 40 * size.examples), seed=6), train=0)
    drawn = composition.sample_examples(
        corpus.lengths, 0, examples=size.examples, sample="per_sentence", positions="1..N", seed=1
    )
    none = np.full((size.layers, model.memories), -1)
    read = (
        int(drawn["position"].cast(pl.Int64).to_numpy().sum()) * size.layers * row
        + 3 * len(drawn) * size.layers * 2 * d * vocab
    )
    blocks = at.blocks(corpus)
    run = partial(composition.observe, model, corpus, drawn, {"all": none}, layer_prediction="ffn", memories="active",
                  batch_tokens=at.batch_tokens)  # fmt: skip
    steps: dict[str, tuple[float, Callable[[object], object]]] = {
        "triggers": (
            int(corpus.offsets[-1]) * (size.layers * row - 2 * d * size.keys),  # without the last second matrix
            lambda _: triggers.trigger_examples(model, corpus, blocks, top=size.top, batch_tokens=at.batch_tokens),
        ),
        "values, both signs": (
            2 * size.layers * size.keys * d * vocab,
            lambda _: values.value_predictions(model, model.vocabulary.reading("raw"), none),
        ),
        "composition": (read, lambda _: run()),
    }
    rows = []
    for name, (work, step) in steps.items():
        rounds = [in_turns({name: step}, [0])[name] for _ in range(at.rounds)]
        over = Measured.of([seconds * speed / work for seconds in rounds])
        rows.append(at.row(f"{name}: floor", Measured.of([work / speed]), None, "s"))
        rows.append(at.row(f"{name} / its floor", over, 1.5, "ratio"))
    return rows


MEASURES = (trigger_pass, matrix_products, against_fairseq, growth, vocabulary, layers, mutated)
MORE = (long_pass, against_transformers, floors)  # made where they are asked for

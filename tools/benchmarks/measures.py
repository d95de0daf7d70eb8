"""The measurements of the benchmark: each returns its rows, with target and what was reached."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ff_memories.config.sections import Triggers
from ff_memories.corpus.store import Corpus
from ff_memories.model.batches import batching
from ff_memories.model.decoder import Decoder
from ff_memories.model.matmul import linear
from ff_memories.paper.keys import triggers
from tools.benchmarks import methods
from tools.benchmarks.models import Size, random_corpus
from tools.benchmarks.timing import Measured, clock, in_turns, peak_memory, ratio


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

    def row(
        self,
        measure: str,
        reached: Measured,
        tokens: int,
        unit: str = "ratio",
        at_most: float | None = None,
        at_least: float | None = None,
    ) -> dict[str, Any]:
        """Return one row; without ``at_most`` and ``at_least`` it has no target."""
        met = None
        if at_most is not None:
            met = reached.value <= at_most
        elif at_least is not None:
            met = reached.value >= at_least
        return {
            "model": self.name,
            "measure": measure,
            "tokens": tokens,
            "unit": unit,
            "sign": None if met is None else "≥" if at_most is None else "≤",
            "target": at_least if at_most is None else at_most,
            "reached": reached.value,
            "low": reached.low,
            "high": reached.high,
            "rounds": reached.rounds,
            "met": met,
        }


def plans(corpus: Corpus, budget: int) -> Iterator[batching.Plan]:
    for first, end in batching.blocks(corpus.lengths):
        yield from batching.batches(corpus, first, end, budget, 1, False)


def trigger_pass(at: Subject) -> list[dict[str, Any]]:
    """The pass over the forward pass of the same batches, cold and over a long text; hook and cache over ours."""
    size, decoder, rows = at.size, at.decoder, []
    for which, tokens, best_target, all_target in (("cold", size.cold, 1.15, 1.15), ("whole", size.corpus, 1.05, 1.08)):
        corpus, rounds = at.corpus(tokens), []
        for _ in range(at.rounds if which == "cold" else 1):  # a long pass is many turns in itself
            lists = {mode: methods.lists(decoder, size.top) for mode in ("best", "all")}
            ways = {"floor": methods.floor(decoder, corpus)}
            ways |= {mode: methods.engine(decoder, corpus, mode, lists[mode]) for mode in lists}
            if which == "cold":
                running = methods.RunningLists(decoder, size.top)
                ways["cache"] = methods.hook_and_cache(decoder, corpus, running)
            ends = {mode: top.finish for mode, top in lists.items()}
            rounds.append(in_turns(ways, plans(corpus, at.batch_tokens), ends))
        best, every = (ratio(rounds, mode, "floor") for mode in ("best", "all"))
        rows.append(at.row(f"per sentence / forward, {which}", best, tokens, at_most=best_target))
        rows.append(at.row(f"every prefix / forward, {which}", every, tokens, at_most=all_target))
        if which == "cold":
            rows.append(at.row("hook and cache / ours", ratio(rounds, "cache", "all"), tokens, at_least=1.7))
            rows.append(at.row("hook and cache / forward", ratio(rounds, "cache", "floor"), tokens))
        speed = Measured.of([corpus.offsets[-1] / seconds["best"] for seconds in rounds])
        rows.append(at.row(f"per sentence, {which}", speed, tokens, "tokens/s"))
    return rows


def products_work(size: Size) -> int:
    """Return the floating-point operations of a token's products with weights, in the pass as it is made."""
    d, m = size.model, size.keys
    return 2 * (size.layers * (4 * d * d + d * m) + (size.layers - 1) * m * d)


def long_pass(at: Subject) -> list[dict[str, Any]]:
    """The trigger pass by itself: how fast, in how much memory, and what share of the fastest products it reaches."""
    size, decoder = at.size, at.decoder
    corpus = at.corpus(size.corpus)
    block = batching.ON_GPU if decoder.device.type == "cuda" else batching.BLOCK_TOKENS
    blocks = batching.blocks(corpus.lengths, block)
    with peak_memory(decoder.device) as used:
        begun = clock()
        triggers.trigger_examples(decoder, corpus, blocks, Triggers(top=size.top, positions="inner"), at.batch_tokens)
        seconds = clock() - begun
    tokens = int(corpus.offsets[-1])
    reached, fastest = tokens * products_work(size) / seconds / 1e12, fastest_product(decoder)
    numbers = (
        ("pass alone", seconds, "s"),
        ("pass alone: speed", tokens / seconds, "tokens/s"),
        ("pass alone: products", reached, "TFLOP/s"),
        ("fastest product here", fastest, "TFLOP/s"),
        ("pass alone / fastest product", reached / fastest, "ratio"),
        ("pass alone: memory", used[0] / 1e9, "GB"),
    )
    return [at.row(measure, Measured.of([value]), tokens, unit) for measure, value, unit in numbers]


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


MEASURES = {"trigger_pass": trigger_pass, "long_pass": long_pass}

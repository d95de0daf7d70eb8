"""Estimate the time, memory and disk space of each step of a run, from its sizes and a short calibration.

The work of every step is counted in units (tokens through a layer, vectors against the vocabulary). The calibration
measures the time per unit on this machine. docs/paper-run.md compares estimates with measurements.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from ff_memories.base.precision import Precision
from ff_memories.config import Config
from ff_memories.corpus.splitting.segment import rule
from ff_memories.memories import perplexity, untrained
from ff_memories.memories.search import chosen
from ff_memories.memories.shown import coefficient_sample
from ff_memories.memories.shown.promoted import LOGITS
from ff_memories.memories.values import TILE
from ff_memories.model.decoder import Batch, Layer
from ff_memories.model.loading import use_precision
from ff_memories.model.vocabulary import ROWS, Vocabulary

SENTENCE = 22  # mean number of tokens per sentence in the paper's text
PAGE = 2e-3  # seconds per key's page in the gallery
SPACY_WORDS = 10_000  # words per second that a small spaCy pipeline parses on one core
ENTRY_BYTES = 28  # bytes per trigger in a shard: key, coefficient, prefix, hash
PROCESS = 0.7e9  # bytes of memory of a process that has imported torch
GB = 1e9


@dataclass(frozen=True)
class Shape:
    """The sizes of a model that time and memory depend on."""

    layers: int
    model: int
    keys: int
    heads: int
    vocab: int
    head: int  # words of the softmax's head
    parameters: int
    signs: int = 1  # 2: the keys are d_m memories with either sign

    @property
    def plain(self) -> bool:
        """Whether one softmax covers the vocabulary: then one product serves both signs of a value."""
        return self.head == self.vocab

    @property
    def loaded_bytes(self) -> int:
        """Bytes of the loaded weights: the parameters, and the table of projected embeddings."""
        return 4 * (self.parameters + self.vocab * self.model)


@dataclass(frozen=True)
class Speed:
    """The speed of this machine: seconds per unit of work."""

    layer: float  # per token through one layer
    logit: float  # per multiply-add of a vocabulary projection
    word: float  # per word of text through the segmenter and the dictionary
    read: float = 0.0  # per logit of which a top, a probability and a rank are read
    start: float = 6.0  # to start a job: interpreter, torch, weights


@dataclass(frozen=True)
class Planned:
    """One rule of the plan, with the cost of its jobs."""

    rule: str
    jobs: int
    seconds: float  # per job
    memory: float  # bytes per job
    disk: float  # bytes of output
    device_memory: float = 0.0

    def elapsed(self, devices: int) -> float:
        """Return the seconds that all jobs take if ``devices`` of them run at a time."""
        return math.ceil(self.jobs / devices) * self.seconds if self.device_memory else self.jobs * self.seconds


def calibrate(shape: Shape, device: str, batch_tokens: int, threads: int, precision: Precision = "float32") -> Speed:
    """Measure this machine's speed for a few seconds, on random weights of the model's sizes."""
    use_precision(precision, device)
    torch.set_num_threads(threads)
    made = torch.Generator().manual_seed(1)
    random = lambda *size: (torch.randn(*size, generator=made) * 0.02).to(device)
    d, k = shape.model, shape.keys
    names = {
        "attention_norm.weight": (d,),
        "attention_norm.bias": (d,),
        "qkv.weight": (3 * d, d),
        "qkv.bias": (3 * d,),
        "attention_out.weight": (d, d),
        "attention_out.bias": (d,),
        "norm.weight": (d,),
        "norm.bias": (d,),
        "keys": (k, d),
        "key_bias": (k,),
        "values": (k, d),
        "value_bias": (d,),
    }
    factor = torch.bfloat16 if precision == "bfloat16" else torch.float32
    held = lambda size: random(*size).to(factor if len(size) == 2 else torch.float32)
    layer = Layer({f"layers.0.{name}": held(size) for name, size in names.items()}, 0, shape.heads)
    rows = max(64, min(batch_tokens, 4096))
    batch = Batch.pack([np.full(SENTENCE, 5)] * (rows // (SENTENCE + 1) + 1), device)
    x = random(len(batch.tokens), d)
    head, vectors = random(shape.head, d).to(factor), random(ROWS, d)

    def one_layer() -> torch.Tensor:
        seen = layer(x, batch)
        seen.coefficients.amax(0)
        return seen.output

    words = ("the quick fox , it seems , ran away . " * 20).split()
    ids = {word: i for i, word in enumerate(words)}
    text = lambda: (rule(words), [ids.get(word, 3) for word in words])
    described: Any = SimpleNamespace(vocab=shape.head, output_cutoffs=(shape.head,))
    vocabulary = Vocabulary(described, {"output.head": head})
    target = torch.zeros(len(vectors), dtype=torch.long, device=device)
    with torch.inference_mode():
        logit = _seconds(lambda: vocabulary.clusters[0].logits(vectors), device)
        return Speed(
            layer=_seconds(one_layer, device) / len(batch.tokens),
            logit=logit / (len(vectors) * shape.head * d),
            read=max(0.0, _seconds(lambda: vocabulary.predict(vectors, target), device) - logit)
            / (len(vectors) * shape.head),
            word=2 * _seconds(text, "cpu") / len(words),
        )


def _seconds(work: Callable[[], object], device: str, least: float = 0.7) -> float:
    """Return the median time of a piece of work, after one warm-up run."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    work()
    wait()
    taken: list[float] = []
    while sum(taken) < least or len(taken) < 3:
        begun = time.perf_counter()
        work()
        wait()
        taken.append(time.perf_counter() - begun)
    return float(np.median(taken))


def steps(
    config: Config,
    shape: Shape,
    tokens: dict[str, int],
    speed: Speed,
    archives: int = 0,
    golden: bool = False,
    sentence: int = SENTENCE,
) -> list[Planned]:
    """Return the plan of a run.

    Args:
        config: the run's config.
        shape: the model's sizes.
        tokens: number of tokens in each split that the run reads.
        speed: this machine's speed (``calibrate``).
        archives: bytes still to download and unpack.
        golden: whether the run first checks the checkpoint.
        sentence: mean number of tokens per sentence.
    """
    shards, train, validation = config.execution.shards, tokens["train"], tokens["validation"]
    cells, top, asked = shape.layers * shape.keys, config.triggers.top, config.triggers.keys
    count = lambda keys: shape.signs * chosen.count(keys, shape.layers, shape.keys // shape.signs)
    looked = count(asked)
    shown = min(looked, count(config.gallery.keys))
    forward = speed.layer * shape.layers
    # a vector's product with the vocabulary, and what is read off its logits; the tails of an adaptive softmax double
    # the products, and ranks need counts
    product, read = shape.head * shape.model * speed.logit, shape.vocab * speed.read if shape.plain else 0.0
    value = (product / shape.signs + read) if shape.plain else 2.7 * product
    batch = config.execution.batch_tokens * 4 * (2 * shape.keys + 8 * shape.model)
    lists = looked * top * ENTRY_BYTES
    corpus_bytes = 4 * (train + validation) + 16 * (train + validation) // sentence
    running = PROCESS + shape.loaded_bytes + batch
    every_value = cells * value
    # an adaptive softmax projects whole tiles
    values_seconds = looked * value if shape.plain else every_value * min(1, looked * TILE / cells)
    others = every_value if looked < cells else 0  # section 5 needs the predictions of all values
    seen = min(top, config.gallery.triggers) if config.gallery.shaded else 0  # triggers of a key that are shaded
    shaded = min(train, shown * seen * sentence // 2) * forward / 2
    near = 2 * shown * cells // shape.signs**2 * shape.model  # products of keys, and of values, with all others
    # every word's probability, whose sums take longer than the product; whole parts likewise
    projected = shown if shape.plain else min(cells, shown * max(1, LOGITS // shape.vocab))
    sampled = min(train, config.gallery.sampled * sentence)
    held = sampled * shown // (shape.signs * shape.layers)  # coefficients of a layer
    passes = math.ceil(shape.layers / max(1, coefficient_sample.HELD // max(1, held)))
    gallery = shaded + near * speed.logit + (product + 12 * read if shape.plain else 13 * product) * projected
    gallery += sampled * forward * (passes + 1) / 2
    text = 25 * shown * min(top, config.gallery.triggers) * sentence  # levels, and the index of the triggers' tokens
    # three prefixes of half a sentence, which share what they begin with and run through half of the layers
    mutated = min(looked, config.mutations.keys_per_layer * shape.layers) * config.mutations.top * 3 * sentence // 4
    # sentences whose tokens go through all layers, and three readings of each
    layered = lambda examples: examples * (sentence * forward + 3 * shape.layers * (product + read))
    section5 = layered(config.composition.examples) + others
    sizes, own = config.baselines, untrained.PREDICTED_SENTENCES
    again = min(looked, sizes.keys_per_layer * shape.layers) * untrained.MUTATED_TRIGGERS * 3 * sentence // 4
    said = (own * sizes.models + perplexity.SENTENCES) / (sizes.models + 1)  # sentences of a model
    tokens_said = min(validation, int(said * sentence)) + min(validation, int(said * perplexity.PASSED))
    baseline = min(train, sizes.sentences * sentence) * forward * 1.1 + again * forward
    baseline += tokens_said * (forward + product + read) + layered(min(config.composition.examples, sizes.examples))
    out = [Planned("fetch", 1, 0.0, 0.3 * GB, archives)] if archives else []
    out.append(
        Planned(
            "model",
            1,
            speed.start + 4 * shape.parameters / 0.2e9,
            PROCESS + 12 * shape.parameters,
            4 * shape.parameters,
        )
    )
    if golden:
        # tokens to run: a few windows of 512 with 2,560 of context, or on a GPU the whole test text (`golden`)
        windows = 8 * 3072 if config.execution.device == "cpu" or not torch.cuda.is_available() else 480 * 3072
        out.append(Planned("golden", 1, speed.start + cells * product + windows * forward, running, 0, running))
    if config.corpus.segmenter.startswith("spacy:"):
        out.append(
            Planned("cut_shard", shards, (train + validation) / SPACY_WORDS / shards, 1.2 * GB, corpus_bytes / 2)
        )
    out += [
        Planned("corpus", 1, speed.start + (train + validation) * speed.word, PROCESS + 4 * corpus_bytes, corpus_bytes),
        Planned(
            "trigger_shard",
            shards,
            speed.start + train * forward * 1.1 / shards,
            running + corpus_bytes + 3 * lists,
            lists * shards,
            running + 3 * lists,
        ),
        Planned("triggers", 1, speed.start + shards * lists / 0.1e9, PROCESS + 6 * lists + corpus_bytes, lists),
        Planned("mutations", 1, speed.start + mutated * forward, running + corpus_bytes, 0.02 * lists, running),
        Planned("values", 1, speed.start + values_seconds, running + corpus_bytes, 0.02 * lists, running),
        Planned("composition", 1, speed.start + section5, running + corpus_bytes, 0.02 * lists, running),
        Planned(
            "baseline_model",
            sizes.models + 1,
            speed.start + values_seconds + others + baseline,
            running + shape.loaded_bytes + corpus_bytes + 3 * lists,
            0.01 * lists,
            running + 3 * lists,
        ),
        Planned(
            "gallery_tables",
            1,
            speed.start + gallery,
            running
            + corpus_bytes
            + 4 * coefficient_sample.HELD
            + 4 * sampled * shown // shape.layers
            + 40 * shown * seen * sentence,
            800 * shown,
            running,
        ),
        Planned("gallery", 1, 3 + shown * PAGE, PROCESS + corpus_bytes + 8 * lists + text, 4000 * shown),
        Planned("patterns, figures, claims, report", 1, 180.0, 1.5 * GB, 0.1 * GB),
    ]
    return out


def elapsed(plan: list[Planned], devices: int) -> float:
    """Return the seconds of a whole run on ``devices`` devices: shards run in parallel, all other steps in sequence."""
    return sum(step.elapsed(devices) for step in plan)


def unfit(plan: list[Planned], memory: float, disk: float, device_memory: float | None) -> list[str]:
    """Return one line for each step and reason why the run does not fit on this machine."""
    out = [
        f"{step.rule}: needs about {step.memory / GB:.1f} GB of memory, but this machine has {memory / GB:.1f} GB"
        for step in plan
        if step.memory > memory
    ]
    if device_memory is not None:
        out += [
            f"{step.rule}: needs about {step.device_memory / GB:.1f} GB of GPU memory, but the GPU has "
            f"{device_memory / GB:.1f} GB"
            for step in plan
            if step.device_memory > device_memory
        ]
    if (need := sum(step.disk for step in plan)) > disk:
        out.append(f"the run needs about {need / GB:.1f} GB of disk space, but {disk / GB:.1f} GB are free")
    return out

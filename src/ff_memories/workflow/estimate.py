"""Estimate the time, memory and disk space of each step of a run, from its sizes and this machine's speed.

The work of every step is counted in units (tokens through a layer, vectors against the vocabulary), whose time
``speed`` measures here, and ``cards`` computes for a GPU that is not here. docs/paper-run.md compares estimates with
measurements.
"""

import heapq
import math
from dataclasses import dataclass

from ff_memories.config import Config
from ff_memories.config.running import CHANGED_MEMORIES, MUTATED_TRIGGERS, REMOVED_PREFIXES
from ff_memories.memories import perplexity
from ff_memories.memories.causal import CONTROLS
from ff_memories.memories.gallery import coefficient_sample
from ff_memories.memories.gallery.promoted import LOGITS
from ff_memories.memories.survey import POOL
from ff_memories.memories.values import TILE
from ff_memories.workflow import sizes
from ff_memories.workflow.sizes import ENTRY_BYTES, PROCESS, SENTENCE, Shape
from ff_memories.workflow.speed import Speed

PAGE = 2e-3  # seconds per key's page in the gallery
SPACY_WORDS = 10_000  # words per second that a small spaCy pipeline parses on one core
GB = 1e9


@dataclass(frozen=True)
class Planned:
    """One rule of the plan, with the cost of its jobs.

    ``after``: the rules of the plan whose outputs it reads.
    """

    rule: str
    jobs: int
    seconds: float  # per job
    memory: float  # bytes per job
    disk: float  # bytes of all jobs' outputs
    device_memory: float = 0.0
    after: tuple[str, ...] = ()


def steps(
    config: Config,
    shape: Shape,
    tokens: dict[str, int],
    speed: Speed,
    archives: int = 0,
    golden: bool = False,
    sentence: int = SENTENCE,
    devices: int = 1,
    gpu: bool = False,
) -> list[Planned]:
    """Return the plan of a run.

    Args:
        config: the run's config.
        shape: the model's sizes.
        tokens: number of tokens in each split that the run reads.
        speed: this machine's speed (``speed.measured``), or a GPU's (``cards``).
        archives: bytes still to download and unpack.
        golden: whether the run first checks the checkpoint.
        sentence: mean number of tokens per sentence.
        devices: how many jobs run at once, which ``execution.shards: auto`` follows.
        gpu: whether the model runs on a GPU, where the golden checks read the whole test text.
    """
    train, validation = tokens["train"], tokens["validation"]
    shards, models = config.execution.shards_for(devices), len(config.baselines.names)
    cells, top = shape.layers * shape.keys, config.triggers.top
    looked = shape.count(config.triggers.keys)
    shown = shape.in_gallery(config)
    forward = speed.layer * shape.layers
    # a vector's product with the vocabulary, and what is read off its logits; the tails of an adaptive softmax double
    # the products, and ranks need counts
    product, read = shape.head * shape.model * speed.logit, shape.vocab * speed.read if shape.plain else 0.0
    value = (product / shape.signs + read) if shape.plain else 2.7 * product
    lists = looked * top * ENTRY_BYTES
    corpus_bytes = 4 * (train + validation) + 16 * (train + validation) // sentence
    every_value = cells * value
    # an adaptive softmax projects whole tiles
    values = looked * value if shape.plain else every_value * min(1, looked * TILE / cells)
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
    sizes_ = config.baselines
    per_layer = min(config.mutations.keys_per_layer, sizes_.keys_per_layer)
    tops = min(config.mutations.top, MUTATED_TRIGGERS)
    again = min(looked, per_layer * shape.layers) * tops * 3 * sentence // 4
    said = (
        sum(perplexity.sentences_of(name, sizes_.sentences) for name in sizes_.names) / models
    )  # sentences of a model
    tokens_said = min(validation, int(said * sentence)) + min(validation, int(said * perplexity.PASSED))
    # every shard surveys the prefixes; each tested one runs once, and its changes, from their layers on, are read whole
    causal = config.causal
    pairs = shape.layers * causal.keys_per_layer * causal.prefixes
    changed = pairs * (len(causal.interventions) + len(CONTROLS) - 1) * (forward / 2 + 2 * product + 8 * read)
    changed += min(pairs, POOL) * sentence // 2 * forward
    fewer = min(1, CHANGED_MEMORIES / max(1, causal.keys_per_layer))
    surveyed = min(validation, 2 * POOL * sentence // 2) * forward if pairs else 0.0
    # each prefix runs twice; a row's vector is a sum of values, and both predictions are read before and after
    pairs = shape.layers * config.removals.prefixes
    removed = pairs * (1 + len(config.removals.memories)) * (forward / 2 + 3 * product + 9 * read)
    removed += config.removals.prefixes * sentence * forward
    without = min(1, REMOVED_PREFIXES / max(1, config.removals.prefixes))
    memory = sizes.memory(config, shape, corpus_bytes, sentence)
    sought = "triggers of a baseline"
    text_only: tuple[str, ...] = ("model", "corpus")

    def measured(rule: str, jobs: int, seconds: float, disk: float, after: tuple[str, ...]) -> Planned:
        """Return a rule that runs the model; ``seconds`` of all its jobs together, besides their start."""
        # the gallery's coefficients lie in main memory, whatever device computes them
        return Planned(
            rule, jobs, speed.job(rule, seconds / jobs), memory[rule], disk, memory[rule] - corpus_bytes, after
        )

    out = [Planned("fetch", 1, 0.0, 0.3 * GB, archives)] if archives else []
    first = tuple(step.rule for step in out)
    out.append(
        Planned(
            "model", 1, speed.start + 4 * shape.parameters / 0.2e9, memory["model"], 4 * shape.parameters, after=first
        )
    )
    if golden:
        # tokens to run: a few windows of 512 with 2,560 of context, or on a GPU the whole test text (`golden`)
        windows = (480 if gpu else 8) * 3072
        out.append(
            Planned(
                "golden",
                1,
                speed.job("golden", cells * product + windows * forward),
                memory["composition"],
                0,
                memory["composition"] - corpus_bytes,
                ("model",),
            )
        )
        text_only += ("golden",)
    cutting = (train + validation) / SPACY_WORDS / 16 if config.corpus.segmenter.startswith("spacy:") else 0
    return [
        *out,
        Planned(
            "corpus",
            1,
            speed.start + (train + validation) * speed.word + cutting,
            PROCESS + 4 * corpus_bytes,
            corpus_bytes,
            after=(*first, "model"),
        ),
        measured("trigger_shard", shards, train * forward, lists * shards, text_only),
        Planned(
            "triggers", 1, speed.start + shards * lists / 0.1e9, memory["triggers"], lists, after=("trigger_shard",)
        ),
        measured("mutations", shards, mutated * forward, 0.02 * lists, ("triggers",)),
        measured("values", shards, values, 0.02 * lists, ("triggers",)),
        measured(
            "composition",
            shards,
            layered(config.composition.examples) + shards * others,
            0.02 * lists,
            ("values",),
        ),
        measured(
            "triggers of a baseline",
            models,
            models * min(train, sizes_.sentences * sentence) * forward,
            models * lists,
            text_only,
        ),
        measured("mutations of a baseline", models, models * again * forward, 0.01 * lists, (sought,)),
        measured("values of a baseline", models, models * values, 0.01 * lists, (sought,)),
        measured(
            "composition of a baseline",
            models,
            models * (layered(min(config.composition.examples, sizes_.examples)) + others),
            0.01 * lists,
            ("values of a baseline",),
        ),
        measured("perplexity", 1, models * tokens_said * (forward + product + read), 0.0, text_only),
        measured("interventions", shards, changed + removed + shards * surveyed, 0.0, text_only),
        measured(
            "interventions of a baseline",
            models,
            models * (fewer * changed + without * removed + surveyed),
            0.0,
            text_only,
        ),
        measured("gallery_tables", shards, gallery, 800 * shown, ("values", "interventions")),
        Planned(
            "gallery",
            1,
            3 + shown * PAGE,
            PROCESS + corpus_bytes + 8 * lists + text,
            4000 * shown,
            after=("gallery_tables", "mutations"),
        ),
        Planned(
            "patterns, figures, claims, report",
            1,
            60.0,
            1.5 * GB,
            0.1 * GB,
            after=("mutations", "composition", "perplexity", "composition of a baseline"),
        ),
    ]


def elapsed(plan: list[Planned], devices: int) -> float:
    """Return the seconds of a whole run on so many devices, or cores, each of which does one job at a time.

    List scheduling: a free device takes, of the jobs whose inputs are there, one that most work depends on.
    """
    rules = {step.rule: step for step in plan}
    behind: dict[str, float] = {}  # seconds from a job's start to the end of the run, if no job has to wait
    for step in reversed(plan):
        behind[step.rule] = step.seconds + max(
            (behind[other.rule] for other in plan if step.rule in other.after), default=0.0
        )
    waiting = {step.rule: step.jobs for step in plan}
    running: list[tuple[float, str]] = []
    left, now = dict(waiting), 0.0
    while any(left.values()):
        ready = [rule for rule, jobs in waiting.items() if jobs and not any(left[other] for other in rules[rule].after)]
        for name in sorted(ready, key=behind.__getitem__, reverse=True):
            while waiting[name] and len(running) < devices:
                heapq.heappush(running, (now + rules[name].seconds, name))
                waiting[name] -= 1
        now, done = heapq.heappop(running)
        left[done] -= 1
    return now


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

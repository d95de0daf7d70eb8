"""What each step of a run costs: its work in units whose time is measured, its memory, and its space on disk.

``speed`` measures the units here, or computes them for a GPU that is not here. Nothing in this module loads torch:
Snakemake asks it for every job's memory. docs/cluster.md compares estimates with measurements.
"""

import heapq
import math
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ff_memories.base import foreign, sections
from ff_memories.base.errors import UserError
from ff_memories.config import Config, Settings
from ff_memories.config.model import TransformersModel
from ff_memories.judge.sensitivity import parts

OF_A_BASELINE = " of a baseline"  # of a step that measures a model of the baselines
SENTENCE = 22  # mean number of tokens per sentence in the paper's text
PROCESS = 0.7e9  # bytes of memory of a process that has imported torch
ENTRY_BYTES = 28  # bytes per trigger in a shard: key, coefficient, prefix, hash
PAGE = 2e-3  # seconds per key's page in the gallery
WORD = 2.4e-7  # seconds per word of text through the segmenter and the dictionary
SPACY_WORDS = 10_000  # words per second that a small spaCy pipeline parses on one core
UNTRAINED, SHUFFLED = 6e7, 1.5e7  # parameters of such models that are drawn per second
TAILS = 2.7  # products with an adaptive softmax's head that reading a vector takes, with the tails and their ranks
GB = 1e9
# by the section of a choice that is varied, the steps that run again; all, if it is another
AGAIN = {"mutations": ("mutations",), "values": ("values", "composition"), "composition": ("composition",)}
# what modules of `gallery` and `model` name so, which load torch
HELD, LOGITS = 1 << 27, 1 << 24
SENTENCES, OF_UNTRAINED, PASSED = 2000, 200, 12


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
    matrices: int = 2  # of a feed-forward layer; 3 if it is gated

    @classmethod
    def of(cls, described: Any) -> "Shape":
        """Return the sizes of a described model; both signs of a coefficient have triggers, a value and a page."""
        sizes = {name: getattr(described, name) for name in ("layers", "model", "heads", "vocab", "parameters")}
        signs, matrices = getattr(described, "signs", 1), 3 if getattr(described, "gated", False) else 2
        head = described.output_cutoffs[0]
        return cls(**sizes, keys=signs * described.keys, head=head, signs=signs, matrices=matrices)

    @property
    def plain(self) -> bool:
        """Whether one softmax covers the vocabulary: then one product serves both signs of a value."""
        return self.head == self.vocab

    @property
    def loaded_bytes(self) -> int:
        """Bytes of the loaded weights: the parameters, and an adaptive softmax's table of projected embeddings."""
        return 4 * (self.parameters + (0 if self.plain else self.vocab * self.model))

    def count(self, keys: Any) -> int:
        """Return how many memories ``triggers.keys`` or ``gallery.keys`` asks for, both signs of one counted twice."""
        if isinstance(keys, dict):
            return self.signs * sum(map(len, keys.values()))
        return self.layers * (self.keys if keys is None else self.signs * keys)

    def in_gallery(self, config: Config) -> int:
        """Return how many memories the gallery shows, at most: a sample, and those that ``causal`` changes."""
        asked = config.gallery.keys
        changed = self.count(config.causal.keys_per_layer) if isinstance(asked, int) else 0
        return min(self.count(config.triggers.keys), self.count(asked) + changed)


@dataclass(frozen=True)
class Text:
    """The tokens of a run's texts, and the mean number of a sentence."""

    train: int
    validation: int
    sentence: int = SENTENCE

    def read_by(self, config: Config) -> "Text":
        """Return what a run reads of the texts, less if its config caps sentences."""
        train, validation = config.corpus.train.max_sentences, config.corpus.validation.max_sentences
        first = min(self.train, (train or self.train) * self.sentence)
        return Text(first, min(self.validation, (validation or self.validation) * self.sentence), self.sentence)

    @property
    def bytes(self) -> int:
        """Bytes of the corpus's file: tokens, and where sentences begin."""
        tokens = self.train + self.validation
        return 4 * tokens + 16 * tokens // self.sentence


@dataclass(frozen=True)
class Work:
    """What all jobs of a step that runs the model compute together, and what each holds besides model and text."""

    after: str  # the rule whose outputs it reads
    tokens: float = 0.0  # through all layers
    products: float = 0.0  # of a vector with the vocabulary, or with the head of an adaptive softmax
    reads: float = 0.0  # of a vector's logits: a top, a probability and a rank; products count an adaptive softmax's
    memory: float = 0.0  # bytes of a job
    disk: float = 0.0  # bytes of all outputs
    like: str = "composition"  # the step whose time on a GPU was measured and which works alike (cards.toml)


@dataclass(frozen=True)
class Speed:
    """The speed of a machine: seconds per unit of work."""

    layer: float  # per token through one layer
    logit: float  # per multiply-add of a vocabulary projection
    read: float = 0.0  # per logit of which a top, a probability and a rank are read
    start: float = 6.0  # to start a job: interpreter, torch, weights
    over: dict[str, float] = field(default_factory=dict)  # {step: its time over that of its units}; 1 for others

    def seconds(self, work: Work, shape: Shape) -> float:
        """Return the seconds of some work, in one job, without its start."""
        units = work.tokens * shape.layers * self.layer + work.products * shape.head * shape.model * self.logit
        units += work.reads * shape.vocab * self.read if shape.plain else 0.0
        return self.over.get(work.like, 1.0) * units


@dataclass(frozen=True)
class Planned:
    """One rule of the plan, with the cost of its jobs."""

    rule: str
    jobs: int
    seconds: float  # per job
    memory: float  # bytes per job
    disk: float  # bytes of all jobs' outputs
    device_memory: float = 0.0
    after: tuple[str, ...] = ()  # the rules of the plan whose outputs it reads
    mapped: float = 0.0  # bytes of `memory` that all jobs on a machine share: the model's file


@dataclass(frozen=True)
class Measured:
    """A model that is measured, on what text, and how.

    ``config``: a run's, or what it is for a model of the baselines (``Baselines.of_a_model``). ``jobs``: how many share
    a step; what each of them does alone is counted for all.
    """

    config: Config | Settings
    shape: Shape
    text: Text
    jobs: int

    @property
    def cells(self) -> int:
        """The model's memories."""
        return self.shape.layers * self.shape.keys

    @property
    def looked_at(self) -> int:
        """The memories that have triggers."""
        return self.shape.count(self.config.triggers.keys)

    @property
    def lists(self) -> int:
        """Bytes of all triggers."""
        return self.looked_at * self.config.triggers.top * ENTRY_BYTES

    @property
    def a_value(self) -> float:
        """Products that reading a value takes."""
        return 1 / self.shape.signs if self.shape.plain else TAILS


def of_a_model(config: Config | Settings, shape: Shape, text: Text, jobs: int) -> dict[str, Work]:
    """Return {rule: its work} of the steps that measure a model (``Measured``), as their sections say it."""
    model = Measured(config, shape, text, jobs)
    of_sections = sections.modules("ff_memories.paper.*.costs").values()
    return {rule: work for section in of_sections for rule, work in section.works(model).items()}


def of_gallery(config: Config, shape: Shape, text: Text) -> Work:
    """Return the work of the gallery's tables, whose coefficients lie in main memory."""
    options, shown, sentence = config.gallery, shape.in_gallery(config), text.sentence
    cells = shape.layers * shape.keys
    per_key = min(config.triggers.top, options.triggers) if options.shaded else 0  # triggers of a key that are shaded
    # a prefix runs through half of the layers; where most sentences are of some key's, each runs once through all
    shaded = min(2 * text.train, shown * per_key * sentence / 2)
    sampled = min(text.train, options.sampled * sentence)
    of_a_layer = sampled * shown // (shape.signs * shape.layers)  # coefficients
    passes = math.ceil(shape.layers / max(1, HELD // max(1, of_a_layer)))
    near = 2 * shown * cells / shape.signs**2 / shape.head  # products with all other keys, and values
    # every word's probability, whose sums take longer than the product; of an adaptive softmax, whole parts
    projected = shown if shape.plain else min(cells, shown * max(1, LOGITS // shape.vocab))
    memory = 4 * HELD + shown * sentence * (4 * options.sampled / shape.layers + 40 * per_key)
    tokens, products = (shaded + sampled * (passes + 1)) / 2, near + projected * (1 if shape.plain else 13)
    return Work("values", tokens, products, 12 * projected, memory, 800 * shown)


def steps(
    config: Config, shape: Shape, text: Text, speed: Speed, devices: int = 1, archives: int = 0, golden: int = 0
) -> list[Planned]:
    """Return the plan of a run.

    ``text``: what it reads. ``devices``: how many jobs run at once, which ``execution.shards: auto`` follows.
    ``archives``: bytes still to download and unpack. ``golden``: windows of text in which the checkpoint is checked
    first; 0 if it is not.
    """
    shards, models = config.execution.shards_for(devices), len(config.baselines.names)
    settings = Settings(config.baselines.of_a_model(config.resolved()))
    parsed = config.corpus.segmenter.startswith("spacy:")  # on 16 cores
    words = (text.train + text.validation) * (1 / SPACY_WORDS / 16 if parsed else WORD)  # seconds
    sentences = config.baselines.sentences
    sample = Text(min(text.train, sentences * text.sentence), text.validation, text.sentence)
    of_own, other = of_a_model(config, shape, text, shards), of_a_model(settings, shape, sample, 1)
    own = {rule: work for rule, work in of_own.items() if rule != "interventions"}
    top, shown = config.triggers.top, shape.in_gallery(config)
    lists = shape.count(config.triggers.keys) * top * ENTRY_BYTES
    read = min(SENTENCES, sentences) + (models - 1) * min(OF_UNTRAINED, sentences)
    passed = sum(min(models * text.validation, read * each) for each in (text.sentence, PASSED))  # tokens
    loaded = PROCESS + shape.loaded_bytes
    running = loaded + config.execution.tokens * 4 * (2 * shape.keys + 8 * shape.model)
    kinds = config.baselines.models / UNTRAINED + config.baselines.shuffled / SHUFFLED
    drawn = shape.parameters * kinds / models  # seconds of a model, on average
    drawing = max(running, loaded + 12 * shape.vocab * shape.model)  # the largest matrix, and the order of its entries
    converted = (6 if isinstance(config.model, TransformersModel) else 12) * shape.parameters

    def measured(rule: str, work: Work, jobs: int = shards) -> Planned:
        """Return a rule that runs the run's own model, whose jobs do some work together."""
        seconds = speed.start + speed.seconds(work, shape) / jobs
        memory, mapped = running + work.memory, shape.loaded_bytes
        return Planned(rule, jobs, seconds, memory + text.bytes, work.disk, memory, (work.after,), mapped)

    def of_others(rule: str, work: Work, jobs: int = models) -> Planned:
        """Return a rule with a job for each model of the baselines, or with one for all."""
        after = work.after + OF_A_BASELINE if work.after in other else work.after
        seconds = speed.start + drawn * models / jobs + speed.seconds(work, shape)
        memory = drawing + work.memory
        return Planned(rule, jobs, seconds, memory + text.bytes, work.disk * models, memory, (after,))

    def of_text(rule: str, seconds: float, memory: float, disk: float, *after: str) -> Planned:
        return Planned(rule, 1, seconds, memory, disk, after=after)

    start, pages = speed.start, 25 * shown * min(top, config.gallery.triggers) * text.sentence  # levels, and an index
    plan = [
        of_text("fetch", 0.0, 0.3 * GB, archives),
        of_text("model", start + shape.parameters / 2e7, PROCESS + converted, 4 * shape.parameters, "fetch"),
        # a window has 512 tokens, behind 2,560 of context
        measured("golden", Work("model", 3072 * golden, shape.layers * shape.keys), 1),
        of_text("corpus", start + words, PROCESS + 4 * text.bytes, text.bytes, "model", "golden"),
        measured("trigger_shard", of_own.pop("triggers")),
        of_text("triggers", start + shards * lists / 1e8, running + text.bytes + 3 * lists, lists, "trigger_shard"),
        *(measured(rule, work) for rule, work in of_own.items()),
        *(of_others(rule + OF_A_BASELINE, work) for rule, work in other.items()),
        of_others("perplexity", Work("corpus", passed, passed, passed), 1),
    ]
    if varied := parts(config, config.sensitivity.choices) if config.sensitivity.choices != "none" else {}:
        again = [own[rule] for few in varied.values() for choice in few for rule in AGAIN.get(choice.section, own)]
        seconds, after = sum(speed.seconds(work, shape) for work in again) / len(varied), ("mutations", "composition")
        memory = running + text.bytes + max(work.memory for work in again)
        plan.append(Planned("sensitivity_part", len(varied), start + seconds, memory, 0.0, memory, after))
    plan += [
        measured("gallery_tables", of_gallery(config, shape, text)),
        of_text("gallery", 3 + shown * PAGE, PROCESS + text.bytes + 8 * lists + pages, 4000 * shown, "gallery_tables"),
        of_text("patterns, figures, claims, report", 60.0, 1.5 * GB, 0.1 * GB, *(step.rule for step in plan)),
    ]
    wanted = {"fetch": archives, "golden": golden}
    return [step for step in plan if wanted.get(step.rule, True)]


def elapsed(plan: list[Planned], devices: int) -> float:
    """Return the seconds of a whole run on so many devices, or cores, each of which does one job at a time.

    List scheduling: a free device takes, of the jobs whose inputs are there, one that most work depends on.
    """
    behind: dict[str, float] = {}  # seconds from a job's start to the end of the run, if no job has to wait
    for step in reversed(plan):
        later = [behind[other.rule] for other in plan if step.rule in other.after]
        behind[step.rule] = step.seconds + max(later, default=0.0)
    urgent = sorted(plan, key=lambda step: behind[step.rule], reverse=True)
    waiting = {step.rule: step.jobs for step in plan}
    left, now = dict(waiting), 0.0
    running: list[tuple[float, str]] = []
    while any(left.values()):
        for step in (step for step in urgent if not any(left.get(other) for other in step.after)):
            while waiting[step.rule] and len(running) < devices:
                heapq.heappush(running, (now + step.seconds, step.rule))
                waiting[step.rule] -= 1
        now, done = heapq.heappop(running)
        left[done] -= 1
    return now


def unfit(plan: list[Planned], memory: float, disk: float, device_memory: float = math.inf) -> list[str]:
    """Return one line for each step and reason why the run does not fit on this machine."""
    out = []
    for step in plan:
        here = (step.memory, memory, "memory, but this machine")
        for need, there, what in (here, (step.device_memory, device_memory, "GPU memory, but the GPU")):
            if need > there:
                out.append(f"{step.rule}: needs about {need / GB:.1f} GB of {what} has {there / GB:.1f} GB")
    if (need := sum(step.disk for step in plan)) > disk:
        out.append(f"the run needs about {need / GB:.1f} GB of disk space, but {disk / GB:.1f} GB are free")
    return out


def _bytes(paths: list[str]) -> int:
    return sum(Path(path).stat().st_size for path in paths if Path(path).is_file())


def megabytes(config: Config, described: Path, model: list[str], texts: list[str], rule: str, at_once: int) -> int:
    """Return the megabytes (10^6 bytes) of memory that Snakemake reserves for a job, by the plan of its run.

    ``described``: model.json, which the first job makes; before, sizes of the model's files, ``model``, stand for its
    own. ``texts``: the run's. ``at_once``: how many jobs run on this machine at once, which share the model's file.
    """
    try:
        shape = Shape.of(SimpleNamespace(**foreign.read_json(described, dict[str, Any], text=True)))
        plan = steps(config, shape, Text(_bytes(texts) // 3, 0), Speed(0, 0))  # a token has three bytes or more
        each = {step.rule: step.memory - step.mapped * (1 - 1 / at_once) for step in plan}
        of_a_model = rule.replace("trigger_shard", "triggers")  # as a model of the baselines has it
        need = each.get(rule, each.get(of_a_model, max(each.values())))
    except (UserError, OSError, ValueError, TypeError, AttributeError, LookupError):  # none yet, or a damaged one
        need = PROCESS + 3 * _bytes(model)
    return int(need / 1e6) + 1

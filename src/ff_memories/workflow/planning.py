"""Plan a run before it starts: its model's sizes, its texts' tokens and this machine's speed."""

import math
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl
import psutil
import torch

from ff_memories.base import arithmetic
from ff_memories.base.errors import UserError
from ff_memories.config import Config
from ff_memories.corpus.tokenizer import Tokenizer
from ff_memories.inputs import registry
from ff_memories.inputs.fetch import fetch, missing
from ff_memories.inputs.fetching import hub
from ff_memories.inputs.models import from_gguf, model_folder
from ff_memories.memories.search import memory_selection
from ff_memories.model.files import checkpoint, converted
from ff_memories.model.loading import chosen_device
from ff_memories.workflow import estimate
from ff_memories.workflow.cards import Card
from ff_memories.workflow.runs.run import Run
from ff_memories.workflow.sizes import SENTENCE, Shape
from ff_memories.workflow.speed import Speed, measured, per_word

THREADS = min(4, os.cpu_count() or 1)  # of a job
BEGINNING = 1 << 20  # characters of a text that tell how long its tokens are


@dataclass(frozen=True)
class Planner:
    """What the plan of a run follows from, besides the sizes of its samples.

    Attributes:
        tokens: of each split's whole text.
        sentence: mean number of tokens of a sentence.
        archives: bytes still to download and unpack.
        golden: whether the run first checks the checkpoint.
        card: the GPU that is not here, if the plan is for one.
    """

    device: str
    shape: Shape
    speed: Speed
    tokens: dict[str, int]
    sentence: int
    archives: int
    golden: bool
    card: Card | None = None

    @classmethod
    def of(cls, run: Run, threads: int, card: Card | None = None) -> Self:
        """Measure this machine for some seconds, at a run's model's sizes; of a card that is not here, only its host.

        Args:
            threads: of a job.

        Raises:
            UserError: a text is missing whose size is unknown, one layer does not fit into this machine's memory, or
                the config names memories that the model lacks.
        """
        config = run.config
        device = "cuda" if card else chosen_device(config.execution.device)
        sources = {kind: run.inputs.source(kind) for kind in ("text", "model", "pipeline")}
        shape, (tokens, sentence) = _shape(run, sources["model"]), _tokens(run, sources["text"])
        _refuse_unknown_keys(config, shape)
        wanting = [s for s in sources.values() if s is not None and s.downloads and missing(s)]
        if device == "cpu" and arithmetic.portable_here(config.execution.arithmetic):
            threads = arithmetic.THREADS
        precision = config.extraction.precision
        if card:
            speed = card.speed(shape, precision, per_word())
        else:
            _refuse_wide(shape)
            speed = measured(shape, device, config.execution, threads, precision)
        return cls(
            device, shape, speed, tokens, sentence, sum(_bytes(s) for s in wanting), bool(run.inputs.test_text), card
        )

    def on(self, card: Card, config: Config) -> Self:
        """Return the planner of the same run on one card that is not here, beside this machine's CPU."""
        speed = card.speed(self.shape, config.extraction.precision, self.speed.word)
        return replace(self, device="cuda", speed=speed, card=card)

    @property
    def here(self) -> int:
        """How many jobs that run the model this machine does at once, or one card that is not here."""
        if self.card:
            return 1
        return torch.cuda.device_count() if self.device == "cuda" else os.cpu_count() or 1

    def unfit(self, plan: list[estimate.Planned]) -> list[str]:
        """Return why a run does not fit on this machine, or into the memory of a card that is not here."""
        if self.card:
            return estimate.unfit(plan, math.inf, math.inf, 1e9 * self.card.memory)
        on_gpu = torch.cuda.get_device_properties(0).total_memory if self.device == "cuda" else None
        return estimate.unfit(plan, psutil.virtual_memory().total, shutil.disk_usage(".").free, on_gpu)

    def tokens_of(self, config: Config) -> dict[str, int]:
        """Return the tokens of each split that a run reads, fewer if its config caps sentences."""
        most = {split: getattr(config.corpus, split).max_sentences for split in self.tokens}
        return {s: n if most[s] is None else min(n, most[s] * self.sentence) for s, n in self.tokens.items()}

    def steps(self, config: Config, devices: int | None = None) -> list[estimate.Planned]:
        """Return the plan of a run, on this machine or on so many devices."""
        return estimate.steps(
            config, self.shape, self.tokens_of(config), self.speed, self.archives, self.golden, self.sentence,
            devices=devices or self.here, gpu=self.device == "cuda",
        )  # fmt: skip


def _refuse_wide(shape: Shape) -> None:
    """Raise ``UserError`` for a model of which this machine cannot hold one layer, on which its speed is measured."""
    layer = 4 * (4 * shape.model**2 + 2 * shape.keys * shape.model + shape.head * shape.model)
    if layer > (memory := psutil.virtual_memory().total):
        raise UserError(
            f"this run does not fit: a layer and the output layer need {layer / 1e9:,.0f} GB of memory, but this "
            f"machine has {memory / 1e9:.0f} GB",
            "use a smaller model, or a larger machine",
        )


def _refuse_unknown_keys(config: Config, shape: Shape) -> None:
    """Raise ``UserError`` for memories that the model lacks, or that the gallery shows and the run does not look at."""
    neurons = shape.keys // shape.signs
    found = memory_selection.memories(config.triggers.keys, shape.layers, neurons, config)
    if config.gallery.keys is not None:
        found = found or [np.arange(neurons)] * shape.layers
        own = pl.DataFrame(memory_selection.keys(found, neurons, 1), schema=["layer", "key"], orient="row")
        memory_selection.in_gallery(config.gallery.keys, own, shape.layers, neurons, config.seed)


def _bytes(source: registry.Source) -> int:
    way = source.downloads[0]
    return source.unpacked_bytes + sum(part.bytes or part.at_most or 0 for part in way.parts)


def _shape(run_: Run, source: registry.Source | None) -> Shape:
    """Return the model's sizes, from the converted model, the checkpoint, or the registry."""
    described = Path(run_.path("model", "model.json"))
    found: converted.Description
    if run_.config.model.has_tokenizer:
        found = _transformer(run_, described)
    elif described.exists():
        found = converted.read_description(described)
    elif not Path(run_.inputs.model_file("checkpoint")).is_file() and source is not None and source.shape:
        return Shape(**source.shape)
    else:
        found, _ = checkpoint.read(run_.inputs.model_file("checkpoint"))
    return Shape.of(found)


def _transformer(run_: Run, described: Path) -> converted.Description:
    from ff_memories.model.families import families
    from ff_memories.model.files import config_file
    from ff_memories.model.transformer import describe, load  # the library takes seconds to load

    if described.exists():
        return describe.read_description(described)
    path = _model_file(run_, model_folder.CONFIG)
    plain = config_file.read(path.parent)
    load.check(path.parent, plain, families.row(plain, str(path)).architecture, str(path.parent))
    return load.sizes(plain, run_.config.triggers.signs, str(path))


def _model_file(run_: Run, name: str) -> Path:
    """Return a small file of a model of `transformers`, which need not be fetched yet; a GGUF file is converted."""
    pinned = run_.inputs.pinned_on_hub
    for path, digest in run_.inputs.gguf.items():
        if pinned is not None:
            hub.fetch(pinned)
        from_gguf.folder(Path(path), digest)
    if (source := run_.inputs.source("model")) is not None:
        fetch(str(run_.config.model.source), source)
    if pinned is None or run_.inputs.gguf:
        return Path(str(run_.inputs.model_folder), name)
    return hub.small_file(pinned, name)


def _pieces(run_: Run, path: Path) -> float:
    """Return how many tokens the model's tokenizer makes of a word, by the beginning of a text."""
    if not run_.config.model.has_tokenizer:
        return 1.0
    with path.open(encoding="utf-8", errors="replace") as file:
        words = file.read(BEGINNING).split()
    tokens = Tokenizer.read(_model_file(run_, model_folder.TOKENIZER)).encode(words)
    return len(tokens) / max(1, len(words))


def _tokens(run_: Run, source: registry.Source | None) -> tuple[dict[str, int], int]:
    """Return the tokens of each split's whole text, and the mean number of a sentence."""
    out, sentence = {}, SENTENCE
    if source is not None and not source.tokens and source.downloads and missing(source):
        fetch(str(run_.config.corpus.source), source)  # only the text itself says how long it is
    for split in ("train", "validation"):
        paths = run_.inputs.texts(split)
        if all(Path(path).is_file() for path in paths):
            pieces = _pieces(run_, Path(paths[0]))
            sentence = round(SENTENCE * pieces)
            out[split] = round(sum(_words(Path(path)) for path in paths) * pieces)
        elif source is not None and split in source.tokens:
            out[split] = source.tokens[split]
        else:
            how = "make the text first" if source is None else f"ff-memories fetch {run_.config.corpus.source}"
            raise UserError(f"{', '.join(paths)}: no such text file, and its size is unknown", how)
    return out, sentence


def _words(path: Path) -> int:
    with path.open("rb") as lines:
        return sum(len(line.split()) for line in lines)

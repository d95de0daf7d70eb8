"""Plan a run before it starts, or make it fit a time: its model's sizes, its texts' tokens, this machine's speed."""

import math
import os
import shutil
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Self

import psutil
import torch

from ff_memories.base import arithmetic
from ff_memories.base.errors import UserError
from ff_memories.base.progress import duration
from ff_memories.config import Config, parse
from ff_memories.corpus.tokenizer import Tokenizer
from ff_memories.inputs import from_gguf, hub, model_folder, registry
from ff_memories.inputs.fetch import fetch, missing
from ff_memories.judge.register import register
from ff_memories.model.files import checkpoint
from ff_memories.model.loading import chosen_device
from ff_memories.workflow import costs
from ff_memories.workflow.costs import SENTENCE, Planned, Shape, Speed, Text
from ff_memories.workflow.run import Run
from ff_memories.workflow.speed import measured

BEGINNING = 1 << 20  # bytes of a text that tell how many tokens it has
# The keys that are cut, besides those of `_least`, and the least that still says something. Memories are cut only if
# samples do not suffice, and then to their least at once, which leaves time for samples.
SAMPLES = {
    "corpus.train.max_sentences": 500,
    "corpus.validation.max_sentences": 200,
    "mutations.top": 3,
    "gallery.keys": 5,
    "gallery.sampled": 100,
    "causal.keys_per_layer": 2,
    "removals.prefixes": 20,
    "baselines.sentences": 100,
    "baselines.models": 1,
    "baselines.shuffled": 0,
}
MEMORIES = {"triggers.keys": 32}
STEPS = 24  # of the bisection
SPARE = 1.1  # of the least time, since a second measurement of the machine differs from the first
ROOM = 0.9  # of the time, because a plan is an estimate


@dataclass(frozen=True)
class Planner:
    """What the plan of a run follows from, besides the sizes of its samples."""

    device: str
    shape: Shape
    speed: Speed
    text: Text  # all of it
    threads: int = 1  # of a job on this machine's CPU

    @classmethod
    def of(cls, run: Run, threads: int | None = None) -> Self:
        """Measure this machine for some seconds, at a run's model's sizes.

        ``threads``: of a job; ``None``: as many as its arithmetic gives it. Raises ``UserError`` if a text is missing
        whose size is unknown, or if one layer does not fit into this machine's memory.
        """
        config = run.config
        device, precision = chosen_device(config.execution.device), config.extraction.precision
        shape, text = _shape(run, run.inputs.source("model")), _text(run, run.inputs.source("text"))
        usual = arithmetic.threads_of_a_job(config.execution.arithmetic, os.cpu_count() or 1)
        threads = usual if threads is None or usual == arithmetic.THREADS else threads
        speed = measured(shape, device, config.execution, threads, precision)
        return cls(device, shape, speed, text, threads)

    @property
    def here(self) -> int:
        """How many jobs that run the model this machine does at once."""
        if self.device == "cuda":
            return torch.cuda.device_count()
        return max(1, (os.cpu_count() or 1) // self.threads)

    def steps(self, config: Config) -> list[Planned]:
        """Return the plan of a run on this machine."""
        return costs.steps(config, self.shape, self.text.read_by(config), self.speed, self.here)

    def elapsed(self, config: Config) -> float:
        """Return the seconds of a run on this machine."""
        return costs.elapsed(self.steps(config), self.here)

    def unfit(self, plan: list[Planned]) -> list[str]:
        """Return why a run does not fit on this machine."""
        on_gpu = torch.cuda.get_device_properties(0).total_memory if self.device == "cuda" else math.inf
        return costs.unfit(plan, psutil.virtual_memory().total, shutil.disk_usage(".").free, on_gpu)


def _shape(run_: Run, source: registry.Source | None) -> Shape:
    """Return the model's sizes, from the converted model, the model's own files, or the registry."""
    described = Path(run_.path("model", "model.json"))
    if described.exists():
        return Shape.read(described)
    if run_.config.model.has_tokenizer:
        from ff_memories.model import families
        from ff_memories.model.files import config_file
        from ff_memories.model.transformer import load  # the library takes seconds to load

        path = _model_file(run_, model_folder.CONFIG)
        plain = config_file.read(path.parent)
        load.check(path.parent, plain, families.row(plain, str(path)).architecture, str(path.parent))
        return Shape.of(load.sizes(plain, run_.config.triggers.signs, str(path)))
    if source is not None and source.shape and not Path(run_.inputs.model_file("checkpoint")).is_file():
        return Shape(**source.shape)
    return Shape.of(checkpoint.read(run_.inputs.model_file("checkpoint"))[0])


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


def _text(run_: Run, source: registry.Source | None) -> Text:
    """Return the tokens of each split's whole text, by its beginning, and the mean number of a sentence."""
    if source is not None and not source.tokens and source.downloads and missing(source):
        fetch(str(run_.config.corpus.source), source)  # only the text itself says how long it is
    tokens, sentence = {}, SENTENCE
    for split in ("train", "validation"):
        paths = [Path(path) for path in run_.inputs.texts(split)]
        if all(path.is_file() for path in paths):
            with paths[0].open("rb") as file:
                beginning = file.read(BEGINNING)
            words = beginning.decode("utf-8", "replace").split()
            read = len(words)
            if run_.config.model.has_tokenizer:
                read = len(Tokenizer.read(_model_file(run_, model_folder.TOKENIZER)).encode(words))
            sentence = round(SENTENCE * read / max(1, len(words)))
            size = sum(path.stat().st_size for path in paths)
            tokens[split] = round(read * size / max(1, len(beginning)))
        elif source is not None and split in source.tokens:
            tokens[split] = source.tokens[split]
        else:
            how = "make the text first" if source is None else f"ff-memories fetch {run_.config.corpus.source}"
            raise UserError(f"{', '.join(map(str, paths))}: no such text file, and its size is unknown", how)
    return Text(**tokens, sentence=sentence)


def fit(data: dict[str, Any], planner: Planner, wanted: float, name: str) -> list[str]:
    """Lower the sizes of a config's samples until its run ends in ``wanted`` seconds on this machine.

    The config, ``data``, is changed in place; ``name``: what messages call it; ``planner``: of the same run. Return
    lines that say how long the run takes and what was cut. Raises ``UserError`` if even the smallest samples take
    longer.
    """
    config, least = parse(data, name), _least(planner.shape.layers)
    whole = {key: size for key in least if isinstance(size := _whole(key, config, planner), int)}
    takes = lambda level: planner.elapsed(parse(_cut(data, _sizes(whole, least, level)), name))
    if takes(2) <= ROOM * wanted:
        return [f"the run takes about {duration(takes(2))} here: nothing was cut"]
    if (fastest := min(takes(0), takes(1))) > ROOM * wanted:
        minutes = math.ceil(SPARE * fastest / ROOM / 60)
        raise UserError(
            f"the run takes about {duration(fastest)} here with the smallest samples, more than nine tenths of "
            f"{duration(wanted)}",
            f"allow --time {minutes}m or more, or use a smaller model or a faster machine",
        )
    low = 1.0 if takes(1) <= ROOM * wanted else 0.0
    high = low + 1
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if takes(middle) <= ROOM * wanted else (low, middle)
    sizes = _sizes(whole, least, low)
    data |= _cut(data, sizes)
    cuts = [f"  {key}: {size:,} instead of {whole[key]:,}" for key, size in sizes.items()]
    return [f"the run takes about {duration(takes(low))} here; to end in {duration(wanted)}:", *cuts]


def _whole(key: str, config: Config, planner: Planner) -> Any:
    """Return what a key stands at: its own value, or all that there is; a list of memories is no number."""
    value: Any = reduce(getattr, key.split("."), config)
    if key.startswith("corpus."):
        every = max(1, getattr(planner.text, key.split(".")[1]) // planner.text.sentence)
        return min(every, value or every)
    keys = planner.shape.keys // planner.shape.signs
    return min(keys, value or keys) if key.endswith(".keys") and not isinstance(value, dict) else value


def _least(layers: int) -> dict[str, int]:
    """Return the least of each key that is cut: at least what the claims need to be judged, here and untrained."""
    needed = lambda units: max(claim.least for claim in register() if claim.resampled == units)
    keys, examples = math.ceil(needed("keys") / layers), needed("examples")
    judged = {"mutations.keys_per_layer": keys, "composition.examples": examples}
    untrained = {"baselines.keys_per_layer": keys, "baselines.examples": examples}
    return judged | SAMPLES | untrained | MEMORIES


def _sizes(whole: dict[str, int], least: dict[str, int], level: float) -> dict[str, int]:
    """Return the cut keys' values: from 2 to 1 samples go to their least, from 1 to 0 again, of the least memories."""
    out = {}
    share = level - 1 if level >= 1 else level
    for key, size in whole.items():
        left, end = (float(level >= 1) if key in MEMORIES else share), least[key]
        if size > end and (cut := round(end * (size / end) ** left if end else size * left)) < size:
            out[key] = cut
    if "triggers.keys" in out and out.get("gallery.keys", whole.get("gallery.keys", 0)) > out["triggers.keys"]:
        out["gallery.keys"] = out["triggers.keys"]
    return out


def _cut(data: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    """Return a config with other sizes."""
    out = deepcopy(data)
    for key, size in sizes.items():
        *sections, last = key.split(".")
        reduce(lambda part, section: part.setdefault(section, {}), sections, out)[last] = size
    return out

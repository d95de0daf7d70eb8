"""Plan a run before it starts, or make it fit a time: its model's sizes, its texts' tokens, this machine's speed."""

import math
import shutil
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Self

import torch

from ff_memories.base import arithmetic, machine
from ff_memories.base.errors import UserError
from ff_memories.base.progress import duration
from ff_memories.config import ABSENT, Config, by_file, parse, value_at
from ff_memories.corpus.tokenizer import Tokenizer
from ff_memories.inputs import from_gguf, hub, model_folder, registry
from ff_memories.inputs.fetch import fetch, missing
from ff_memories.judge.register import register
from ff_memories.model.files import checkpoint, converted
from ff_memories.model.loading import chosen_device
from ff_memories.plan import costs
from ff_memories.plan.costs import SENTENCE, Planned, Shape, Speed, Text
from ff_memories.plan.speed import Card, measured
from ff_memories.workflow.run import Run

BEGINNING = 1 << 20  # characters of a text that tell how long its tokens are
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
UNITS = {  # the key with the number of units: of claims by what they resample, whether people judge, whether beyond
    ("keys", False, False): "mutations.keys_per_layer",
    ("keys", True, False): "patterns.keys_per_layer",
    ("values", False, False): "triggers.keys",
    ("examples", False, False): "composition.examples",
    ("memories", False, True): "causal.keys_per_layer",
    ("examples", False, True): "removals.prefixes",
}
SPARE = 1.1  # of the least time, since a second measurement of the machine differs from the first
ROOM = 0.9  # of the time, because a plan is an estimate


@dataclass(frozen=True)
class Planner:
    """What the plan of a run follows from, besides the sizes of its samples."""

    device: str
    shape: Shape
    speed: Speed
    text: Text  # all of it
    archives: int = 0  # bytes still to download and unpack
    golden: bool = False  # whether the run first checks the checkpoint
    card: Card | None = None  # the GPU that is not here, if the plan is for one
    threads: int = 1  # of a job on this machine's CPU

    @classmethod
    def of(cls, run: Run, card: Card | None = None) -> Self:
        """Measure this machine for some seconds, at a run's model's sizes; a card that is not here is computed.

        Raises ``UserError`` if a text is missing whose size is unknown, or if one layer does not fit into this
        machine's memory.
        """
        config = run.config
        device, precision = "cuda" if card else chosen_device(config.execution.device), config.extraction.precision
        sources = {kind: run.inputs.source(kind) for kind in ("text", "model", "pipeline")}
        shape, text = _shape(run, sources["model"]), _text(run, sources["text"])
        lacking = [s for s in sources.values() if s is not None and s.downloads and missing(s)]
        archives = sum(s.unpacked_bytes + sum(p.bytes or p.at_most or 0 for p in s.downloads[0].parts) for s in lacking)
        threads = arithmetic.threads_of_a_job(config.execution.arithmetic, machine.cores())
        speed = card.speed(shape, precision) if card else measured(shape, device, config.execution, threads, precision)
        return cls(device, shape, speed, text, archives, bool(run.inputs.test_text), card, threads)

    def on(self, card: Card, config: Config) -> Self:
        """Return the planner of the same run on one card that is not here."""
        return replace(self, device="cuda", speed=card.speed(self.shape, config.extraction.precision), card=card)

    @property
    def here(self) -> int:
        """How many jobs that run the model this machine does at once, or one card that is not here."""
        if self.card:
            return 1
        if self.device == "cuda":
            return torch.cuda.device_count()
        return max(1, machine.cores() // self.threads)

    def steps(self, config: Config, devices: int | None = None) -> list[Planned]:
        """Return the plan of a run, on this machine or on so many devices."""
        text, windows = self.text.read_by(config), 480 if self.device == "cuda" else 8  # as the rule `golden` reads
        golden = windows if self.golden else 0
        return costs.steps(config, self.shape, text, self.speed, devices or self.here, self.archives, golden)

    def elapsed(self, config: Config, devices: int | None = None) -> float:
        """Return the seconds of a run, on this machine or on so many devices."""
        return costs.elapsed(self.steps(config, devices), devices or self.here)

    def unfit(self, plan: list[Planned]) -> list[str]:
        """Return why a run does not fit on this machine, or into the memory of a card that is not here."""
        if self.card:
            return costs.unfit(plan, math.inf, math.inf, 1e9 * self.card.memory)
        on_gpu = torch.cuda.get_device_properties(0).total_memory if self.device == "cuda" else math.inf
        return costs.unfit(plan, machine.memory(), shutil.disk_usage(".").free, on_gpu)


def _shape(run_: Run, source: registry.Source | None) -> Shape:
    """Return the model's sizes, from the converted model, the checkpoint, or the registry."""
    described = Path(run_.path("model", "model.json"))
    if run_.config.model.has_tokenizer:
        return _transformer(run_, described)
    if described.exists():
        return Shape.of(converted.read_description(described))
    if source is not None and source.shape and not Path(run_.inputs.model_file("checkpoint")).is_file():
        return Shape(**source.shape)
    return Shape.of(checkpoint.read(run_.inputs.model_file("checkpoint"))[0])


def refuse_too_large(run_: Run) -> None:
    """Raise ``UserError`` for a run of a model of `transformers` whose weights exceed this machine's memory."""
    if run_.config.model.has_tokenizer:
        from ff_memories.model.transformer import load

        shape = _transformer(run_, Path(run_.path("model", "model.json")))
        load.refuse_too_large(shape.parameters, run_.config.run)


def _transformer(run_: Run, described: Path) -> Shape:
    from ff_memories.model import families
    from ff_memories.model.files import config_file
    from ff_memories.model.transformer import load  # the library takes seconds to load

    if described.exists():
        return Shape.of(load.read_description(described))
    path = _model_file(run_, model_folder.CONFIG)
    plain = config_file.read(path.parent)
    load.check(path.parent, plain, families.row(plain, str(path)).architecture, str(path.parent))
    return Shape.of(load.sizes(plain, run_.config.triggers.signs, str(path)))


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
    """Return the tokens of each split's whole text, and the mean number of a sentence."""
    if source is not None and not source.tokens and source.downloads and missing(source):
        fetch(str(run_.config.corpus.source), source)  # only the text itself says how long it is
    tokens, sentence = {}, SENTENCE
    for split in ("train", "validation"):
        paths = [Path(path) for path in run_.inputs.texts(split)]
        if all(path.is_file() for path in paths):
            a_word = _tokens_of_a_word(run_, paths[0])
            sentence = round(SENTENCE * a_word)
            tokens[split] = round(sum(map(_words, paths)) * a_word)
        elif source is not None and split in source.tokens:
            tokens[split] = source.tokens[split]
        else:
            how = "make the text first" if source is None else f"ff-memories fetch {run_.config.corpus.source}"
            raise UserError(f"{', '.join(map(str, paths))}: no such text file, and its size is unknown", how)
    return Text(**tokens, sentence=sentence)


def _words(path: Path) -> int:
    with path.open("rb") as lines:
        return sum(len(line.split()) for line in lines)


def _tokens_of_a_word(run_: Run, path: Path) -> float:
    """Return how many tokens the model's tokenizer makes of a word, by the beginning of a text."""
    if not run_.config.model.has_tokenizer:
        return 1.0
    with path.open(encoding="utf-8", errors="replace") as file:
        words = file.read(BEGINNING).split()
    tokens = Tokenizer.read(_model_file(run_, model_folder.TOKENIZER)).encode(words)
    return len(tokens) / max(1, len(words))


def fit(data: dict[str, Any], planner: Planner, wanted: float, name: str) -> list[str]:
    """Lower the sizes of a config's samples until its run ends in ``wanted`` seconds on this machine.

    The config, ``data``, is changed in place; ``name``: what messages call it; ``planner``: of the same run. Return
    lines that say how long the run takes, what was cut, and how wide the intervals of shares become. Raises
    ``UserError`` if even the smallest samples take longer.
    """
    config, (_, *shared) = parse(data, name), by_file(data, name).values()
    least = _least(planner.shape.layers)
    free = [key for key in least if all(value_at(part, key) is ABSENT for part in shared)]  # the protocol's stay
    whole = {key: size for key in free if isinstance(size := _whole(key, config, planner), int)}

    def takes(level: float) -> float:
        return planner.elapsed(parse(_cut(data, _sizes(whole, least, level)), name))

    if takes(2) <= ROOM * wanted:
        return [f"the run takes about {duration(takes(2))} here: nothing was cut"]
    if (fastest := min(takes(0), takes(1))) > ROOM * wanted:
        minutes = math.ceil(SPARE * fastest / ROOM / 60)
        takes_long = f"the run takes about {duration(fastest)} here with the smallest samples"
        hint = f"allow --time {minutes}m or more, or use a smaller model or a faster machine"
        raise UserError(f"{takes_long}, more than nine tenths of {duration(wanted)}", hint)
    low = 1.0 if takes(1) <= ROOM * wanted else 0.0
    high = low + 1
    for _ in range(24):  # of the bisection
        middle = (low + high) / 2
        low, high = (middle, high) if takes(middle) <= ROOM * wanted else (low, middle)
    sizes = _sizes(whole, least, low)
    data |= _cut(data, sizes)
    return [f"the run takes about {duration(takes(low))} here; to end in {duration(wanted)}:",
            *_cuts(sizes, whole, planner)]  # fmt: skip


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
    units = ("keys", "examples")
    keys, examples = (max(claim.least for claim in register() if claim.resampled == unit) for unit in units)
    keys = math.ceil(keys / layers)
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


def _cuts(sizes: dict[str, int], whole: dict[str, int], planner: Planner) -> Iterator[str]:
    """Yield a line for each key that was cut; those of numbers of units with the width of a share's interval."""
    units = _units(planner.shape)
    for key, size in sizes.items():
        tells = f"; {_width(size, *units[key])}" if key in units else ""
        tells += "; with fewer than three, no claim counts as support" if key == "baselines.models" and size < 3 else ""
        yield f"  {key}: {size:,} instead of {whole[key]:,}{tells}"


def widths(config: Config, planner: Planner) -> Iterator[str]:
    """Yield, for each kind of unit that claims are about, how wide a share's interval will be, and the claims."""
    for key, unit in _units(planner.shape).items():
        if isinstance(size := _whole(key, config, planner), int) and size:
            ids = [c.id for c in register() if UNITS.get((c.resampled.partition(" ")[0], c.human, c.beyond)) == key]
            yield _width(size, *unit) + (f": {', '.join(ids)}" if ids else "")


def _units(shape: Shape) -> dict[str, tuple[str, int]]:
    """Return {key: what it says the number of, and of how many layers}."""
    return {
        "mutations.keys_per_layer": ("keys whose triggers are changed", shape.layers),
        "patterns.keys_per_layer": ("keys that the proxy labels", shape.layers),
        "triggers.keys": ("memories", shape.layers * shape.signs),
        "composition.examples": ("prefixes", 1),
        "causal.keys_per_layer": ("memories that are removed by themselves", shape.layers),
        "removals.prefixes": ("prefixes where several are removed", 1),
        "baselines.keys_per_layer": ("keys whose triggers are changed in random networks", shape.layers),
        "baselines.examples": ("prefixes in random networks", 1),
    }


def _width(size: int, what: str, layers: int) -> str:
    width = 98 / math.sqrt(size * layers)  # points: 1.96 standard errors of a half
    return f"a share of {size * layers:,} {what} is known to about ± {width:.1f} points"

"""The sizes of a run, and the memory that its jobs take: known without loading the model, or torch."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ff_memories.base import foreign
from ff_memories.base.errors import UserError
from ff_memories.config import Config
from ff_memories.config.model import TransformersModel

OF_A_BASELINE = " of a baseline"  # of a step that measures a model of the baselines
SENTENCE = 22  # mean number of tokens per sentence in the paper's text
PROCESS = 0.7e9  # bytes of memory of a process that has imported torch
ENTRY_BYTES = 28  # bytes per trigger in a shard: key, coefficient, prefix, hash
SURVEYED = 512  # prefixes whose coefficients `memories.causal` holds
SURVEYED_BYTES = 0.5e9  # of what it gathers and reads besides
SAMPLED_BYTES = 4 << 27  # of the coefficients that `memories.gallery.coefficient_sample` holds at once


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
        signs = getattr(described, "signs", 1)
        return cls(
            described.layers,
            described.model,
            signs * described.keys,
            described.heads,
            described.vocab,
            described.output_cutoffs[0],
            described.parameters,
            signs,
            3 if getattr(described, "gated", False) else 2,
        )

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


def memory(config: Config, shape: Shape, corpus_bytes: float, sentence: int = SENTENCE) -> dict[str, float]:
    """Return {rule: bytes of memory that one of its jobs takes}, of the rules that run the model or join its lists."""
    looked = shape.count(config.triggers.keys)
    shown = shape.in_gallery(config)
    lists = looked * config.triggers.top * ENTRY_BYTES
    loaded = PROCESS + shape.loaded_bytes + corpus_bytes
    running = loaded + config.execution.tokens * 4 * (2 * shape.keys + 8 * shape.model)
    options, top = config.gallery, config.triggers.top
    along = shown * min(top, options.triggers) * sentence if options.shaded else 0  # coefficients along triggers
    sampled = SAMPLED_BYTES + 4 * options.sampled * sentence * shown // shape.layers
    surveyed = SURVEYED_BYTES + 4 * SURVEYED * shape.keys * shape.layers // shape.signs
    # of each row which of a layer's memories it removes, for the prefixes of one batch
    rows = shape.layers * (1 + len(config.removals.memories))
    batch = min(config.removals.prefixes, config.execution.tokens // rows + 1)
    removed = batch * rows * shape.keys // shape.signs
    baseline = max(running, loaded + shape.loaded_bytes)  # the untrained model is drawn beside the run's own
    of_model = {
        "trigger_shard": 3 * lists,
        "triggers": 3 * lists,
        "mutations": lists,
        "values": lists,
        "composition": 0,
        "interventions": surveyed + removed,
    }
    return {
        **{rule: running + more for rule, more in of_model.items()},
        **{rule + OF_A_BASELINE: baseline + more for rule, more in of_model.items()},
        "perplexity": baseline,
        "model": PROCESS + (6 if isinstance(config.model, TransformersModel) else 12) * shape.parameters,
        "gallery_tables": running + sampled + 40 * along,
    }


def megabytes(config: Config, described: Path, model: list[str], texts: list[str], rule: str) -> int:
    """Return the megabytes (10^6 bytes) of memory that Snakemake reserves for a job.

    Args:
        described: model.json, which the first job of a run makes.
        model: the model's files; before there is a model.json, their sizes stand for its own.
        texts: the run's texts.
    """
    known = lambda paths: sum(Path(path).stat().st_size for path in paths if Path(path).is_file())
    try:
        shape = Shape.of(SimpleNamespace(**foreign.read_json(described, dict[str, Any], text=True)))
        each = memory(config, shape, 1.5 * known(texts))
        need = each.get(rule, max(each.values()))
    except (UserError, OSError, ValueError, TypeError, AttributeError, LookupError):  # none yet, or a damaged one
        need = PROCESS + 3 * known(model)
    return int(need / 1e6) + 1

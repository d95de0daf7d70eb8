"""Measure how fast this machine does the units of work that a plan counts."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from ff_memories.base import arithmetic, machine
from ff_memories.base.arithmetic import Precision
from ff_memories.base.errors import UserError
from ff_memories.config.running import ExecutionSection
from ff_memories.corpus.splitting.segment import rule
from ff_memories.model.decoder import Batch, Layer
from ff_memories.model.loading import use_precision
from ff_memories.model.vocabulary import ROWS, Vocabulary
from ff_memories.workflow.sizes import OF_A_BASELINE, SENTENCE, Shape


@dataclass(frozen=True)
class Speed:
    """The speed of this machine: seconds per unit of work."""

    layer: float  # per token through one layer
    logit: float  # per multiply-add of a vocabulary projection
    word: float  # per word of text through the segmenter and the dictionary
    read: float = 0.0  # per logit of which a top, a probability and a rank are read
    start: float = 6.0  # to start a job: interpreter, torch, weights
    # {step: its time over that of its units}; 1 for others
    over: dict[str, float] = field(default_factory=lambda: {"trigger_shard": 1.1, "triggers": 1.1})

    def job(self, step: str, seconds: float) -> float:
        """Return the seconds of a step's job, from those of its units."""
        return self.start + self.over.get(step.removesuffix(OF_A_BASELINE), 1.0) * seconds


def measured(shape: Shape, device: str, execution: ExecutionSection, threads: int, precision: Precision) -> Speed:
    """Measure this machine's speed for a few seconds, at a model's sizes and with a run's arithmetic.

    Arithmetic is of CPUs, and chosen before numpy and torch are loaded (``arithmetic``): a process of its own measures
    a CPU.

    Raises:
        UserError: the device does not have the precision, or that process failed.
    """
    use_precision(precision, device)
    if device != "cpu":
        return calibrate(shape, device, execution.tokens, threads, precision)
    given = [asdict(shape), device, execution.tokens, threads, precision]
    done = subprocess.run(
        [sys.executable, "-P", "-m", __name__, json.dumps(given)],
        env=os.environ | arithmetic.environment(execution.arithmetic),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines() or [f"the process ended with {done.returncode}"]
        raise UserError(
            f"this machine's speed can't be measured: {last[-1]}", "free memory, or lower execution.batch_tokens"
        )
    return Speed(**json.loads(done.stdout.splitlines()[-1]))  # libraries may print before


def calibrate(shape: Shape, device: str, batch_tokens: int, threads: int, precision: Precision) -> Speed:
    """Measure this machine's speed with this process's arithmetic, on random weights of the model's sizes."""
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
            word=per_word(),
        )


def per_word() -> float:
    """Return the seconds that this machine's CPU takes for a word of text."""
    words = ("the quick fox , it seems , ran away . " * 20).split()
    ids = {word: i for i, word in enumerate(words)}
    return 2 * _seconds(lambda: (rule(words), [ids.get(word, 3) for word in words]), "cpu") / len(words)


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


if __name__ == "__main__":
    machine.keep_freed_memory()  # as jobs do
    sizes, *others = json.loads(sys.argv[1])
    print(json.dumps(asdict(calibrate(Shape(**sizes), *others))))

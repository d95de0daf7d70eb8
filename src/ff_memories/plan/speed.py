"""Measure how fast this machine does the units of work that a plan counts, on one layer, in a few seconds."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import torch

from ff_memories.base import arithmetic, machine
from ff_memories.base.arithmetic import Precision
from ff_memories.base.errors import UserError
from ff_memories.config.sections import ExecutionSection
from ff_memories.model.decoder import Batch, DecoderLayer
from ff_memories.model.loading import use_precision
from ff_memories.model.vocabulary import ROWS, Vocabulary
from ff_memories.plan.costs import SENTENCE, Shape, Speed

READ = 1.5e8  # parameters that a job reads per second
FORKED = 1.0  # seconds to start a job on this machine's CPU (``job_server``)


def measured(shape: Shape, device: str, execution: ExecutionSection, threads: int, precision: Precision) -> Speed:
    """Measure this machine's speed, at a model's sizes and with a run's arithmetic.

    A process of its own measures a CPU, whose arithmetic is chosen before numpy and torch are loaded. Raises
    ``UserError`` if the device does not have the precision, or if that process failed, as where memory is too small.
    """
    use_precision(precision, device)
    if device != "cpu":
        return calibrate(shape, device, execution.tokens, threads, precision)
    given = json.dumps([asdict(shape), device, execution.tokens, threads, precision])
    command = [sys.executable, "-P", "-m", __name__, given]
    environment = os.environ | arithmetic.environment(execution.arithmetic)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines() or [f"the process ended with {done.returncode}"]
        hint = "free memory, or lower execution.batch_tokens"
        raise UserError(f"this machine's speed can't be measured: {last[-1]}", hint)
    return Speed(**json.loads(done.stdout.splitlines()[-1]))  # libraries may print before


def calibrate(shape: Shape, device: str, batch_tokens: int, threads: int, precision: Precision) -> Speed:
    """Measure this machine's speed with this process's arithmetic, on random weights of the model's sizes."""
    use_precision(precision, device)
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(1)
    random = lambda *size: (torch.randn(*size, generator=generator) * 0.02).to(device)
    d, k = shape.model, shape.keys
    matrices = {"qkv.weight": (3 * d, d), "attention_out.weight": (d, d), "keys": (k, d), "values": (k, d)}
    norms = [f"{norm}.{part}" for norm in ("attention_norm", "norm") for part in ("weight", "bias")]
    lengths = dict.fromkeys([*norms, "attention_out.bias", "value_bias"], d) | {"qkv.bias": 3 * d, "key_bias": k}
    factor = torch.bfloat16 if precision == "bfloat16" else torch.float32
    weights = {name: random(*size).to(factor) for name, size in matrices.items()}
    weights |= {name: random(size) for name, size in lengths.items()}
    layer = DecoderLayer({f"layers.0.{name}": tensor for name, tensor in weights.items()}, 0, shape.heads)
    sentences = max(64, min(batch_tokens, 4096)) // (SENTENCE + 1) + 1
    batch = Batch.pack([np.full(SENTENCE, 5)] * sentences, device)
    x, head, vectors = random(len(batch.tokens), d), random(shape.head, d).to(factor), random(ROWS, d)
    vocabulary = Vocabulary((shape.head,), {"output.head": head})
    target = torch.zeros(len(vectors), dtype=torch.long, device=device)
    with torch.inference_mode():
        token = _seconds(lambda: layer(x, batch).coefficients.amax(0), device) / len(batch.tokens)
        logits = len(vectors) * shape.head
        product = _seconds(lambda: vocabulary.clusters[0].logits(vectors), device) / logits
        both = _seconds(lambda: vocabulary.predict(vectors, target), device) / logits
    start = (FORKED if device == "cpu" else Speed.start) + shape.parameters / READ
    return Speed(layer=token, logit=product / d, read=max(0.0, both - product), start=start)


def _seconds(work: Callable[[], object], device: str, least: float = 1.0) -> float:
    """Return the median time of a piece of work, after one warm-up run."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    taken: list[float] = []
    while sum(taken[1:]) < least or len(taken) < 4:
        begun = time.perf_counter()
        work()
        wait()
        taken.append(time.perf_counter() - begun)
    return float(np.median(taken[1:]))


if __name__ == "__main__":
    machine.keep_freed_memory()  # as jobs do
    sizes, *others = json.loads(sys.argv[1])
    print(json.dumps(asdict(calibrate(Shape(**sizes), *others))))

"""How fast this machine does the units of work that a plan counts, and how fast a GPU would that is not here.

Here, they are measured on one layer, in a few seconds. On another GPU, they are its products' floor, times what a step
takes over it. ``cards.toml`` holds the cards and the measured shares. Its dense rates are from NVIDIA's datasheets:
"H100 Tensor Core GPU" (SXM), "A100 Tensor Core GPU" (80 GB SXM), "L4 Tensor Core GPU", and "Ada GPU Architecture",
appendix A (RTX 4090; bfloat16 with float32 sums). A card that was not measured reaches the share of its datasheet that
the card with measurements reached.
"""

import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ff_memories.base import arithmetic, machine
from ff_memories.base.arithmetic import Precision
from ff_memories.base.errors import UserError
from ff_memories.config.sections import ExecutionSection
from ff_memories.plan.costs import SENTENCE, Shape, Speed

READ = 1.5e8  # parameters that a job reads per second
FORKED = 1.0  # seconds to start a job on this machine's CPU (``job_server``)


@dataclass(frozen=True)
class Share:
    """A measured share: the time of ``step`` over that of its products. ``origin`` and ``date``: of the number."""

    step: str
    card: str
    precision: Precision
    matrices: int  # of a feed-forward layer
    over: float
    date: date
    origin: str


@dataclass(frozen=True)
class Card:
    """A kind of GPU: its dense products in TFLOP/s, its memory in GB and GB/s, and its fastest measured products."""

    name: str
    float32: float
    tf32: float
    bfloat16: float
    memory: float
    bandwidth: float
    measured: dict[str, float] = field(default_factory=dict)

    def product(self, precision: Precision) -> float:
        """Return the TFLOP/s of the fastest product: measured, or computed from the datasheet's rate."""
        if precision in self.measured:
            return self.measured[precision]
        reference = next(card for card in cards().values() if precision in card.measured)
        return getattr(self, precision) * reference.measured[precision] / getattr(reference, precision)

    def measures(self, step: str, precision: Precision, matrices: int) -> bool:
        """Return whether a step's share was measured: of the step itself, on this card, precision and kind of layer."""
        shared = [(share.step, share.precision, share.matrices) for share in shares() if cards()[share.card] is self]
        return (step, precision, matrices) in shared

    def over(self, step: str, precision: Precision, matrices: int) -> float:
        """Return a step's time over its floor, by the share that was measured under the most similar conditions.

        The time of the products follows the fastest product; the rest moves memory, and follows the bandwidth.
        """
        share = min(
            (share for share in shares() if share.step == step),
            key=lambda s: (cards()[s.card] is not self, s.matrices != matrices, s.precision != precision),
        )
        there = cards()[share.card]
        faster = self.product(precision) / there.product(share.precision)
        return 1 + (share.over - 1) * faster * there.bandwidth / self.bandwidth

    def speed(self, shape: Shape, precision: Precision) -> Speed:
        """Return the seconds per unit of work."""
        operations = 1e12 * self.product(precision)
        layer = 2 * shape.model * (4 * shape.model + shape.matrices * shape.keys // shape.signs)
        over = {share.step: self.over(share.step, precision, shape.matrices) for share in shares()}
        return Speed(layer / operations, 2 / operations, start=_table()["start"]["seconds"], over=over)


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("cards.toml").read_text(encoding="utf-8"))


@cache
def cards() -> dict[str, Card]:
    """Return {name on the command line: card}."""
    return {name: Card(**given) for name, given in sorted(_table()["cards"].items())}


@cache
def shares() -> list[Share]:
    """Return all measured shares."""
    return [Share(**given) for given in _table()["shares"]]


def measured(shape: Shape, device: str, execution: ExecutionSection, threads: int, precision: Precision) -> Speed:
    """Measure this machine's speed, at a model's sizes and with a run's arithmetic.

    A process of its own measures a CPU, whose arithmetic is chosen before numpy and torch are loaded. Raises
    ``UserError`` if the device does not have the precision, or if that process failed, as where memory is too small.
    """
    from ff_memories.model.loading import use_precision  # torch takes a second to load

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
    import torch

    from ff_memories.model.decoder import Batch, DecoderLayer
    from ff_memories.model.loading import use_precision
    from ff_memories.model.vocabulary import ROWS, Vocabulary

    use_precision(precision, device)
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(1)

    def random(*size: int) -> torch.Tensor:
        return (torch.randn(*size, generator=generator) * 0.02).to(device)

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
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    with torch.inference_mode():
        token = _seconds(lambda: layer(x, batch).coefficients.amax(0), wait) / len(batch.tokens)
        logits = len(vectors) * shape.head
        product = _seconds(lambda: vocabulary.clusters[0].logits(vectors), wait) / logits
        both = _seconds(lambda: vocabulary.predict(vectors, target), wait) / logits
    start = (FORKED if device == "cpu" else Speed.start) + shape.parameters / READ
    return Speed(layer=token, logit=product / d, read=max(0.0, both - product), start=start)


def _seconds(work: Callable[[], object], wait: Callable[[], object], least: float = 1.0) -> float:
    """Return the median time of a piece of work, after one warm-up run; ``wait``: until the device has done it."""
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

"""Arguments and habits that several steps share."""

import argparse
import os
from typing import TYPE_CHECKING

from ff_memories import tables
from ff_memories.base import arithmetic, gpu_locks
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_write
from ff_memories.base.options import threads, whole
from ff_memories.config import Settings
from ff_memories.corpus.dictionary import Dictionary

if TYPE_CHECKING:  # torch takes seconds to import
    from ff_memories.model.decoder import Decoder


class Configured(argparse.Namespace):
    """Arguments with those of ``config_argument``, so that the config's keys are checked where they are used."""

    config: Settings


def config_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", required=True, type=Settings.from_argument, help="a run's config file, or its sections as JSON"
    )


def model_arguments(parser: argparse.ArgumentParser) -> None:
    """The converted model, and how to run it."""
    parser.add_argument("--weights", required=True, help="model.safetensors")
    parser.add_argument("--description", required=True, help="model.json")
    execution_arguments(parser)


def execution_arguments(parser: argparse.ArgumentParser) -> None:
    """How the model is run; no result depends on it."""
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto: a GPU if there is one")
    parser.add_argument("--threads", type=threads, default=os.cpu_count(), help="CPU threads")
    parser.add_argument("--batch-tokens", type=whole(), default=16_384, help="tokens in one forward pass")
    arithmetic_argument(parser)


def arithmetic_argument(parser: argparse.ArgumentParser) -> None:
    """How numbers are rounded; it is chosen before this is read, for libraries take it up when they are loaded."""
    parser.add_argument(
        "--arithmetic", choices=["portable", "fast"], default="fast",
        help="portable: the same bits on every CPU with AVX2, on one thread | fast: whatever is fastest here",
    )  # fmt: skip


def shard_of(text: str) -> tuple[int, int]:
    """Return (number from 1, of how many) for ``1-of-4``. Raises ``UserError`` for what is no shard."""
    number, _, shards = text.partition("-of-")
    if not (number.isdecimal() and shards.isdecimal() and 1 <= int(number) <= int(shards)):
        raise UserError(f"--shard {text}: no shard", "give one as in 1-of-4")
    return int(number), int(shards)


def chosen_device(device: str) -> str:
    """Return ``cpu`` or ``cuda`` for what ``execution.device`` says. Raises ``UserError`` where there is no GPU."""
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "execution.device is cuda, and no GPU can be used here",
            "set execution.device: auto or cpu, or install a torch built for CUDA",
        )
    return device


def load_decoder(args: argparse.Namespace) -> "Decoder":
    """Load the model on the device that was asked for. Raises ``UserError`` where there is none."""
    import torch

    from ff_memories.model.decoder import Decoder

    torch.set_num_threads(arithmetic.THREADS if arithmetic.portable() else args.threads)
    device = chosen_device(args.device)
    if device == "cuda":
        device = f"cuda:{gpu_locks.acquire(torch.cuda.device_count())}"
    return Decoder.load(args.weights, args.description, device)


def write_counts(step: str, reasons: dict[str, int], path: str) -> None:
    """Write a step's own rows of the ``counts`` table."""
    frame = tables.conform(tables.counts(step, reasons), tables.TABLES["counts"])
    with atomic_write(path) as partial:
        frame.write_parquet(partial, compression="zstd")


def check_dictionary(path: str, dictionary: Dictionary, vocab: int) -> None:
    """Raise ``UserError`` where a dictionary is not of the model that has ``vocab`` types."""
    if len(dictionary) != vocab:
        raise UserError(
            f"{path}: {len(dictionary)} types, the model has {vocab}",
            "give model.dictionary the dict.txt that the checkpoint was trained with",
        )

"""Arguments and habits that several steps share."""

import argparse
import os

from ff_memories import tables
from ff_memories.config import Settings
from ff_memories.errors import UserError
from ff_memories.files import replacing


def config_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", required=True, type=Settings.from_argument, help="a run's config file, or its sections as JSON"
    )


def model_arguments(parser: argparse.ArgumentParser) -> None:
    """The converted model, and how to run it."""
    parser.add_argument("--weights", required=True, help="model.safetensors")
    parser.add_argument("--description", required=True, help="model.json")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto: a GPU if there is one")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="CPU threads")
    parser.add_argument("--batch-tokens", type=int, default=16_384, help="tokens in one forward pass")


def load_decoder(args: argparse.Namespace):
    """Load the model on the device that was asked for. Raises ``UserError`` where there is none."""
    import torch

    from ff_memories.model.decoder import Decoder

    torch.set_num_threads(max(1, args.threads))
    device = args.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "execution.device is cuda, and no GPU can be used here",
            "set execution.device: auto or cpu, or install a torch built for CUDA",
        )
    return Decoder.load(args.weights, args.description, device)


def write_counts(step: str, reasons: dict[str, int], path: str) -> None:
    """Write a step's own rows of the ``counts`` table."""
    frame = tables.conform(tables.counts(step, reasons), tables.TABLES["counts"])
    with replacing(path) as partial:
        frame.write_parquet(partial, compression="zstd")

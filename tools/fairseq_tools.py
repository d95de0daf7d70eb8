"""fairseq 0.9.0 under Python 3.11, NumPy 2 and torch 2: import this module before fairseq.

As a program it runs fairseq's own tools in the current environment:
``python -m tools.fairseq_tools {preprocess,train,eval_lm} ARGUMENTS``.
"""

import argparse
import importlib
import sys

import numpy as np
import torch

if not hasattr(np, "float"):
    vars(np)["float"] = float  # fairseq.data uses the alias that NumPy 1.24 removed

try:
    from fairseq import meters
except ModuleNotFoundError:
    raise ModuleNotFoundError("fairseq is not installed: run make .venv/.tests, which needs a C++ compiler") from None

# Checkpoints keep being loaded with weights_only=True: these are the only classes a fairseq one needs.
torch.serialization.add_safe_globals([argparse.Namespace, meters.AverageMeter, meters.TimeMeter, meters.StopwatchMeter])


def main() -> None:
    tool = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if tool not in {"preprocess", "train", "eval_lm"}:
        sys.exit(f"unknown fairseq tool {tool!r}: preprocess, train or eval_lm")
    importlib.import_module(f"fairseq_cli.{tool}").cli_main()


if __name__ == "__main__":
    main()

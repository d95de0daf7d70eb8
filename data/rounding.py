"""Round a model's weights to the numbers that GGUF files of 8, 5 and 4 bits have, and measure each rounded model.

    dvc pull data/demo-gpt2.dvc data/demo-llama.dvc
    python -m data.rounding    # minutes a run

``config/rounding.yaml`` names the models' configs and the types. Q8_0, Q5_0 and Q4_1 round 32 weights of a row
together. Where 256 does not divide a row, as in these models, llama.cpp takes Q5_0 instead of Q4_K. Results are in
``results/<run>-<type>``.
"""

import shutil
from pathlib import Path

import torch
from gguf import GGMLQuantizationType, quants
from safetensors.torch import load_file, save_file

from data.training_steps import in_folder, measure, write_config
from ff_memories import config
from ff_memories.inputs import model_folder
from ff_memories.workflow.run import Run

STUDY = Path("config/rounding.yaml")
WHOLE = "whole"  # weights as they are
BLOCK = 32  # weights that are rounded together


def rounded(folder: Path, kind: str, out: Path) -> None:
    """Write a model's folder with rounded matrices.

    Args:
        folder: has ``model.safetensors`` in float32.
        kind: ``whole``, or one of GGUF's types with blocks of 32.
    """
    out.mkdir(parents=True, exist_ok=True)
    for name in model_folder.files_of(folder):
        if not name.endswith(".safetensors"):
            shutil.copyfile(folder / name, out / name)
    tensors = load_file(folder / "model.safetensors")
    if kind != WHOLE:
        tensors = {name: _rounded(name, tensor, kind) for name, tensor in tensors.items()}
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})


def _rounded(name: str, tensor: torch.Tensor, kind: str) -> torch.Tensor:
    """Return a matrix with rounded rows, one for each output; GPT-2's blocks keep a row for each input.

    Vectors, positions and rows that 32 does not divide stay as they are, as in GGUF files.
    """
    inputs_first = ".h." in name
    if tensor.ndim != 2 or name.endswith("wpe.weight") or tensor.shape[0 if inputs_first else 1] % BLOCK:
        return tensor
    rows = (tensor.T if inputs_first else tensor).contiguous().float().numpy()
    kept = GGMLQuantizationType[kind]
    back = torch.from_numpy(quants.dequantize(quants.quantize(rows, kept), kept).copy())
    return (back.T if inputs_first else back).contiguous()


def main() -> None:
    study = config.read_yaml(STUDY)
    for base in map(Path, study["runs"]):
        run = Run.read(base)
        for kind in study["types"]:
            folder = Path("results/rounding", run.config.run, kind.lower())
            rounded(Path(str(run.inputs.model_folder)), kind, folder)
            own = Path("results", f"{run.config.run}-{kind.lower()}", "config.yaml")
            write_config(base, study["differs"], folder.name, in_folder(folder), own)
            measure(own, "perplexity")


if __name__ == "__main__":
    main()

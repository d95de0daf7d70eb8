"""Propose the row that a new type of `transformers` model needs, and prove it on one model's weights.

    ff-memories model-row FOLDER

The folder holds config.json and safetensors. The row says where the memories are; paste it into
``src/ff_memories/model/rows/families.py`` and give the type a model in ``tests/tools/models/tiny.py``.
"""

import argparse
from pathlib import Path

from ff_memories.base.errors import UserError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="a model that `transformers` saved: config.json and *.safetensors")


def run(args: argparse.Namespace) -> None:
    import torch

    from ff_memories.model.files import config_file
    from ff_memories.model.rows.families import FAMILIES, LEFT_OUT
    from ff_memories.model.rows.finder import as_python, propose
    from ff_memories.model.rows.proof import EQUATIONS, prove
    from ff_memories.model.transformer import load

    config = config_file.read(args.folder)
    kind = config["model_type"]
    if kind in LEFT_OUT:
        raise UserError(f"{args.folder}: {kind} is {LEFT_OUT[kind]}", "give a decoder with one feed-forward layer each")
    config_file.refuse_multimodal(config, str(args.folder))
    architecture = load.causal_class(kind, str(args.folder))
    model = load.load_weights(args.folder, config, architecture, torch.float32)
    row = propose(model)
    proof = prove(model, row)
    print(f"# {kind}, {proof.layers} layers, {proof.tokens} tokens, {proof.dtype}: at most {proof.tolerance:g} allowed")
    for name, found in proof.errors.items():
        print(f"#   {EQUATIONS[name]}: off by {found:.0e}")
    if kind in FAMILIES:
        print(f"# families.py has {'this row' if row in FAMILIES[kind] else 'other rows for this type'}")
    print(as_python(kind, row))

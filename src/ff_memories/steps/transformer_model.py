"""Take in a model of `transformers`: check its files, prove where its memories are, and write the model info."""

import sys
from dataclasses import asdict

from safetensors.torch import save_file

from ff_memories.base.files import atomic_write, write_json
from ff_memories.base.parameters import Inputs, Output
from ff_memories.config import Settings
from ff_memories.config.model import TransformersModel
from ff_memories.corpus.tokenizer import write_types
from ff_memories.inputs import model_folder
from ff_memories.inputs.proved_model import take_in
from ff_memories.model.info import quantised
from ff_memories.model.transformer.describe import feed_forward


def run(config: Settings, files: Inputs, weights: Output, description: Output, info: Output, types: Output) -> None:
    """Check a folder's model and write it in one file.

    Args:
        config: a run's config file, or its keys `model` and `triggers.signs` as JSON: no other key of `triggers`
            changes the model
        files: the folder's files
        weights: model.safetensors
        description: model.json
        info: info.json: what this run's model is
        types: types.json: its tokenizer, and how many types it has
    """
    folder, model = files[0].parent, config.model
    assert isinstance(model, TransformersModel), "the rule of a fairseq checkpoint runs another step"
    model_folder.check_digests(folder, model.files)
    model_and_proof, origin = take_in(folder, model.start, config.triggers.signs), model_folder.made_from(folder)
    shape, proof = model_and_proof.description, model_and_proof.proof
    described = {
        "scope": "model",
        "model_sha256": model_folder.digests(folder, [path.name for path in files]),
        "hub": model.hub,
        "revision": model.revision,
        "licence": model.licence,
        **{k: v for k, v in asdict(shape).items() if k not in ("aliases", "config")},
        "neurons": shape.keys,
        "keys": shape.signs * shape.keys,
        "start_token": model_and_proof.tokenizer[shape.start],
        **feed_forward(model_and_proof.model, model_and_proof.family),
    }
    if origin:
        described |= {key: origin[key] for key in ("source", "types", "bits") if key in origin}
        described |= {"converted_from": origin["sha256"], "weights": quantised(origin)}
    worst = max(proof.errors, key=proof.errors.__getitem__)
    proven = f"{len(proof.errors)} equations hold in all {proof.layers} layers"
    print(f"{folder}: {proven}; largest relative error {proof.errors[worst]:.0e}: {worst}", file=sys.stderr)
    with atomic_write(weights) as partial:
        save_file(model_and_proof.state, partial, metadata={"format": "pt"})
    write_json(description, asdict(shape))
    write_types(model_and_proof.tokenizer, types)
    write_json(info, described, sort_keys=True)

"""Export chosen keys as a cache of delphi's latents: their coefficients along the sentences that trigger them.

delphi then explains and scores these keys without running the model. The cache has the run's text as token ids.
"""

import argparse
from pathlib import Path

import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_folder, require_new
from ff_memories.base.parameters import whole
from ff_memories.corpus import store
from ff_memories.declaration import add_execution, execution
from ff_memories.exports import delphi
from ff_memories.model.info import quantised, read_info
from ff_memories.workflow.runs import opening
from ff_memories.workflow.runs.finished import refuse_unfinished


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument(
        "--keys",
        required=True,
        nargs="+",
        action="extend",
        metavar="LAYER/KEY",
        help="keys by layer: 3/12; 3/17- is key 17's negative coefficients, in models that count both signs",
    )
    parser.add_argument(
        "--others", type=whole(0), default=500, help="random sentences to add, as examples that do not activate a key"
    )
    parser.add_argument("--out", required=True, type=Path, help="new folder to write to")
    add_execution(parser)


def run(args: argparse.Namespace) -> None:
    from ff_memories.memories.gallery.shading import prefix_coefficients
    from ff_memories.model.loading import load_model

    wanted = sorted({delphi.chosen(text) for text in args.keys})
    require_new(args.out)
    refuse_unfinished(run_ := opening.opened(args.configfile))
    if not run_.config.model.has_tokenizer:
        raise UserError("delphi reads tokens with a tokenizer of transformers, and this run's model has a dictionary")
    weights, path = Path(run_.path("model", "model.safetensors")), Path(run_.path("corpus", "corpus.safetensors"))
    for needed in (weights, path):
        if not needed.is_file():
            raise UserError(f"{needed}: no such file", f"run {run_.again(str(needed))}")
    triggers, corpus = tables.read(run_.table("triggers")), store.read(path)
    decoder = load_model(weights, weights.with_suffix(".json"), execution(args), run_.config.extraction.precision)
    shape = decoder.description
    for layer, key, sign in wanted:
        if not 1 <= layer <= shape.layers or key >= shape.keys:
            raise UserError(
                f"--keys {layer}/{key}: no such key", f"layers are 1 to {shape.layers}, keys 0 to {shape.keys - 1}"
            )
        if sign < 0 and decoder.neurons is None:
            raise UserError(f"--keys {layer}/{key}-: this model's memories have positive coefficients alone")
    folded = [(layer, key if sign > 0 else key + shape.keys) for layer, key, sign in wanted]
    schema = {"layer": tables.LAYER, "key": tables.KEY}
    own = triggers.join(pl.DataFrame(folded, schema=schema, orient="row"), on=["layer", "key"], how="semi")
    sentences = delphi.contexts(own, corpus, args.others, run_.config.seed)
    if not len(own):
        raise UserError("--keys: the run has no triggers of these keys", "see ff-memories show, or triggers.keys")
    info = read_info(run_.path("model", "info.json"))
    context = delphi.tokens(sentences, corpus, info["start"])
    config = delphi.config(
        str(run_.inputs.pinned_on_hub.name if run_.inputs.pinned_on_hub else run_.inputs.model_folder),
        run_.config.corpus.source or run_.config.run,
        context,
    )
    with atomic_folder(args.out) as folder:
        for layer, sign in sorted({(layer, sign) for layer, _, sign in wanted}):
            keys = [key for at, key, s in wanted if (at, s) == (layer, sign)]
            rows = [(layer, key if sign > 0 else key + shape.keys) for key in keys]
            asked = delphi.asked(rows, sentences, corpus)
            flat, starts = prefix_coefficients(decoder, corpus, asked, args.batch_tokens)
            places, values = delphi.entries(flat, starts, keys, len(sentences))
            delphi.write(folder / "latents" / delphi.module(layer, sign), places, values, context, shape.keys, config)
    print(f"wrote {len(wanted)} keys and {len(sentences)} contexts to {args.out}")
    if said := quantised(info):
        print(said)

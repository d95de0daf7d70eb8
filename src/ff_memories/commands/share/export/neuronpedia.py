"""Export keys and triggers as Neuronpedia's features and activations, to import into an instance of your own.

Writes OUT/MODEL/SOURCE/ for every layer: features/batch-N.jsonl.gz and activations/batch-N.jsonl.gz with 1,024 keys
each, and the rows that they refer to. The activations quote the run's text.
"""

import argparse
from pathlib import Path

import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_folder, require_new
from ff_memories.base.parameters import whole
from ff_memories.corpus import store
from ff_memories.corpus.types import read_types
from ff_memories.declaration import add_execution, execution
from ff_memories.exports import neuronpedia
from ff_memories.model.info import neurons, quantised, read_info
from ff_memories.workflow.runs import opening
from ff_memories.workflow.runs.finished import corpus_of, refuse_unfinished
from ff_memories.workflow.runs.run import Run


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument("--out", required=True, type=Path, help="new folder to write to")
    parser.add_argument("--model-id", help="the instance's id of the model: gpt2-small; default: from the model's name")
    parser.add_argument("--source-set", default="ff-memories", help="name of the set of sources, one per layer")
    parser.add_argument("--creator", default="clkht01d40000jv08hvalcvly", help="id of a user of your instance")
    parser.add_argument(
        "--top",
        type=whole(),
        help="activations per key; default: as many as the table shading has. For more, the command runs the model",
    )
    add_execution(parser)


def run(args: argparse.Namespace) -> None:
    require_new(args.out)
    refuse_unfinished(run_ := opening.opened(args.configfile))
    path = corpus_of(run_, "activations")
    corpus, types = store.read(path), read_types(run_.dictionary)
    info = read_info(run_.path("model", "info.json"))
    values = tables.read(run_.table("values"))
    of_keys = {name: tables.read(run_.table(name)) for name in neuronpedia.SHOWN}
    triggers = of_keys["triggers"]
    if (triggers["sentence"] >= len(corpus)).any():
        raise UserError("triggers: names a sentence that the corpus does not have", "run the workflow again")
    shading = tables.read(run_.table("shading"))
    have = int(shading["rank"].to_numpy().max(initial=0))
    top = args.top or have
    if not top:
        raise UserError(
            f"{run_.table('shading')}: has no rows, as with gallery.shaded: 0", "give --top 20, which runs the model"
        )
    if top > (most := run_.config.triggers.top):
        raise UserError(f"--top: {top} is more than triggers.top ({most})", f"give {most} or less")
    shown = triggers.filter((pl.col("rank") <= top) & (pl.col("position") > 0))
    if top > have or len(shown.join(shading, on=["layer", "key", "rank"], how="anti")):
        shading = _computed(args, run_, corpus, shown)
    name = args.model_id or neuronpedia.identifier(Path(run_.config.model.called or run_.config.run).name)
    if name != neuronpedia.identifier(name):
        raise UserError(f"--model-id {name}: not an id", f"such as {neuronpedia.identifier(name)}")
    if args.source_set != neuronpedia.identifier(args.source_set):
        raise UserError(
            f"--source-set {args.source_set}: not a name", f"such as {neuronpedia.identifier(args.source_set)}"
        )
    names = neuronpedia.Names(name, args.source_set, args.creator, run_.config.corpus.source or run_.config.run)
    half, texts = neurons(info), neuronpedia.token_texts(types)
    sizes = info["layers"], half or info["keys"]
    with atomic_folder(args.out) as folder:
        made = [0, 0]
        for layer in range(1, info["layers"] + 1):
            values_, shown_, along = (frame.filter(pl.col("layer") == layer) for frame in (values, shown, shading))
            others = {name: frame.filter(pl.col("layer") == layer) for name, frame in of_keys.items()}
            for sign in (1,) if half is None else (1, -1):
                here = pl.lit(True) if half is None else (pl.col("key") >= half) == (sign < 0)
                if not len(rows := values_.filter(here).sort("key")):
                    continue
                source = folder / name / names.source(layer, sign)
                neuronpedia.write_source(source, names, layer, sign, sizes, run_.config.run, quantised(info))
                found = neuronpedia.features(rows, others, half, texts, names)
                made[0] += neuronpedia.write_batches(source / "features", found)
                acts = neuronpedia.activations(shown_.filter(here), along.filter(here), corpus, half, texts, names)
                made[1] += neuronpedia.write_batches(source / "activations", acts)
    print(f"wrote {made[0]:,} features and {made[1]:,} activations to {args.out}")


def _computed(args: argparse.Namespace, run_: Run, corpus: store.Corpus, shown: pl.DataFrame) -> pl.DataFrame:
    """Return the coefficients along triggers, from the model: rows of the table `shading`."""
    from ff_memories.memories.gallery import shading as shades
    from ff_memories.model.loading import load_model

    weights = Path(run_.path("model", "model.safetensors"))
    if not weights.is_file():
        raise UserError(f"--top: {weights} is not here, and the table shading has fewer triggers", "leave --top out")
    chosen = execution(args)
    decoder = load_model(weights, weights.with_suffix(".json"), chosen, run_.config.extraction.precision)
    return shades.table(decoder, corpus, shown, chosen.batch_tokens)

"""Show the trigger examples of chosen keys, with the last token marked, and the tokens that their values promote."""

import argparse
import re
from pathlib import Path

import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import whole
from ff_memories.base.text import escape_invisible, memory_name, parse_memory
from ff_memories.corpus import store
from ff_memories.workflow import opening

TOP = 10  # triggers and tokens, or fewer where the run has fewer


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument("--layer", type=int, required=True, help="layer, from 1")
    parser.add_argument(
        "--key",
        required=True,
        nargs="+",
        action="extend",
        metavar="KEY",
        help="one or more keys, from 0; 12- is key 12's negative coefficients, in models that count both signs",
    )
    parser.add_argument("--top", type=whole(), help="number of triggers and tokens to show; default: 10")


def run(args: argparse.Namespace) -> None:
    run_ = opening.opened(args.configfile)
    most = run_.config.triggers.top
    args.top = args.top or min(TOP, most)
    if args.top > most:
        raise UserError(f"--top: {args.top} is more than triggers.top ({most})", f"give {most} or less")
    weights = run_.path("model", "model.safetensors")
    if not Path(weights).exists():
        raise UserError(f"{weights}: no such file", f"run {run_.again(weights)}")
    from ff_memories import api  # torch takes a second to load

    model = api.load_model(weights, run_.dictionary)
    wanted = [parse_memory(key) for key in args.key]
    for key, sign in wanted:
        model.require(args.layer, key, sign)
    of_layer = lambda name: tables.read(run_.table(name)).filter(pl.col("layer") == args.layer)
    keys = [model.memory(*memory) for memory in wanted]
    if run_.config.triggers.keys is not None and (other := set(keys) - set(of_layer("values")["key"])):
        raise UserError(f"--key: the run did not look at {len(other)} of these keys", "see triggers.keys in its config")
    triggers = of_layer("triggers").filter(pl.col("key").is_in(keys))
    examples = api.as_text(model, triggers, store.read(run_.path("corpus", "corpus.safetensors")))
    for key, sign in wanted:
        rows = examples.filter((pl.col("key") == key) & (pl.col("rank") <= args.top))
        rows = rows.filter(pl.col("sign") == sign) if "sign" in rows.columns else rows
        name = memory_name(model.memory(key, sign), model.decoder.neurons)
        below = " of its negative coefficients, signs changed" if sign < 0 else ""
        print(f"k_{name}^{args.layer}: {len(rows)} trigger examples{below}, [last token] -> next token")
        for row in rows.iter_rows(named=True):
            marked = escape_invisible(re.sub(r"(\S+)$", r"[\1]", row["prefix"]))
            following = escape_invisible(row["next_token"] or "end of sentence")
            print(f"{row['rank']:4}  {row['coefficient']:8.4f}  {marked} -> {following}")
        print(f"v_{name}^{args.layer}{f' = -v_{key}^{args.layer}' if sign < 0 else ''} promotes")
        for row in api.value_predictions(model, args.layer, key, args.top, sign).iter_rows(named=True):
            print(f"{row['rank']:4}  {row['probability']:8.2e}  {escape_invisible(row['token'])}")

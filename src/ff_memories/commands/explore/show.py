"""Show the trigger examples of chosen keys, with the last token marked, and the tokens that their values promote.

The triggers come from the run's table. If there is none yet, the command searches the training text for these keys.
"""

import argparse
import re
from pathlib import Path
from typing import Any

import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import whole
from ff_memories.base.text import escape_invisible, memory_name, parse_memory
from ff_memories.corpus import store
from ff_memories.workflow.runs import opening
from ff_memories.workflow.runs.run import Run

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
        raise UserError(
            f"{weights}: no such file",
            f"run {run_.again(weights)}",
        )
    from ff_memories import api  # torch takes a second to load

    model = api.load_model(weights, run_.dictionary)
    wanted = [parse_memory(key) for key in args.key]
    for key, sign in wanted:
        model.require(args.layer, key, sign)
    corpus = store.read(run_.path("corpus", "corpus.safetensors"))
    found = api.as_text(model, rows(args, wanted, run_, model, corpus), corpus)
    for key, sign in wanted:
        own = found.filter((pl.col("key") == key) & (pl.col("rank") <= args.top))
        own = own.filter(pl.col("sign") == sign) if "sign" in own.columns else own
        name = memory_name(model.memory(key, sign), model.decoder.neurons)
        below = " of its negative coefficients, signs changed" if sign < 0 else ""
        print(f"k_{name}^{args.layer}: {len(own)} trigger examples{below}, [last token] -> next token")
        for row in own.iter_rows(named=True):
            marked = escape_invisible(re.sub(r"(\S+)$", r"[\1]", row["prefix"]))
            following = escape_invisible(row["next_token"] or "end of sentence")
            print(f"{row['rank']:4}  {row['coefficient']:8.4f}  {marked} -> {following}")
        print(f"v_{name}^{args.layer}{f' = -v_{key}^{args.layer}' if sign < 0 else ''} promotes")
        for row in api.value_predictions(model, args.layer, key, args.top, sign).iter_rows(named=True):
            print(f"{row['rank']:4}  {row['probability']:8.2e}  {escape_invisible(row['token'])}")


def rows(
    args: argparse.Namespace, wanted: list[tuple[int, int]], run_: Run, model: Any, corpus: store.Corpus
) -> pl.DataFrame:
    """Return the keys' rows of ``triggers``, read from the table or computed."""
    from ff_memories.memories.search import batching, trigger_table, triggers

    keys, path = [model.memory(*memory) for memory in wanted], Path(run_.table("triggers"))
    if path.exists() and _lists_all(run_, args.layer, keys):
        table = tables.read(path)
        return table.filter((table["layer"] == args.layer) & table["key"].is_in(keys))
    options = {name: value for name, value in run_.resolved["triggers"].items() if name not in ("signs", "keys")}
    best = triggers.trigger_examples(
        model.decoder,
        corpus,
        batching.blocks(corpus.lengths[: corpus.train]),
        **options,
        batch_tokens=run_.config.execution.tokens,
        keys=[(args.layer, key) for key in keys],
    )
    return trigger_table.table(best, corpus).sort("layer", "key", "rank")


def _lists_all(run_: Run, layer: int, keys: list[int]) -> bool:
    """Return whether the run looked at all keys that are asked for (``triggers.keys``)."""
    if run_.config.triggers.keys is None:
        return True
    looked_at = Path(run_.table("values"))
    if not looked_at.exists():
        return False
    table = tables.read(looked_at)
    return set(keys) <= set(table.filter(table["layer"] == layer)["key"].to_list())

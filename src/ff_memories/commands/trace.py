"""Show how a text goes through a run's memories: each layer's predictions, and the memories that add most to them.

Without --out and --json, it prints the predictions at the text's last position. docs/gallery.md explains the page and
the JSON.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from ff_memories.base.errors import UserError, did_you_mean
from ff_memories.base.files import require_file, write_json, write_whole
from ff_memories.base.parameters import whole
from ff_memories.base.text import escape_invisible
from ff_memories.config.model import TransformersModel
from ff_memories.corpus.dictionary import BYTE_ORDER_MARK
from ff_memories.inputs import from_gguf, model_folder, registry
from ff_memories.inputs.fetch import fetch
from ff_memories.model.files import gguf_file
from ff_memories.model.info import quantised, read_info
from ff_memories.workflow import opening
from ff_memories.workflow.run import DEFAULT, refuse_unfinished


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT", help="the text, in quotes")
    opening.argument(parser)
    says = "a model without a run: a GGUF file, a folder of `transformers`, or a name of `fetch --list`"
    parser.add_argument("--model", help=says)
    parser.add_argument("--out", type=Path, metavar="PAGE", help="HTML page to write")
    parser.add_argument("--json", type=Path, metavar="FILE", help="JSON file to write, with all numbers")
    parser.add_argument("--layer", type=whole(), nargs="+", action="extend", help="show only these layers, from 1")
    parser.add_argument("--top", type=whole(), default=10, help="memories per position and layer; default: 10")
    such = "such as 12:1034=0; x2 doubles it, and 12:1034- is key 1034's negative coefficient"
    says = f"set coefficients at the last position and compare predictions: layer:key=number, {such}"
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="MEMORY=NUMBER", help=says)
    parser.add_argument("--tokens", type=whole(), default=5, help="tokens per prediction; default: 5")


def run(args: argparse.Namespace) -> None:
    outputs = [path for path in (args.out, args.json) if path is not None]
    for path in outputs:
        require_file(path)
    if len({path.resolve() for path in outputs}) < len(outputs):
        raise UserError(f"--out and --json: both are {args.out}", "name two files")
    try:
        text = args.text.encode("utf-8", "surrogateescape").decode("utf-8").removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        raise UserError(f"the text: not UTF-8 at byte {error.start}", "give text in UTF-8") from None
    shown = {"layers": args.layer, "top": args.top, "predictions": args.tokens, "settings": args.set}
    about, traced = _of_run(args, text, shown) if args.model is None else _of_model(args, text, shown)
    traced = {"format": traced.pop("format"), **{name: told for name, told in about.items() if told}, **traced}
    from ff_memories.report.trace import lines, page

    if unknown := [p.get("written", p["token"]) for p in traced["positions"][1:] if p["unknown"]]:
        print(f"the model does not know: {' '.join(map(escape_invisible, dict.fromkeys(unknown)))}", file=sys.stderr)
    if args.json is not None:
        write_json(args.json, traced, ensure_ascii=False, allow_nan=False)
    if args.out is not None:
        write_whole(args.out, page(traced, args.out.parent))
    for path in outputs:
        print(f"wrote {path}")
    if not outputs:
        print("\n".join(lines(traced)))


def _of_run(args: argparse.Namespace, text: str, shown: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a run's name, its scope and what quantised weights are, and the trace of a text through its model."""
    from ff_memories import api  # torch takes a second to load
    from ff_memories.corpus.text import moses

    refuse_unfinished(run_ := opening.opened(args.configfile))
    info, chosen = read_info(run_.path("model", "info.json")), run_.resolved
    if chosen["corpus"]["tokenizer"] == "moses":
        text = " ".join(moses()(text))
    reading = {key: chosen["values"][key] for key in ("projection", "projection_seed", "types")}
    reading["residual"] = chosen["composition"]["residual"]
    model = api.load_model(run_.path("model", "model.safetensors"), run_.dictionary)
    traced = api.trace(model, text, **shown, **reading, results=run_.results)
    return {"run": run_.config.run, "scope": info["scope"], "weights": quantised(info)}, traced


def _of_model(args: argparse.Namespace, text: str, shown: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the same of a model that has no run, with values read as a run's config would have it."""
    if args.configfile != DEFAULT:
        raise UserError("--model and --configfile: a text goes through one model", "leave out one of them")
    folder = Path(args.model).expanduser()
    if args.model in registry.models():
        source = registry.source(args.model)
        fetch(args.model, source)
        folder = Path(source.folder)
    elif gguf_file.looks_like(folder):
        folder = from_gguf.folder(folder)
    elif not folder.is_dir():
        model_folder.refuse_file(folder)
        like = did_you_mean(args.model, registry.models())
        raise UserError(f"{args.model}: no such folder{like}", "give a folder, a GGUF file, or a name of fetch --list")
    from ff_memories import api  # torch takes a second to load

    with api.load_model(folder) as model:
        traced = api.trace(model, text, **shown, projection=TransformersModel.auto["values.projection"])
    weights = quantised(model_folder.made_from(folder))
    return {"run": Path(args.model).name, "scope": "model", "weights": weights}, traced

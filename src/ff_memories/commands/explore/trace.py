"""Show how a text goes through a run's memories: each layer's predictions, and the memories that add most to them.

Without --out and --json, it prints the predictions at the text's last position. docs/trace.md explains the page and
the JSON.
"""

import argparse
import json
import sys
from pathlib import Path

from ff_memories import api
from ff_memories.base.errors import UserError
from ff_memories.base.files import require_file, write_whole
from ff_memories.base.options import whole
from ff_memories.base.text.escaping import escape_invisible
from ff_memories.corpus.dictionary import BYTE_ORDER_MARK
from ff_memories.corpus.splitting import moses
from ff_memories.model.info import read_info
from ff_memories.report.trace.lines import lines
from ff_memories.report.trace.page import page
from ff_memories.workflow.runs import opening
from ff_memories.workflow.runs.finished import refuse_unfinished

DASH = "-"  # standard input or output


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the text, in quotes")
    opening.argument(parser)
    parser.add_argument("--file", type=Path, help="read the text from this file; - reads standard input")
    parser.add_argument("--out", type=Path, metavar="PAGE", help="HTML page to write; - is standard output")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="JSON file to write, with all numbers; - is standard output"
    )
    parser.add_argument("--layer", type=_layer, nargs="+", action="extend", help="show only these layers, from 1")
    parser.add_argument("--top", type=whole(), default=10, help="memories per position and layer; default: 10")
    parser.add_argument("--tokens", type=whole(), default=5, help="tokens per prediction; default: 5")


def _layer(text: str) -> int:
    try:
        return whole()(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is no layer: give numbers from 1, after the text") from None


def run(args: argparse.Namespace) -> None:
    outputs = [path for path in (args.out, args.json) if path is not None]
    for path in outputs:
        if str(path) != DASH:
            require_file(path)
    if len({path.resolve() for path in outputs}) < len(outputs):
        raise UserError(f"--out and --json: both are {args.out}", "name two files")
    text = _text(args)
    refuse_unfinished(run_ := opening.opened(args.configfile))
    weights, info = Path(run_.path("model", "model.safetensors")), Path(run_.path("model", "info.json"))
    if not weights.exists():
        raise UserError(f"{weights}: no such file", f"run snakemake {weights}{run_.option}")
    chosen = run_.resolved
    if chosen["corpus"]["tokenizer"] == "moses":
        text = " ".join(moses.tokenizer()(text))
    values, name = chosen["values"], run_.config.run
    found = api.trace(
        api.load_model(weights, run_.dictionary),
        text,
        layers=args.layer,
        top=args.top,
        predictions=args.tokens,
        projection=values["projection"],
        projection_seed=values["projection_seed"],
        types=values["types"],
        residual=chosen["composition"]["residual"],
        results=run_.results,
    )
    found = {"format": found.pop("format"), "run": name, "scope": read_info(info)["scope"], **found}
    unknown = [p.get("written", p["token"]) for p in found["positions"][1:] if p["unknown"]]
    if unknown:
        print(f"the model does not know: {' '.join(map(escape_invisible, dict.fromkeys(unknown)))}", file=sys.stderr)
    if args.json is not None:
        _write(args.json, json.dumps(found, ensure_ascii=False, indent=1, allow_nan=False) + "\n")
    if args.out is not None:
        _write(args.out, page(found, args.out.parent, name, found["scope"]))
    if DASH not in map(str, outputs):
        for path in outputs:
            print(f"wrote {path}")
    if not outputs:
        print("\n".join(lines(found)))


def _write(path: Path, text: str) -> None:
    if str(path) == DASH:
        sys.stdout.write(text)
    else:
        write_whole(path, text)


def _text(args: argparse.Namespace) -> str:
    """Return the text. Raises ``UserError`` where there is none, there are two, or it is not UTF-8."""
    if (args.text is None) == (args.file is None):
        raise UserError("expected one text", 'give it in quotes, as in ff-memories trace "a text", or name its --file')
    if args.text is not None:
        where, raw = "the text", args.text.encode("utf-8", "surrogateescape")
    elif str(args.file) == DASH:
        where, raw = "standard input", sys.stdin.buffer.read()
    else:
        require_file(args.file)
        try:
            where, raw = str(args.file), args.file.read_bytes()
        except FileNotFoundError:
            raise UserError(f"{args.file}: no such file", "check --file") from None
    try:
        return raw.decode("utf-8").removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        raise UserError(
            f"{where}: not UTF-8 at byte {error.start}",
            "convert it to UTF-8, for example with iconv -f latin1 -t utf-8",
        ) from None

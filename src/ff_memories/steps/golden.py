"""Check a named checkpoint against what is known of it (G1-G5, G7), before anything is computed on it."""

import argparse
import json
from pathlib import Path
from typing import NoReturn

from ff_memories.audit import golden
from ff_memories.base.errors import UserError
from ff_memories.base.files import write_whole
from ff_memories.base.options import whole
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.inputs import registry
from ff_memories.steps.common import load_decoder, model_arguments


def arguments(parser: argparse.ArgumentParser) -> None:
    model_arguments(parser)
    parser.add_argument("--source", required=True, help="the checkpoint's name in the registry")
    parser.add_argument("--registry", help="another registry of sources")
    parser.add_argument("--dictionary", required=True, help="dict.txt")
    parser.add_argument("--test", required=True, type=Path, help="the test text")
    parser.add_argument("--windows", type=whole(), help="windows of text; default: all on a GPU, a few without")
    parser.add_argument("--out", required=True, help="what was found, as JSON; written only if all is as known")


def run(args: argparse.Namespace) -> None:
    source = registry.source(args.source, args.registry, "model")
    known = golden.expected(registry.golden_file(source, args.registry))
    dictionary, decoder = Dictionary.read(args.dictionary), load_decoder(args)
    if faults := golden.sizes(decoder.description, known):
        _refuse(source, args.source, "its size is another model's", faults)
    windows = args.windows
    if windows is None and decoder.device.type == "cpu":
        windows = golden.WINDOWS_WITHOUT_GPU
    found = golden.measure(decoder, dictionary, args.test, known, windows)
    if faults := golden.judge(found, known):
        reason = golden.diagnose(decoder, dictionary, _counts(args.dictionary), found, known)
        _refuse(source, args.source, reason, faults)
    write_whole(args.out, json.dumps(found, indent=1, sort_keys=True) + "\n")


def _refuse(source: registry.Source, name: str, reason: str, faults: list[str]) -> NoReturn:
    lines = "\n  ".join(faults)
    raise UserError(
        f"this is not {name} as it is known: {reason}\n  {lines}",
        f"fetch it again (remove {source.folder} first), or set sources.golden: off, "
        "which makes every result a surrogate's",
    )


def _counts(path: str) -> list[int]:
    text = Path(path).read_text(encoding="utf-8").removesuffix("\n")
    return [int(line.split()[1]) for line in text.split("\n")]

"""Download, check and unpack the sources that a config names, and its model's files from the Hugging Face hub.

`--list` shows all known sources.
"""

import argparse
import json
from functools import partial
from pathlib import Path

from ff_memories.base.errors import UserError
from ff_memories.config import load
from ff_memories.inputs import from_gguf, hub, registry
from ff_memories.inputs.fetch import fetch, missing
from ff_memories.inputs.of_run import Inputs


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="SOURCE", help="sources to fetch")
    parser.add_argument("--configfile", help="fetch the sources and the model of this config file; no default")
    says = "convert this GGUF file to a folder of `transformers`"
    parser.add_argument("--gguf", type=Path, metavar="FILE", help=says)
    parser.add_argument("--sha256", help="the SHA-256 that the GGUF file must have")
    parser.add_argument("--hub", metavar="JSON", help="fetch files from the hub: a model's name, revision and files")
    parser.add_argument("--registry", nargs="?", help="use this registry's sources too, before the package's")
    says = "download nothing; list missing files and where to put them"
    parser.add_argument("--offline", action="store_true", help=says)
    parser.add_argument("--list", action="store_true", help="list all known sources and whether they are here")


def run(args: argparse.Namespace) -> None:
    if args.gguf:
        from_gguf.folder(args.gguf, args.sha256)
        return
    names, others, gguf = list(args.names), args.registry, dict[str, str]()
    pinned = [hub.Pinned(**json.loads(args.hub))] if args.hub else []
    if args.configfile:
        config = load(args.configfile)
        inputs = Inputs(config)
        pinned += [inputs.pinned_on_hub] if inputs.pinned_on_hub else []
        gguf, others = inputs.gguf, others or config.sources.registry
        fetched = (inputs.fetched(kind) for kind in ("text", "model", "pipeline"))
        names += [source["name"] for source in fetched if source["files"]]
    if args.list:
        for name, source in registry.sources(others).items():
            state = "missing" if missing(source) else "present"
            print(f"{name}\t{source.kind}\t{source.folder}\t{state}\t{source.licence}\t{source.citation}")
        for wanted in pinned:
            state = "missing" if hub.missing(wanted) else "present"
            print(f"{wanted.name}\tmodel\t{wanted.folder}\t{state}\t{wanted.licence}\tcommit {wanted.revision}")
        return
    if not (names or pinned or gguf or args.configfile):
        hint = "name one (ff-memories fetch --list shows them), or give --configfile config/paper.yaml"
        raise UserError("no source given", hint)
    downloads = [partial(fetch, name, registry.source(name, others)) for name in names]
    downloads += [partial(hub.fetch, wanted) for wanted in pinned]
    faults = []
    for download in downloads:
        try:
            download(offline=args.offline)
        except UserError as error:
            faults.append(str(error))
    if faults:
        raise UserError("\n".join(faults))
    for path, digest in gguf.items():
        from_gguf.folder(Path(path), digest)

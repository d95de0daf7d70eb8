"""Export a run's tables as a dataset for the Hugging Face hub: Parquet files and a card.

Without --with-text, the dataset contains no text: columns that quote it are left out, and the card names them.
Nothing is uploaded.
"""

import argparse
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ff_memories
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_folder, require_new, write_whole
from ff_memories.model.info import neurons, quantised, read_info
from ff_memories.workflow.runs import opening
from ff_memories.workflow.runs.finished import corpus_of, refuse_unfinished
from ff_memories.workflow.runs.run import Run

IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9.-]*")


def licence_of(text: str) -> str:
    if not IDENTIFIER.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text[:60]}: expected an identifier of the hub, such as cc-by-4.0")
    return text


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument("--out", required=True, type=Path, help="new folder to write to")
    parser.add_argument("--with-text", action="store_true", help="add the text that the tables refer to")
    parser.add_argument("--names", action="store_true", help="keep annotators' names; default: person-1, person-2, ...")
    parser.add_argument(
        "--licence", type=licence_of, help="the dataset's licence, as the hub calls it: cc-by-4.0; default: unknown"
    )


def run(args: argparse.Namespace) -> None:
    from ff_memories.atlas import settings
    from ff_memories.audit.verify import commit
    from ff_memories.exports import dataset

    require_new(args.out)
    refuse_unfinished(run_ := opening.opened(args.configfile))
    source = run_.inputs.source("text")
    text_licence = source.licence if source else None
    if args.with_text and text_licence is None and args.licence is None:
        raise UserError("--with-text: nobody recorded the licence of this run's text", "state it: --licence IDENTIFIER")
    text = corpus_of(run_, "texts") if args.with_text else None
    info = read_info(run_.path("model", "info.json"))
    found = dataset.available(Path(run_.path("tables")))
    recorded, source_of = settings.find(Path(run_.results), info, found.values(), None)
    origin = dataset.Origin(
        run_.config.run,
        info["scope"],
        _model(run_, info),
        version("ff-memories"),
        commit(Path(ff_memories.__file__).parent),
        recorded.resolved() if recorded else run_.resolved,
        source_of if recorded else Path(args.configfile).name,
        text_licence,
    )
    with atomic_folder(args.out) as folder:
        contents = dataset.write_tables(found, folder, args.with_text, args.names)
        if text is not None:
            from ff_memories.corpus import store
            from ff_memories.corpus.types import read_types

            corpus = store.read(text)
            dataset.write_texts(folder, contents, found, corpus, read_types(run_.dictionary))
        licence = _licence(args.licence, text_licence if args.with_text else None)
        write_whole(folder / "README.md", dataset.card(contents, origin, licence, args.with_text))
    print(f"wrote {len(contents.files)} tables to {args.out}")


def _licence(given: str | None, of_text: str | None) -> tuple[str, str | None]:
    """Return the hub's identifier of a licence, and a name for one that it does not list."""
    if given is not None or of_text is None:
        return given or "unknown", None
    return "other", re.sub(r"[^a-z0-9.]+", "-", of_text.lower()).strip("-")


def _model(run_: Run, info: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the card says about the model, as (name, value); digests are those that the run read."""
    model, half = run_.config.model, neurons(info)
    out = [("model", f"`{model.called or Path(run_.inputs.model_file('checkpoint')).name}`")]
    if pinned := run_.inputs.pinned_on_hub:
        out.append(("revision", f"`{pinned.revision}`"))
    if model.licence:
        out.append(("the model's licence", model.licence))
    if weights := quantised(info):
        out.append(("weights", weights))
    keys = f"{info['keys']}" if half is None else f"{half}, of both signs"
    out += [("layers", str(info["layers"])), ("keys per layer", keys)]
    files = info.get("model_sha256") or {}
    if isinstance(files, dict):
        files = {f"`{name}`": sha for name, sha in files.items()}
    files |= {f"the {name}": sha for name in ("checkpoint", "dictionary") if (sha := info.get(f"{name}_sha256"))}
    return [*out, *((f"SHA-256 of {name}", f"`{sha}`") for name, sha in files.items())]

"""Export a run's tables as a dataset for the Hugging Face hub: Parquet files and a card, README.md.

Without --with-text, the dataset contains no text: columns that quote it are left out, and the card names them.
Nothing is uploaded.

The card begins with YAML. Its ``configs`` name one table each, so ``datasets.load_dataset(folder, "triggers")`` reads
the table `triggers`. A table without text has the bytes of the run's own file.
"""

import argparse
import re
import shutil
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import polars as pl
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

import ff_memories
from contrib.corpus import corpus_of
from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_folder, require_new, sha256, write_whole
from ff_memories.corpus import store
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.tokenizer import Types, read_types
from ff_memories.model.info import ABOUT, neurons, quantised, read_info
from ff_memories.schema import SENTENCE, TOKEN
from ff_memories.tables.annotation import PEOPLE, SIMULATED, is_person
from ff_memories.workflow import opening
from ff_memories.workflow.run import Run, refuse_unfinished

Licence = tuple[str, str | None]  # the hub's identifier, and a name if that is ``other``
TAGS = ("interpretability", "transformer", "feed-forward-layers", "key-value-memories", "neurons")
TEXTS = {
    "texts": "the sentences that `triggers`, `examples` and `samples` name: their token ids, and their text. A trigger "
    "is the first `position` tokens of its sentence",
    "token_types": "the text of every token id",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument("--out", required=True, type=Path, help="new folder to write to")
    parser.add_argument("--with-text", action="store_true", help="add the text that the tables refer to")
    parser.add_argument("--licence", help="the dataset's licence, as the hub calls it: cc-by-4.0; default: unknown")


def run(args: argparse.Namespace) -> None:
    from ff_memories.audit.verify import commit

    require_new(args.out)
    refuse_unfinished(run_ := opening.opened(args.configfile))
    source = run_.inputs.source("text")
    text_licence = source.licence if source else None
    if args.with_text and text_licence is None and args.licence is None:
        raise UserError("--with-text: nobody recorded the licence of this run's text", "state it: --licence IDENTIFIER")
    text = corpus_of(run_, "texts") if args.with_text else None
    every = {name: Path(run_.table(name)) for name in tables.TABLES}
    paths = {name: path for name, path in every.items() if path.is_file() or name == "triggers"}  # which it must have
    revision = commit(Path(ff_memories.__file__).parent)
    made_with = f"ff-memories {version('ff-memories')}" + (f", commit `{revision}`" if revision else "")
    about = [*_about(run_, read_info(run_.path("model", "info.json"))), ("made with", made_with)]
    licence: Licence = args.licence or "unknown", None
    if args.with_text and args.licence is None and text_licence:
        licence = "other", re.sub(r"[^a-z0-9.]+", "-", text_licence.lower()).strip("-")
    with atomic_folder(args.out) as folder:
        contents = write_tables(paths, folder, args.with_text)
        if text is not None:
            write_texts(folder, contents, paths, store.read(text), read_types(run_.dictionary))
        quotes = None if text is None else text_licence or "stated by whoever shares this dataset"
        write_whole(folder / "README.md", card(contents, about, run_.resolved, licence, quotes))
    print(f"wrote {len(contents.files)} tables to {args.out}")


def _about(run_: Run, info: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the card says about run and model, as (name, value); digests are those that the run read."""
    model, half, pinned, scope = run_.config.model, neurons(info), run_.inputs.pinned_on_hub, info["scope"]
    said = ABOUT[scope] + ("" if scope == "paper" else "; its results say nothing about the paper's numbers")
    out = {
        "run": f"`{run_.config.run}`",
        "scope": f"`{scope}`: {said}",
        "model": f"`{model.called or Path(run_.inputs.model_file('checkpoint')).name}`",
        "revision": f"`{pinned.revision}`" if pinned else None,
        "the model's licence": model.licence,
        "weights": quantised(info),
        "layers": str(info["layers"]),
        "keys per layer": f"{info['keys']}" if half is None else f"{half}, of both signs",
    }
    files = {f"`{name}`": sha for name, sha in (info.get("model_sha256") or {}).items()}
    files |= {f"the {name}": info.get(f"{name}_sha256") for name in ("checkpoint", "dictionary")}
    out |= {f"SHA-256 of {name}": f"`{sha}`" for name, sha in files.items() if sha}
    return [(name, text) for name, text in out.items() if text]


@dataclass
class Contents:
    """The files of a dataset: (rows, columns, what it holds, SHA-256) by table; what was left out or renamed."""

    files: dict[str, tuple[int, list[str], str, str]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    renamed: int = 0  # people


def write_tables(found: dict[str, Path], folder: Path, with_text: bool) -> Contents:
    """Copy tables to ``folder``/data, without people's names and, unless asked, without columns that quote the text."""
    people = _people(found)
    out = Contents(renamed=len(people))
    (folder / "data").mkdir()
    for name, path in found.items():
        schema = tables.TABLES[name]
        tables.read(path)  # refuses a damaged table
        frame, to = pl.read_parquet(path, glob=False), folder / "data" / f"{name}.parquet"
        quoting = [] if with_text or schema.quotes_text is None else [schema.quotes_text]
        shared = frame.drop(quoting)
        if "file" in shared.columns and shared.height:
            cut = {file: without_folders(file) for file in shared["file"].unique()}
            shared = shared.with_columns(pl.col("file").replace_strict(cut, return_dtype=pl.String))
        if (column := schema.names_people) and people:
            shared = shared.with_columns(pl.col(column).replace(people))
        if shared.equals(frame):
            shutil.copyfile(path, to)
        else:
            metadata = {n: v for n, v in pl.read_parquet_metadata(path).items() if n != "ARROW:schema"}
            tables.save(shared, to, metadata)
        out.left_out += [f"the column `{c}` of `{name}`" for c in quoting]
        out.files[name] = shared.height, shared.columns, schema.about, sha256(to)
    return out


def _people(found: dict[str, Path]) -> dict[str, str]:
    """Return {a person's name: what a shared dataset calls them}; simulated people keep their names."""
    named = [pl.DataFrame(schema={"annotator": pl.String})]
    for name, path in found.items():
        if column := tables.TABLES[name].names_people:
            named.append(tables.read(path).select(annotator=pl.col(column).cast(pl.String)))
    every = pl.concat(named).unique().sort("annotator").filter(is_person())["annotator"]
    people = [name for name in every if name != PEOPLE and not name.startswith(SIMULATED)]
    return {name: f"person-{i}" for i, name in enumerate(people, 1)}


def write_texts(folder: Path, contents: Contents, found: dict[str, Path], corpus: Corpus, types: Types) -> None:
    """Add the sentences that tables name, and the text of the token types."""
    named = [tables.read(found[name])["sentence"] for name in found if "sentence" in tables.TABLES[name].fields]
    numbers = pl.concat(named).unique().sort().to_list()
    ids = [corpus.sentence(number).tolist() for number in numbers]
    texts = {"sentence": numbers, "tokens": ids, "text": [" ".join(types.words(tokens)) for tokens in ids]}
    every = {"token": range(len(types)), "text": [types[token] for token in range(len(types))]}
    sentences = pl.DataFrame(texts, schema={"sentence": SENTENCE, "tokens": pl.List(TOKEN), "text": pl.String})
    token_types = pl.DataFrame(every, schema={"token": TOKEN, "text": pl.String})
    for (name, about), frame in zip(TEXTS.items(), (sentences, token_types), strict=True):
        to = folder / "data" / f"{name}.parquet"
        tables.save(frame, to)
        contents.files[name] = frame.height, frame.columns, about, sha256(to)


def card(
    contents: Contents, about: list[tuple[str, str]], config: dict[str, Any], licence: Licence, text_licence: str | None
) -> str:
    """Return the card: YAML with a config for each table, then Markdown."""
    run, (identifier, licence_name) = config["run"], licence
    configs: list[dict[str, Any]] = [
        {"config_name": name, "data_files": [{"split": "train", "path": f"data/{name}.parquet"}]}
        | ({"default": True} if name == "triggers" else {})
        for name in contents.files
    ]
    head = {
        "pretty_name": f"Feed-forward memories of the run {run}",
        "license": identifier,
        **({"license_name": licence_name} if licence_name else {}),
        "tags": list(TAGS),
        "configs": configs,
    }
    plain_yaml = partial(yaml.safe_dump, sort_keys=False, allow_unicode=True)
    said = {"run": run, "about": about, "contents": contents, "licence": identifier, "text_licence": text_licence}
    said |= {"head": plain_yaml(head), "config": plain_yaml(without_folders(config))}
    loader = FileSystemLoader(Path(__file__).parent)
    layout: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    jinja = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, **layout)
    return jinja.get_template("card.md.j2").render(said)


def without_folders(value: Any) -> Any:
    """Return plain data in which every absolute path is cut to its last part."""
    if isinstance(value, dict):
        return {name: without_folders(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_folders(inner) for inner in value]
    if isinstance(value, str):
        for kind in (PurePosixPath, PureWindowsPath):
            if value.startswith("~") or (kind(value).is_absolute() and kind(value).name):
                return kind(value).name
    return value

"""Write a run's tables as a dataset for the Hugging Face hub: Parquet files and a card, README.md.

The card begins with YAML. Its ``configs`` name one table each, so ``datasets.load_dataset(folder, "triggers")`` reads
the table `triggers`. A table without text has the bytes of the run's own file.
"""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.corpus.store import Corpus
from ff_memories.corpus.types import Types
from ff_memories.exports.published import digest, without_folders
from ff_memories.tables.annotation import PEOPLE, SIMULATED, is_person

TAGS = ("interpretability", "transformer", "feed-forward-layers", "key-value-memories", "neurons")
TEXTS = {
    "texts": "the sentences that `triggers`, `examples` and `samples` name: their token ids, and their text. A trigger "
    "is the first `position` tokens of its sentence",
    "token_types": "the text of every token id",
}
_SCOPE = {
    "paper": "the paper's model",
    "surrogate": "not the paper's model and text: its results say nothing about the paper's numbers",
    "model": "a model of `transformers`, not the paper's: its results say nothing about the paper's numbers",
}


@dataclass(frozen=True)
class Origin:
    """Where a run's tables come from, for the card.

    Attributes:
        run, scope: the run's name, and the model info's ``scope``.
        model: lines of (name, value) about the model.
        version, commit: of this package; no commit outside of git.
        config: the run's resolved config as plain data.
        config_from: the file that it is from.
        text_licence: what the registry says of the text; ``None`` if nobody recorded it.
    """

    run: str
    scope: str
    model: list[tuple[str, str]]
    version: str
    commit: str | None
    config: dict[str, Any]
    config_from: str
    text_licence: str | None


@dataclass
class Contents:
    """The files of a dataset: (rows, columns, what it holds, SHA-256) by table; what was left out or renamed."""

    files: dict[str, tuple[int, list[str], str, str]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    renamed: int = 0  # people


def available(folder: Path) -> dict[str, Path]:
    """Return the run's tables by name. Raises ``UserError`` if there are none."""
    found = {name: path for name in tables.TABLES if (path := folder / f"{name}.parquet").is_file()}
    if "triggers" not in found:
        raise UserError(f"{folder}: no table triggers", "run the workflow for this config first")
    return found


def write_tables(found: dict[str, Path], folder: Path, with_text: bool, with_names: bool = False) -> Contents:
    """Copy tables to ``folder``/data, without what must not be shared unasked.

    Args:
        found: from ``available``.
        with_text: whether to keep the columns that quote the text.
        with_names: whether to keep people's names; otherwise they are called ``person-1``, ``person-2``, ...
    """
    out = Contents()
    people = {} if with_names else _people(found)
    out.renamed = len(people)
    (folder / "data").mkdir()
    for name, path in found.items():
        schema = tables.TABLES[name]
        tables.read(path)  # refuses a damaged table
        frame, to = pl.read_parquet(path), folder / "data" / f"{name}.parquet"
        quoting = [] if with_text or schema.quotes_text is None else [schema.quotes_text]
        own = frame.drop(quoting)
        if "file" in own.columns:
            cut = {file: without_folders(file) for file in own["file"].unique()}
            own = own.with_columns(pl.col("file").replace_strict(cut, return_dtype=pl.String)) if own.height else own
        if (column := schema.names_people) and people:
            own = own.with_columns(pl.col(column).replace(people))
        if own.equals(frame):
            shutil.copyfile(path, to)
        else:
            known = {n: v for n, v in pl.read_parquet_metadata(path).items() if n != "ARROW:schema"}
            tables.save(own, to, known)
        out.left_out += [f"the column `{c}` of `{name}`" for c in quoting]
        out.files[name] = (own.height, own.columns, schema.about, digest(to))
    return out


def _people(found: dict[str, Path]) -> dict[str, str]:
    """Return {a person's name: what a shared dataset calls them}; simulated people keep their names."""
    naming = [(path, column) for name, path in found.items() if (column := tables.TABLES[name].names_people)]
    names = [tables.read(path)[column].rename("annotator") for path, column in naming]
    if not names:
        return {}
    every = pl.concat(names).unique().sort().to_frame().filter(is_person())["annotator"].to_list()
    people = [name for name in every if name != PEOPLE and not name.startswith(SIMULATED)]
    return {name: f"person-{i}" for i, name in enumerate(people, 1)}


def write_texts(folder: Path, contents: Contents, found: dict[str, Path], corpus: Corpus, types: Types) -> None:
    """Add the sentences that tables name, and the text of the token types."""
    named = [tables.read(found[name])["sentence"] for name in found if "sentence" in tables.TABLES[name].fields]
    numbers = pl.concat(named).unique().sort().to_list()
    if numbers and numbers[-1] >= len(corpus):
        raise UserError("triggers: names a sentence that the corpus does not have", "run the workflow again")
    ids = [corpus.sentence(number).tolist() for number in numbers]
    texts = pl.DataFrame(
        {"sentence": numbers, "tokens": ids, "text": [" ".join(types.words(own)) for own in ids]},
        schema={"sentence": tables.SENTENCE, "tokens": pl.List(tables.TOKEN), "text": pl.String},
    )
    every = pl.DataFrame(
        {"token": range(len(types)), "text": [types[token] for token in range(len(types))]},
        schema={"token": tables.TOKEN, "text": pl.String},
    )
    for (name, about), frame in zip(TEXTS.items(), (texts, every), strict=True):
        to = folder / "data" / f"{name}.parquet"
        tables.save(frame, to)
        contents.files[name] = (frame.height, frame.columns, about, digest(to))


def front_matter(names: Iterable[str], licence: tuple[str, str | None], run: str) -> dict[str, Any]:
    """Return the card's YAML as plain data. ``licence``: the hub's identifier, and a name if that is ``other``."""
    identifier, name = licence
    configs: list[dict[str, Any]] = [
        {"config_name": table, "data_files": [{"split": "train", "path": f"data/{table}.parquet"}]} for table in names
    ]
    for one in configs:
        if one["config_name"] == "triggers":
            one["default"] = True
    return {
        "pretty_name": f"Feed-forward memories of the run {run}",
        "license": identifier,
        **({"license_name": name} if name else {}),
        "tags": list(TAGS),
        "configs": configs,
    }


def card(contents: Contents, origin: Origin, licence: tuple[str, str | None], with_text: bool) -> str:
    """Return the dataset's card: YAML between lines of ``---``, then Markdown."""
    head = yaml.safe_dump(front_matter(contents.files, licence, origin.run), sort_keys=False, allow_unicode=True)
    made = f"ff-memories {origin.version}" + (f", commit `{origin.commit}`" if origin.commit else "")
    text = (
        [
            "The tables `texts` and `token_types`, and descriptions of patterns, quote the run's text. "
            f"The licence of that text: {origin.text_licence or 'stated by whoever shares this dataset'}."
        ]
        if with_text
        else [
            "No table contains text: tokens are ids of the model's tokenizer or dictionary, and sentences are numbers.",
            *([f"Left out, because it quotes the text: {', '.join(contents.left_out)}."] if contents.left_out else []),
        ]
    )
    about = [("run", f"`{origin.run}`"), ("scope", f"`{origin.scope}`: {_SCOPE[origin.scope]}"), *origin.model]
    about += [("made with", made)]
    if contents.renamed:
        text.append("People who annotated are called `person-1`, `person-2` and so on.")
    if licence[0] == "unknown":
        text.append("Nobody stated a licence for these tables.")
    rows = [
        f"| `{name}` | {height:,} | {', '.join(f'`{column}`' for column in columns)} | {_cell(what)} |"
        for name, (height, columns, what, _) in contents.files.items()
    ]
    parts = [
        f"---\n{head}---",
        f"# Feed-forward memories of the run {origin.run}",
        "Each feed-forward layer of a transformer is read as key-value memories (Geva et al. 2021, "
        "[arXiv:2012.14913](https://arxiv.org/abs/2012.14913)): which prefixes trigger each key, and which tokens "
        "each value promotes. Layers count from 1, keys from 0. In tables with a column `sign`, -1 means the memory "
        "with the value -v and the coefficients' signs changed.",
        "\n".join(["| | |", "|---|---|", *(f"| {name} | {_cell(value)} |" for name, value in about)]),
        "## Text",
        " ".join(text),
        "## Tables",
        '    from datasets import load_dataset\n\n    triggers = load_dataset("FOLDER_OR_NAME", "triggers", '
        'split="train")',
        "Every table has one split, `train`, because `datasets` needs a split.",
        "\n".join(["| config | rows | columns | content |", "|---|---|---|---|", *rows]),
        "## Files",
        "\n".join(
            [
                "| file | SHA-256 |",
                "|---|---|",
                *(f"| `data/{name}.parquet` | `{sha}` |" for name, (*_, sha) in contents.files.items()),
            ]
        ),
        "## Config",
        f"From `{without_folders(origin.config_from)}`.",
        "```yaml\n" + yaml.safe_dump(without_folders(origin.config), sort_keys=False, allow_unicode=True) + "```",
    ]
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

"""Cut the texts into sentences of token ids (the `sentences` table, and the corpus as the model reads it)."""

import argparse
from pathlib import Path

import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.config import Corpus
from ff_memories.corpus import cuts, moses, store, text
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.corpus.segment import Segmenter, segmenter
from ff_memories.model.info import read_info
from ff_memories.steps.common import Configured, config_argument, write_counts


def arguments(parser: argparse.ArgumentParser) -> None:
    config_argument(parser)
    parser.add_argument("--train", required=True, nargs="+", type=Path, help="text files")
    parser.add_argument("--validation", required=True, nargs="+", type=Path, help="text files")
    parser.add_argument("--dictionary", required=True)
    parser.add_argument("--info", required=True, help="the model's info.json")
    parser.add_argument("--cuts", nargs="*", default=[], help="shards of cuts, where a segmenter ran before")
    parser.add_argument("--sentences", required=True, help="table to write")
    parser.add_argument("--corpus", required=True, help="corpus.safetensors to write")
    parser.add_argument("--counts", required=True, help="counts to write")


def run(args: Configured) -> None:
    corpus = args.config.corpus
    files = [*args.train, *args.validation]
    if corpus.sha256 is not None and (found := _digest(files)) != corpus.sha256:
        raise UserError(_changed(corpus, files, found), "set corpus.sha256 to the new value if the change is meant")
    dictionary = Dictionary.read(args.dictionary)
    options = {
        "dictionary": dictionary,
        "max_tokens": read_info(args.info)["max_positions"] - 1,
        "headings": corpus.headings,
        "too_long": corpus.too_long,
        "tokenize": moses.tokenizer() if corpus.tokenizer == "moses" else None,
    }
    splits = {
        split: text.sentences(
            getattr(args, split), segmenter=cut, max_sentences=getattr(corpus, split).max_sentences, **options
        )
        for split, cut in zip(("train", "validation"), _segmenters(args), strict=True)
    }
    frames = [splits["train"].frame("train", 0), splits["validation"].frame("validation", len(splits["train"]))]
    store.write(splits["train"], splits["validation"], args.corpus)
    reasons = {f"{split}_{reason}": n for split, part in splits.items() for reason, n in part.counts.items()}
    reasons |= {f"{split}_sentences": len(part) for split, part in splits.items()}
    write_counts("corpus", reasons, args.counts)
    tables.write(pl.concat(frames), args.sentences)


def _segmenters(args: Configured) -> list[Segmenter]:
    """The segmenter of each split: it cuts now, or gives what was recorded."""
    corpus = args.config.corpus
    if not args.cuts:
        return [segmenter(corpus.segmenter)] * 2
    of = lambda split: cuts.texts(getattr(args, split), cuts.needed(corpus.model_dump(), split))
    paragraphs = [sum(1 for _ in of(split)) for split in ("train", "validation")]
    return cuts.replay([cuts.load(path) for path in args.cuts], paragraphs)


def _digest(files: list[Path]) -> str:
    for path in files:
        if not path.exists():
            raise UserError(f"{path}: no such text file", "check corpus.train.files and corpus.validation.files")
    return text.sha256(files)


def _changed(corpus: Corpus, files: list[Path], found: str) -> str:
    names = ", ".join(map(str, files))
    what = f"{names}: together their SHA-256 is {found}, the config's corpus.sha256 is {corpus.sha256}"
    if corpus.source == "docstrings":
        from ff_memories.inputs.docstrings import PACKAGES

        what += "; the text is made from " + ", ".join(f"{p} {v}" for p, v in PACKAGES.items())
    return what

"""Split the texts into sentences of token ids (the table `sentences`, and the corpus that the model reads)."""

from pathlib import Path

import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.parameters import AnyInputs, Input, Inputs, Output
from ff_memories.config import CorpusSection, Settings
from ff_memories.corpus import forms, store, text
from ff_memories.corpus.splitting import cuts as recorded
from ff_memories.corpus.splitting import moses
from ff_memories.corpus.splitting.segment import Segmenter, segmenter
from ff_memories.corpus.types import read_types
from ff_memories.inputs import registry
from ff_memories.model.info import read_info


def run(
    config: Settings,
    train: Inputs,
    validation: Inputs,
    dictionary: Input,
    info: Input,
    cuts: AnyInputs,
    sentences: Output,
    corpus: Output,
    counts: Output,
) -> None:
    """Read both splits and number their sentences.

    Args:
        train: training text files
        validation: validation text files
        info: the model's info.json
        cuts: shards of recorded cuts, if cut-shard ran before
    """
    keys, split_files = config.corpus, {"train": train, "validation": validation}
    described = read_info(info)
    files = [*train, *validation]
    if keys.sha256 is not None and (found := _digest(files)) != keys.sha256:
        raise UserError(
            _changed(keys, files, found), "if you meant to change the text, set corpus.sha256 to the new value"
        )
    for path in files:
        forms.check(path, lines_are_sentences=keys.segmenter == "line")
    options = {
        "dictionary": read_types(dictionary),
        "max_tokens": described["max_positions"] - 1,
        "headings": keys.headings,
        "too_long": keys.too_long,
        "tokenize": moses.tokenizer() if keys.tokenizer == "moses" else None,
    }
    splits = {
        split: text.sentences(
            split_files[split], segmenter=cut, max_sentences=getattr(keys, split).max_sentences, **options
        )
        for split, cut in zip(split_files, _segmenters(keys, split_files, cuts), strict=True)
    }
    frames = [splits["train"].frame("train", 0), splits["validation"].frame("validation", len(splits["train"]))]
    store.write(splits["train"], splits["validation"], corpus)
    reasons = {f"{split}_{reason}": n for split, part in splits.items() for reason, n in part.counts.items()}
    reasons |= {f"{split}_sentences": len(part) for split, part in splits.items()}
    source = registry.sources().get(keys.source or "")
    if source is not None and source.sampled_from is not None and source.sampled_from == described.get("source"):
        reasons[tables.SAMPLED] = sum(map(len, (part.tokens for part in splits.values())))
    tables.write_counts("corpus", reasons, counts)
    tables.write(pl.concat(frames), sentences)


def _segmenters(keys: CorpusSection, split_files: dict[str, list[Path]], cuts: list[Path]) -> list[Segmenter]:
    """Return each split's segmenter, which cuts now or replays recorded cuts."""
    if not cuts:
        return [segmenter(keys.segmenter, raw=keys.tokenizer == "model")] * 2
    of = lambda split: recorded.texts(split_files[split], recorded.needed(keys.model_dump(), split))
    paragraphs = [sum(1 for _ in of(split)) for split in split_files]
    return recorded.replay([recorded.load(path) for path in cuts], paragraphs)


def _digest(files: list[Path]) -> str:
    for path in files:
        if not path.exists():
            raise UserError(f"{path}: no such text file", "check corpus.train.files and corpus.validation.files")
    return text.sha256(files)


def _changed(keys: CorpusSection, files: list[Path], found: str) -> str:
    names = ", ".join(map(str, files))
    what = f"{names}: their joint SHA-256 is {found}, but corpus.sha256 in the config is {keys.sha256}"
    if keys.source == "docstrings":
        from ff_memories.inputs.texts.docstrings import PACKAGES

        what += "; the text comes from " + ", ".join(f"{p} {v}" for p, v in PACKAGES.items())
    return what

"""Split the texts into sentences of token ids (the table `sentences`, and the corpus that the model reads)."""

from pathlib import Path

import polars as pl

from ff_memories import tables
from ff_memories.base.errors import UserError
from ff_memories.base.files import script, sha256
from ff_memories.base.parameters import AnyInputs, Input, Inputs, Output, Threads
from ff_memories.config import Settings
from ff_memories.config.sections import CorpusSection
from ff_memories.corpus import forms, store, text
from ff_memories.corpus.segment import Segmenter, cuts, segmenter
from ff_memories.corpus.tokenizer import read_types
from ff_memories.inputs import registry
from ff_memories.model.info import read_info


def run(
    config: Settings,
    train: Inputs,
    validation: Inputs,
    dictionary: Input,
    info: Input,
    pipeline: AnyInputs,
    threads: Threads | None,
    sentences: Output,
    corpus: Output,
    counts: Output,
) -> None:
    """Read both splits and number their sentences.

    Args:
        train: training text files
        validation: validation text files
        info: the model's info.json
        pipeline: the spaCy pipeline's config.cfg, if it was fetched
        threads: processes in which spaCy cuts
    """
    keys, split_files = config.corpus, {"train": train, "validation": validation}
    described = read_info(info)
    files = [*train, *validation]
    for path in files:
        forms.check(path, lines_are_sentences=keys.segmenter == "line")
    if keys.sha256 is not None and (digest := sha256(*files)) != keys.sha256:
        hint = "if you meant to change the text, set corpus.sha256 to the new value"
        raise UserError(_changed(keys, files, digest), hint)
    options = {
        "dictionary": read_types(dictionary),
        "max_tokens": described["max_positions"] - 1,
        "headings": keys.headings,
        "too_long": keys.too_long,
        "tokenize": text.moses() if keys.tokenizer == "moses" else None,
    }
    folder, splits = pipeline[0].parent if pipeline else None, {}
    for split, paths in split_files.items():
        cut, most = _segmenter(keys, paths, folder, threads or 1), getattr(keys, split).max_sentences
        splits[split] = text.sentences(paths, segmenter=cut, max_sentences=most, **options)
    frames = [splits["train"].frame("train", 0), splits["validation"].frame("validation", len(splits["train"]))]
    store.write(splits["train"], splits["validation"], corpus)
    reasons = {f"{split}_{reason}": n for split, part in splits.items() for reason, n in part.counts.items()}
    reasons |= {f"{split}_sentences": len(part) for split, part in splits.items()}
    source = registry.sources().get(keys.source or "")
    if source is not None and source.sampled_from is not None and source.sampled_from == described.get("source"):
        reasons[tables.SAMPLED] = sum(map(len, (part.tokens for part in splits.values())))
    tables.write_counts("corpus", reasons, counts)
    tables.write(pl.concat(frames, how="diagonal"), sentences)  # one split alone may have optional columns


def _segmenter(keys: CorpusSection, files: list[Path], folder: Path | None, processes: int) -> Segmenter:
    """Return the segmenter of a split's paragraphs, which come in order."""
    raw = keys.tokenizer == "model"
    if processes == 1 or not keys.segmenter.startswith("spacy:"):
        return segmenter(keys.segmenter, folder, raw)
    paragraphs = (words for path in files for _, words, _ in text.paragraphs(path))
    sentence_cuts = cuts(paragraphs, keys.segmenter, folder, raw, processes)
    return lambda _: next(sentence_cuts)


def _changed(keys: CorpusSection, files: list[Path], digest: str) -> str:
    names = ", ".join(map(str, files))
    what = f"{names}: their joint SHA-256 is {digest}, but corpus.sha256 in the config is {keys.sha256}"
    if keys.source == "docstrings":
        what += "; the text comes from " + ", ".join(f"{p} {v}" for p, v in script("docstrings").PACKAGES.items())
    return what

"""Build the demo corpus from the documentation strings of pinned packages."""

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from ff_memories.base.files import atomic_write, script
from ff_memories.base.parameters import Output, Threads


def prose(path: Path) -> list[tuple[str, str]]:
    """Return the prose of a source file (``data/docstrings.py``), in a process that may be another."""
    return script("docstrings").prose(path)


def run(train: Output, validation: Output, raw_train: Output, raw_validation: Output, threads: Threads | None) -> None:
    """Read the prose of both splits.

    Args:
        train, validation: tokens with blanks between them, as WikiText has them, for a model of words
        raw_train, raw_validation: the same paragraphs as people write them, for a model with a tokenizer of its own
    """
    files = {"train": (train, raw_train), "validation": (validation, raw_validation)}
    with ProcessPoolExecutor(threads or 1) as pool:
        built = script("docstrings").build(partial(pool.map, prose, chunksize=16))
    for split, paragraphs in built.items():
        for file, texts in zip(files[split], zip(*paragraphs, strict=True), strict=True):
            with atomic_write(file) as partial_file:
                partial_file.write_text("\n".join(texts) + "\n", encoding="utf-8")

"""Build the demo corpus from the documentation strings of pinned packages."""

from ff_memories.base.files import atomic_write
from ff_memories.base.parameters import Output, Threads
from ff_memories.inputs import docstrings


def run(train: Output, validation: Output, raw_train: Output, raw_validation: Output, threads: Threads | None) -> None:
    """Read the prose of both splits.

    Args:
        train, validation: tokens with blanks between them, as WikiText has them, for a model of words
        raw_train, raw_validation: the same paragraphs as people write them, for a model with a tokenizer of its own
    """
    files = {"train": (train, raw_train), "validation": (validation, raw_validation)}
    for split, paragraphs in docstrings.build(processes=threads or 1).items():
        for file, texts in zip(files[split], zip(*paragraphs, strict=True), strict=True):
            with atomic_write(file) as partial:
                partial.write_text("\n".join(texts) + "\n", encoding="utf-8")

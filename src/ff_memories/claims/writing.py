"""Text files, written whole or not at all."""

from pathlib import Path

from ff_memories.files import replacing


def write_whole(path: str | Path, text: str) -> None:
    """Write a text file, in UTF-8 with plain line ends, that never stands there half-written."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")

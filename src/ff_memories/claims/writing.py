"""Text files, written whole or not at all."""

from pathlib import Path


def write_whole(path: str | Path, text: str) -> None:
    """Write a text file, in UTF-8 with plain line ends, that never stands there half-written."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8", newline="\n")
    partial.replace(path)

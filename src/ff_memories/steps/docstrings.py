"""Build the demo corpus from the documentation strings of pinned packages."""

from pathlib import Path

from ff_memories.corpus import docstrings


def arguments(parser):
    parser.add_argument("--train", required=True, help="text file to write")
    parser.add_argument("--validation", required=True, help="text file to write")


def run(args):
    for split, paragraphs in docstrings.build().items():
        path = Path(getattr(args, split))
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        partial.write_text("\n".join(paragraphs) + "\n", encoding="utf-8")
        partial.replace(path)

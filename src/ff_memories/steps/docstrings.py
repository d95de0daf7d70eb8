"""Build the demo corpus from the documentation strings of pinned packages."""

from ff_memories.base.files import atomic_write
from ff_memories.base.parameters import Output, Threads
from ff_memories.inputs import docstrings


def run(train: Output, validation: Output, threads: Threads | None) -> None:
    files = {"train": train, "validation": validation}
    for split, paragraphs in docstrings.build(processes=threads or 1).items():
        with atomic_write(files[split]) as partial:
            partial.write_text("\n".join(paragraphs) + "\n", encoding="utf-8")

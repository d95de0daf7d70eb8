"""The command line: ``python -m contrib.neuronpedia export``."""

from collections.abc import Sequence

from contrib import commands


def main(words: Sequence[str] | None = None) -> None:
    commands.main("neuronpedia", ("export",), words)


if __name__ == "__main__":
    main()

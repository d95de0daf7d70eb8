"""The command line: ``python -m contrib.released_code COMMAND``."""

from collections.abc import Sequence

from contrib import commands

COMMANDS = ("triggers", "texts", "agreement", "seeds", "layer", "dim", "sample")


def main(words: Sequence[str] | None = None) -> None:
    commands.main("released_code", COMMANDS, words)


if __name__ == "__main__":
    main()

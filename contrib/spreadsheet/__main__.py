"""The command line: ``python -m contrib.spreadsheet write`` and ``read``."""

from collections.abc import Sequence

from contrib import commands


def main(words: Sequence[str] | None = None) -> None:
    commands.main("spreadsheet", ("write", "read"), words)


if __name__ == "__main__":
    main()

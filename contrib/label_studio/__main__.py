"""The command line: ``python -m contrib.label_studio write`` and ``read``."""

from collections.abc import Sequence

from contrib import commands


def main(words: Sequence[str] | None = None) -> None:
    commands.main("label_studio", ("write", "read"), words)


if __name__ == "__main__":
    main()

"""The command line: ``python -m contrib.hf_dataset export``."""

from collections.abc import Sequence

from contrib import commands


def main(words: Sequence[str] | None = None) -> None:
    commands.main("hf_dataset", ("export",), words)


if __name__ == "__main__":
    main()

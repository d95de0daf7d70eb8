"""The command line: ``python -m contrib.language_model COMMAND``."""

from collections.abc import Sequence

from contrib import commands


def main(words: Sequence[str] | None = None) -> None:
    commands.main("language_model", ("prompts", "answers", "score"), words)


if __name__ == "__main__":
    main()

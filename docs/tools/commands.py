"""Write docs/commands.md: every user command with its options."""

import argparse

from pages import ROOT, options, renew

from ff_memories import cli
from ff_memories.commands import GROUPS

PAGE = ROOT / "docs" / "commands.md"
HEAD = """\
# Commands

These are the subcommands of `ff-memories`, in the order in which you need them. Each prints the same text with
`--help`. `python docs/tools/commands.py` generates this page.
"""
STEPS = """\
### step NAME

Run one step of the workflow, as Snakemake's rules do. [The steps](steps.md) explains what each one computes.
"""


def page() -> str:
    """Return the page as Markdown."""
    parts = [HEAD]
    for group, held in GROUPS.items():
        parts += [f"## {group}\n", *(section(words) for name in held for words in commands(name))]
    return "\n".join(parts)


def commands(name: str) -> list[tuple[str, ...]]:
    """Return a command, or a folder's subcommands."""
    place = cli.places().get(name)
    return [(name, below) for below in cli.names(name)] if place and place.is_dir() else [(name,)]


def section(words: tuple[str, ...]) -> str:
    """Return a command's section: its description and a list of its arguments."""
    if words == ("step",):
        return STEPS
    parser = argparse.ArgumentParser(add_help=False)
    cli.arguments(words, parser)
    lines = [f"### {' '.join(words)}", "", (parser.description or "").strip(), "", *map(item, parser._actions)]
    return "\n".join(lines).rstrip() + "\n"


def item(action: argparse.Action) -> str:
    """Return an argument's line: its syntax, whether it is required, and its help."""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else None
    value = action.metavar or choices or action.dest.upper()
    many = " ..." if action.nargs in ("*", "+") else ""
    typed = [*action.option_strings, *([f"{value}{many}"] if action.nargs != 0 else [])]
    required = " (required)" if action.required and action.nargs != "*" else ""
    said = (action.help or "").replace("%%", "%")
    return f"- `{' '.join(typed)}`{required}" + (f": {said}" if said else "")


def main(argv: list[str] | None = None) -> None:
    args = options(__doc__, PAGE).parse_args(argv)
    renew(args.out, page(), args.check)


if __name__ == "__main__":
    main()

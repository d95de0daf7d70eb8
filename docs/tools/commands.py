"""Write docs/commands.md: every user command with its options, and every step with its tables."""

import argparse
import re

import steps
from pages import ROOT, options, renew

from ff_memories import cli
from ff_memories.commands import GROUPS

PAGE = ROOT / "docs" / "commands.md"
HEAD = """\
# Commands, steps and tables

These are the subcommands of `ff-memories`, in the order in which you need them, and then [the steps](#steps-and-tables)
of a run. `--help` says more. An option that an earlier command explains stands at the end by its name.
Where a command says no more, `--configfile` is a config file, or a run's folder such as results/demo; default:
config/config.yaml.
"""
STEPS = """\
### step NAME

Run one step of the workflow, as Snakemake's rules do.
"""


def page() -> str:
    """Return the page as Markdown."""
    parts, explained = [HEAD], set[str]()
    for group, held in GROUPS.items():
        parts += [f"## {group}\n", *(section((name,), explained) for name in held)]
    return "\n".join([*parts, steps.part()])


def section(words: tuple[str, ...], explained: set[str]) -> str:
    """Return a command's section: its description and a list of its arguments.

    Args:
        words: the command.
        explained: lines of arguments that earlier sections have; those of this one are added.
    """
    if words == ("step",):
        return STEPS
    parser = argparse.ArgumentParser(add_help=False)
    cli.arguments(words, parser)
    actions = {item(action): syntax(action) for action in parser._actions}
    new = [line for line in actions if line not in explained]
    again = [f"`{typed}`" for line, typed in actions.items() if line in explained]
    explained.update(actions)
    lines = [f"### {' '.join(words)}", "", summary(parser.description or ""), "", *new]
    lines += [f"- as above: {', '.join(again)}"] if again else []
    return "\n".join(lines).rstrip() + "\n"


def summary(description: str) -> str:
    """Return a description's first paragraph and its examples."""
    first, *others = re.split(r"\n\n(?=\S)|\n\n(?=    )", description.strip())
    return "\n\n".join([first, *(part.rstrip() for part in others if part.startswith("    "))])


def syntax(action: argparse.Action) -> str:
    """Return what to type for an argument."""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else None
    value = action.metavar or choices or action.dest.upper()
    many = " ..." if action.nargs in ("*", "+") else ""
    return " ".join([*action.option_strings, *([f"{value}{many}"] if action.nargs != 0 else [])])


def item(action: argparse.Action) -> str:
    """Return an argument's line: its syntax, whether it is required, and its help."""
    required = " (required)" if action.required and action.nargs != "*" else ""
    about = (action.help or "").replace("%%", "%")
    return f"- `{syntax(action)}`{required}" + (f": {about}" if about else "")


def main(argv: list[str] | None = None) -> None:
    args = options(__doc__, PAGE).parse_args(argv)
    renew(args.out, page(), args.check)


if __name__ == "__main__":
    main()

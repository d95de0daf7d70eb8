"""Write the items of the annotation study as prompts for a language model, one text file each.

The command calls no model. Put each prompt to a model, write its answer to a file with the prompt's name in another
folder, and read the folder with `answers`. The prompts quote the run's text. A prompt has the guide for annotators in
short, the item's prefixes as the forms show them, and the form of the answer. It does not name the item's layer, key or
kind.
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from contrib import annotation_study
from ff_memories.annotate.study import FEWEST, Item
from ff_memories.base.files import atomic_folder, require_new, write_whole
from ff_memories.corpus.tokenizer import BLANK
from ff_memories.workflow import opening

GUIDE = f"""\
Below are the beginnings of several sentences (prefixes), each cut off after its last token, which stands in [brackets].
They were selected for some reason. Say what they have in common, if anything. Some sets of prefixes are random and have
nothing in common.

- A pattern needs at least {FEWEST} prefixes. What only two share is no pattern.
- Describe a pattern so precisely that somebody else can check it: "ends with press", "a time of day",
  "military bases".
- A pattern is "shallow" if you could see it in a language that you cannot read: the same word, ending, phrase, number
  or form recurs in the same place.
- A pattern is "semantic" if you have to understand the text: the prefixes are about one subject, or say the same sort
  of thing in different words.
- If both are true, give two patterns.
- List every prefix that has a pattern. A prefix may have several patterns or none.
"""
BLANKS = f"""\
Blanks separate tokens. A "{BLANK}" is a blank in the text, before the token: the {BLANK}un like ly means the unlikely.
"""
EXAMPLES = """\
shallow | 1 4 7 | ends with "press"
semantic | 2 3 4 9 | military bases
"""  # lines that models repeat: an answer may not contain them
FORM = f"""\
Answer with one line per pattern and nothing else: its type, the numbers of its prefixes, and its description, separated
by "|". If there is no pattern, answer with the single word none.

{EXAMPLES}"""


def arguments(parser: argparse.ArgumentParser) -> None:
    opening.argument(parser)
    parser.add_argument(
        "--out", required=True, type=Path, help="new folder: a text file for each item, and all in prompts.jsonl"
    )


def run(args: argparse.Namespace) -> None:
    require_new(args.out)
    items = annotation_study.items(opening.opened(args.configfile))
    with atomic_folder(args.out) as folder:
        for name, item in file_names(items):
            write_whole(folder / name, prompt(item))
        write_whole(folder / "prompts.jsonl", lines(items))
    print(f"wrote {len(items)} prompts to {args.out}")


def prompt(item: Item) -> str:
    """Return the prompt of one item."""
    width = len(str(len(item.prefixes)))
    lines = [f"{rank:>{width}}. {_marked(words)}" for rank, words in enumerate(item.prefixes, 1)]
    pieces = any(word.startswith(BLANK) for words in item.prefixes for word in words)
    return "\n".join([GUIDE, *([BLANKS] if pieces else []), *lines, "", FORM])


def _marked(words: tuple[str, ...]) -> str:
    return " ".join([*words[:-1], f"[{words[-1]}]"]) if words else "[]"


def file_names(items: Iterable[Item]) -> Iterator[tuple[str, Item]]:
    """Yield a file name for each item, in the order shown: ``003-i0123456789-0123456789.txt``."""
    every = list(items)
    width = len(str(len(every)))
    for number, item in enumerate(every, 1):
        yield f"{number:0{width}}-{item.item}.txt", item


def lines(items: Iterable[Item]) -> str:
    """Return all prompts as JSON lines with ``item`` and ``prompt``."""
    rows = ({"item": item.item, "prompt": prompt(item)} for item in items)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

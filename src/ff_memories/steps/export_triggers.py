"""Export triggers as the released code's JSON lines (one per dimension)."""

from ff_memories import tables
from ff_memories.card import read_card
from ff_memories.exports.triggers import jsonl, sentence_texts
from ff_memories.files import replacing


def arguments(parser):
    parser.add_argument("--triggers", required=True, help="table")
    parser.add_argument("--sentences", required=True, help="table; its text files are read where they lie")
    parser.add_argument("--card", required=True, help="card.json")
    parser.add_argument("--top", type=int, default=50, help="records per key; places not filled hold zeros")
    parser.add_argument("--out", required=True, help="trigger_examples.jsonl to write")


def run(args):
    card, triggers = read_card(args.card), tables.read(args.triggers)
    texts = sentence_texts(tables.read(args.sentences))
    with replacing(args.out) as partial, partial.open("w", encoding="utf-8") as file:
        for line in jsonl(triggers, texts, card["layers"], card["keys"], args.top):
            file.write(line + "\n")

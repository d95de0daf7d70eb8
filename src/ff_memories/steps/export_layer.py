"""Export the 'layer' columns as the released code's data frame (Parquet with lists over layers)."""

from ff_memories import tables
from ff_memories.exports.information import layer_frame
from ff_memories.exports.triggers import sentence_texts
from ff_memories.files import replacing


def arguments(parser):
    parser.add_argument("--released-layer", required=True, help="table; a run with fidelity: released makes it")
    parser.add_argument("--examples", required=True, help="table")
    parser.add_argument("--sentences", required=True, help="table; its text files are read where they lie")
    parser.add_argument("--out", required=True, help="Parquet file to write")


def run(args):
    released, examples = tables.read(args.released_layer), tables.read(args.examples)
    frame = layer_frame(released, examples, sentence_texts(tables.read(args.sentences)))
    with replacing(args.out) as partial:
        frame.write_parquet(partial)

"""Export the 'dim' columns as the released code's data frame (Parquet with lists over dimensions)."""

from ff_memories import tables
from ff_memories.exports.information import dim_frame
from ff_memories.exports.triggers import sentence_texts
from ff_memories.files import replacing
from ff_memories.steps import export_layer


def arguments(parser):
    export_layer.arguments(parser)
    parser.add_argument("--released-dim", required=True, help="table; a run with fidelity: released makes it")


def run(args):
    layer, dim = tables.read(args.released_layer), tables.read(args.released_dim)
    frame = dim_frame(layer, dim, tables.read(args.examples), sentence_texts(tables.read(args.sentences)))
    with replacing(args.out) as partial:
        frame.write_parquet(partial)

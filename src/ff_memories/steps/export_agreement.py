"""Export agreement of values and triggers as the released script's TSV, from the text file of every key."""

import json
from pathlib import Path

from ff_memories.corpus.dictionary import Dictionary
from ff_memories.exports import agreement
from ff_memories.files import write_whole
from ff_memories.steps.common import load_decoder, model_arguments


def arguments(parser):
    model_arguments(parser)
    parser.add_argument("--texts", required=True, type=Path, help="folder that export-texts wrote")
    parser.add_argument("--dictionary", required=True)
    parser.add_argument(
        "--projection", choices=["random", "adaptive", "flat", "head"], default="random",
        help="random: the softmax projections that the released script never loads",
    )  # fmt: skip
    parser.add_argument("--projection-seed", type=int, default=1, help="of the random projections")
    parser.add_argument("--projections", help="safetensors to write the projections to, with their seed")
    parser.add_argument("--out", required=True, help="BASE.tsv and BASE_max_probs.json are written")


def run(args):
    import torch

    decoder = load_decoder(args)
    vocabulary = decoder.vocabulary.reading(args.projection, args.projection_seed)
    with torch.inference_mode():
        table = agreement.rows(decoder, vocabulary, Dictionary.read(args.dictionary), args.texts)
    write_whole(f"{args.out}.tsv", agreement.tsv(table))
    write_whole(f"{args.out}_max_probs.json", agreement.max_probabilities(table, decoder.description.keys))
    if args.projections:
        _export(vocabulary, args)


def _export(vocabulary, args):
    from safetensors.torch import save_file

    from ff_memories.files import replacing

    tensors = {} if vocabulary.classes is None else {"class_proj": vocabulary.classes}
    tensors |= {f"tail.{k}": c.projection for k, c in enumerate(vocabulary.clusters[1:])}
    with replacing(args.projections) as partial:
        save_file(
            {name: tensor.cpu().contiguous() for name, tensor in tensors.items()},
            partial,
            metadata={"projection": args.projection, "seed": json.dumps(args.projection_seed)},
        )

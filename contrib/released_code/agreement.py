"""Write the agreement of values and triggers as the released script's TSV, from the text files of all keys.

The released script never loads the softmax's projections to classes and tails, and it leaves dropout on. Its tail
probabilities and ranks therefore differ from run to run. Here, --projection-seed determines the random projections, as
`torch.manual_seed` at the script's start would, and --dropout adds the dropout. --projections saves the projections.
--projections-from reads saved projections, or the `state_dict` that torch saved of the script's softmax.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from contrib.released_code import agreement_script
from ff_memories.base.errors import UserError
from ff_memories.base.files import atomic_write, write_whole
from ff_memories.base.parameters import whole
from ff_memories.corpus.dictionary import Dictionary
from ff_memories.declaration import add_options, execution
from ff_memories.model.files.checkpoint import load_tensors
from ff_memories.model.loading import load_decoder
from ff_memories.model.vocabulary import Vocabulary


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--weights", required=True, type=Path, help="model.safetensors")
    parser.add_argument("--description", required=True, type=Path, help="model.json")
    add_options(parser)
    parser.add_argument("--texts", required=True, type=Path, help="folder that `texts` wrote")
    parser.add_argument("--dictionary", required=True, help="the model's dict.txt")
    parser.add_argument(
        "--projection",
        choices=["random", "adaptive", "flat", "head"],
        default="random",
        help="random: random softmax projections, as in the released script | adaptive: the checkpoint's own softmax "
        "| flat | head",
    )
    parser.add_argument(
        "--projection-seed", type=whole(0), default=1, help="seed of the random projections and of the dropout"
    )
    parser.add_argument("--dropout", action="store_true", help="apply dropout, as the released script does")
    parser.add_argument("--projections", help="safetensors file to save the projections to, with their seed")
    parser.add_argument("--projections-from", type=Path, help="read the projections from this file")
    parser.add_argument("--out", required=True, metavar="BASE", help="write BASE.tsv and BASE_max_probs.json")


def run(args: argparse.Namespace) -> None:
    decoder = load_decoder(args.weights, args.description, execution(args))
    vocabulary = decoder.vocabulary.reading(args.projection, args.projection_seed)
    if (args.dropout or args.projections_from) and vocabulary.generator_state is None:
        option = "--dropout" if args.dropout else "--projections-from"
        raise UserError(
            f"{option}: works only with the random projections of an adaptive softmax", "give --projection random"
        )
    if args.projections_from:
        vocabulary.replace_projections(*_given(args.projections_from, vocabulary))
    with torch.inference_mode():
        state = vocabulary.generator_state if args.dropout else None
        table = agreement_script.rows(decoder, vocabulary, Dictionary.read(args.dictionary), args.texts, state)
    write_whole(f"{args.out}.tsv", agreement_script.tsv(table))
    write_whole(f"{args.out}_max_probs.json", agreement_script.max_probabilities(table, decoder.description.keys))
    if args.projections:
        _export(vocabulary, args)


def _given(path: Path, vocabulary: Vocabulary) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Read projections that ``_export`` wrote, or the released script's softmax as torch saves it."""
    hint = "give a file that --projections or torch.save(softmax.state_dict(), PATH) wrote"
    if not path.is_file():
        raise UserError(f"{path}: no such file", hint)
    try:
        found = load_file(path) if path.suffix == ".safetensors" else load_tensors(path)
        names = [("class_proj", "head.class_proj.weight")]
        names += [(f"tail.{k}", f"tail.{k}.0.weight") for k in range(len(vocabulary.clusters) - 1)]
        classes, *tails = (found[name] if name in found else found[long] for name, long in names)
    except (OSError, SafetensorError, KeyError) as error:
        raise UserError(f"{path}: has no softmax projections ({error})", hint) from None
    for tensor, like, (name, _) in zip((classes, *tails), _projections(vocabulary), names, strict=True):
        if tensor.shape != like.shape:
            raise UserError(
                f"{path}: {name} has shape {tuple(tensor.shape)}, the model's has {tuple(like.shape)}", hint
            )
        if not tensor.is_floating_point() or not torch.isfinite(tensor.float()).all():
            raise UserError(f"{path}: {name} has entries that are not finite floating-point numbers", hint)
    return classes, tails


def _projections(vocabulary: Vocabulary) -> list[torch.Tensor]:
    """Return the projections to the classes and to each tail, of an adaptive softmax."""
    held = [vocabulary.classes, *(cluster.projection for cluster in vocabulary.clusters[1:])]
    return [projection for projection in held if projection is not None]


def _export(vocabulary: Vocabulary, args: argparse.Namespace) -> None:
    names = ["class_proj", *(f"tail.{k}" for k in range(len(vocabulary.clusters) - 1))]
    with atomic_write(args.projections) as partial:
        save_file(
            {name: tensor.cpu().contiguous() for name, tensor in zip(names, _projections(vocabulary), strict=False)},
            partial,
            metadata={"projection": args.projection, "seed": json.dumps(args.projection_seed)},
        )
